"""Clients that follow a turn and wait cost one task each, that of their connection, in every dialect."""

import asyncio
import json
from typing import Any

import anyio
from tests.gateways.mcp.fixtures import stateless
from tests.gateways.scene import scene

FOLLOWERS = 5
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
CHAT = {"id": "c", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "stop"}]}]}
RUN = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "stop"}]}
COMPLETION = {"model": "default", "messages": [{"role": "user", "content": "stop"}], "stream": True}
KEYED = {"Idempotency-Key": "k"}
ASK, ABOUT = stateless("tools/call", name="ask_default", arguments={"message": "stop"})
TASK = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "TURN"}}
Request = tuple[str, str, Any, dict[str, str]]
REQUESTS: dict[str, Request] = {
    "plain": ("GET", "/v1/turns/TURN/events?follow=true", None, {}),
    "openai, chat": ("POST", "/v1/chat/completions", COMPLETION, KEYED),
    "openai, responses": ("GET", "/v1/responses/resp_TURN?stream=true", None, {}),
    "mcp": ("POST", "/mcp", ASK, {**ABOUT, **KEYED}),
    "langgraph, runs": ("GET", "/langgraph/threads/SESSION/runs/TURN/stream", None, {}),
    "langgraph, threads": ("POST", "/langgraph/threads/SESSION/stream/events", {"channels": ["messages", "lifecycle"]}, {}),
    "a2a": ("POST", "/a2a/default/", TASK, {}),
    "agui": ("POST", "/ag-ui/default", RUN, {}),
    "ai_sdk": ("GET", "/ai-sdk/default/c/stream", None, {}),
}
"""What follows a turn of the session, or begins one that those after it follow."""


class Follower(asyncio.Protocol):
    """A connection whose answer has begun or not; it has no task of its own."""

    def __init__(self) -> None:
        self.head = b""
        self.begun = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.head += data
        if not self.begun.done() and b"\r\n\r\n" in self.head:
            self.begun.set_result(None)


async def follow(port: int, request: Request) -> tuple[asyncio.Transport, Follower]:
    """Returns a connection whose answer has begun."""
    method, path, body, headers = request
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in {**JSON, **headers}.items()]
    transport, follower = await asyncio.get_running_loop().create_connection(Follower, "127.0.0.1", port)
    transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
    await follower.begun
    return transport, follower


async def test_clients_that_wait_for_a_turn_cost_the_task_of_their_connection() -> None:
    async with scene() as served:
        with anyio.fail_after(60):
            transport, begun = await follow(served.port, ("POST", "/ai-sdk/default", CHAT, {}))
            opened = [transport]
            headers = dict(line.lower().split(": ", 1) for line in begun.head.decode().split("\r\n") if ": " in line)
            for name, request in REQUESTS.items():
                named = json.dumps(request).replace("TURN", headers["x-avm-turn"]).replace("SESSION", headers["x-avm-session"])
                method, path, body, about = json.loads(named)
                opened.append((await follow(served.port, (method, path, body, about)))[0])
                await anyio.wait_all_tasks_blocked()
                before = len(asyncio.all_tasks())
                for _ in range(FOLLOWERS):
                    transport, follower = await follow(served.port, (method, path, body, about))
                    assert follower.head.startswith(b"HTTP/1.1 200 "), name
                    assert b"text/event-stream" in follower.head, name
                    opened.append(transport)
                await anyio.wait_all_tasks_blocked()
                assert len(asyncio.all_tasks()) - before == FOLLOWERS, name
        for transport in opened:
            transport.close()
