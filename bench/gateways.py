"""Gateways — what a delta costs in each dialect, and what a follower costs that waits.

    python -m bench.gateways [--deltas 200000] [--followers 1000]

A delta is encoded from its event to the bytes of the wire: for AgentX 1.x a WebSocket frame, for others a server-sent event.
Goal: 1.5 times the CPU of 1.x. Then so many clients follow one turn that waits for its model; the server runs in this process,
so that its tasks can be counted. Goal: one task for each socket, and no other.
"""

import argparse
import asyncio
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.scripted import Pause, reply
from agentvm.events.base import Event, EventScope
from agentvm.events.stream import TextDelta
from agentvm.gateways.a2a.task_events import TaskEvents
from agentvm.gateways.agui.run_events import AgUiEvents
from agentvm.gateways.ai_sdk.ui_chunks import UiChunks
from agentvm.gateways.langgraph.run_events import RunEvents
from agentvm.gateways.langgraph.thread_events import ThreadEvents
from agentvm.gateways.mcp.agent_tool import AskStream
from agentvm.gateways.mcp.messages import McpCall
from agentvm.gateways.openai.chat_chunks import ChatChunks
from agentvm.gateways.openai.response_events import ResponseEvents
from agentvm.gateways.sse import Encoder
from agentvm.gateways.talk import SentTurn
from agentvm.gateways.turn_parts import AnswerBegun, PartReader
from agentvm.model.ids import DEFAULT_TENANT, AgentId, ContainerId, ImageId, MessageId, SessionId, TurnId
from agentvm.model.turn import Turn
from agentvm.operations.turn_stream import encode_sse
from agentvm.protocol.dialect_v1 import encode_stored_events
from agentvm.protocol.dialect_v2 import encode_event_v2
from agentvm.protocol.rpc_peer import RpcPeer
from agentvm.server.streams import join_texts
from bench.measure import raise_file_limit, table

_PAGE_BYTES = 4096
_ROUNDS = 5


def events(count: int) -> list[Event]:
    scope = EventScope(
        container_id=ContainerId("user-alice"),
        image_id=ImageId("img_mwjd3wtq_xvglun2593y7"),
        agent_id=AgentId("agent_mwjd3wtq_xvglun2593y7"),
        session_id=SessionId("sess_mwjd3wtq_xvglun2593y7"),
        turn_id=TurnId("turn_mwjd3wtq_xvglun2593y7"),
    )
    return [
        Event(data=TextDelta(text="token "), scope=scope, timestamp=1_700_000_000_000, tenant_id=DEFAULT_TENANT, seq=seq)
        for seq in range(1, count + 1)
    ]


def agentx(told: list[Event]) -> None:
    for event in told:
        join_texts((encode_stored_events(event).bare,))


def agentx2(told: list[Event]) -> None:
    peer = RpcPeer()
    for event in told:
        frame = encode_event_v2(event)
        if frame is not None:
            join_texts(peer.texts((frame,)))


def plain(told: list[Event]) -> None:
    for event in told:
        encode_sse(event)


def through(encoder: Encoder, told: list[Event]) -> None:
    reader = PartReader()
    encoder.begin()
    for event in told:
        for part in reader.read(event):
            encoder.write(part, event.seq)


def chat(told: list[Event]) -> None:
    through(ChatChunks("chatcmpl-turn_mwjd3wtq_xvglun2593y7", "default", 1_700_000_000), told)


def responses(told: list[Event]) -> None:
    through(ResponseEvents({"id": "resp_turn_mwjd3wtq_xvglun2593y7"}), told)


def agui(told: list[Event]) -> None:
    through(AgUiEvents("thread", "run", "turn_mwjd3wtq_xvglun2593y7"), told)


def a2a(told: list[Event]) -> None:
    turn = Turn(
        turn_id=TurnId("turn_mwjd3wtq_xvglun2593y7"),
        container_id=ContainerId("user-alice"),
        image_id=ImageId("img_mwjd3wtq_xvglun2593y7"),
        session_id=SessionId("sess_mwjd3wtq_xvglun2593y7"),
        message_id=MessageId("msg_mwjd3wtq_xvglun2593y7"),
        accepted_at=1_700_000_000_000,
    )
    through(TaskEvents("1", turn, "context"), told)


def ai_sdk(told: list[Event]) -> None:
    through(UiChunks("turn_mwjd3wtq_xvglun2593y7"), told)


def langgraph(told: list[Event]) -> None:
    reader, events = PartReader(), RunEvents("turn_mwjd3wtq_xvglun2593y7", "thread", "default", frozenset({"messages-tuple"}))
    for event in told:
        for part in reader.read(event):
            events.write(part, event.seq)


def langgraph_thread(told: list[Event]) -> None:
    reader, events = PartReader(), ThreadEvents(frozenset({"messages", "lifecycle"}))
    events.begin("turn_mwjd3wtq_xvglun2593y7", ())
    events.write(AnswerBegun("msg_1"), 0, 0)
    for event in told:
        for part in reader.read(event):
            events.write(part, event.seq, event.timestamp)


def mcp(told: list[Event]) -> None:
    turn = Turn(
        turn_id=TurnId("turn_mwjd3wtq_xvglun2593y7"),
        container_id=ContainerId("user-alice"),
        image_id=ImageId("img_mwjd3wtq_xvglun2593y7"),
        session_id=SessionId("sess_mwjd3wtq_xvglun2593y7"),
        message_id=MessageId("msg_mwjd3wtq_xvglun2593y7"),
        accepted_at=0,
    )
    call = McpCall(1, "tools/call", {"_meta": {"progressToken": 1}}, is_stateless=True)
    through(AskStream(call, SentTurn(turn, 0)), told)


def nanoseconds(encode: Callable[[list[Event]], None], told: list[Event]) -> float:
    """CPU time for one delta, the best of some rounds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time_ns()
        encode(told)
        best = min(best, (time.process_time_ns() - began) / len(told))
    return best


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


class Client(asyncio.Protocol):
    """A socket that follows a turn, and reads nothing but that it has begun."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.begun = asyncio.get_running_loop().create_future()
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if isinstance(transport, asyncio.WriteTransport):
            transport.write(f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if not self.begun.done():
            self.begun.set_result(data.startswith(b"HTTP/1.1 200"))


def begin_turn(url: str) -> str:
    body = msgspec.json.encode({"content": "wait", "wait": False})
    request = urllib.request.Request(f"{url}/v1/messages", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return str(msgspec.json.decode(response.read())["turnId"])


async def follow(count: int) -> list[list[str]]:
    waiting = ScriptedDriver(lambda prompt: [*reply("one")[:3], Pause(anyio.Event())])
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0))
    loop = asyncio.get_running_loop()
    async with start_server(config, drivers={"scripted": waiting}) as server:
        turn_id = await anyio.to_thread.run_sync(begin_turn, server.url)
        tasks, memory = len(asyncio.all_tasks()), resident()
        clients: list[Client] = []
        for _ in range(count):
            path = f"/v1/turns/{turn_id}/events?follow=true"
            _, client = await loop.create_connection(lambda: Client(path), "127.0.0.1", server.port)  # noqa: B023
            clients.append(client)
        accepted = sum(await asyncio.gather(*(client.begun for client in clients)))
        more, grown = len(asyncio.all_tasks()) - tasks, resident() - memory
        began = time.process_time()
        await anyio.sleep(1)
        idle = time.process_time() - began
        for client in clients:
            if client.transport is not None:
                client.transport.close()
    return [
        ["followers", str(accepted)],
        ["tasks for each", f"{more / count:.2f}"],
        ["memory for each, client included", f"{grown / count / 1024:.1f} KiB"],
        ["CPU of all in a second of waiting", f"{idle * 1000:.0f} ms"],
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--deltas", type=int, default=200_000)
    parser.add_argument("--followers", type=int, default=1_000)
    chosen = parser.parse_args()
    told = events(chosen.deltas)
    base = nanoseconds(agentx, told)
    rows = [["AgentX 1.x", f"{base:.0f} ns", "1.00"]]
    for name, encode in (
        ("AgentX 2.x", agentx2),
        ("plain HTTP", plain),
        ("OpenAI chat", chat),
        ("OpenAI responses", responses),
        ("A2A", a2a),
        ("AG-UI", agui),
        ("AI SDK", ai_sdk),
        ("MCP", mcp),
        ("LangGraph runs", langgraph),
        ("LangGraph threads", langgraph_thread),
    ):
        cost = nanoseconds(encode, told)
        rows.append([name, f"{cost:.0f} ns", f"{cost / base:.2f}"])
    print(table([["a delta as", "CPU", "of 1.x"], *rows]))
    raise_file_limit()
    print(f"\n{table(anyio.run(follow, chosen.followers))}")


if __name__ == "__main__":
    main()
