"""Consoles — memory and CPU of a server while many consoles are open and idle, against as many plain sockets.

    python -m bench.consoles [--users 1000] [--seconds 10]

Every user has a container with a conversation, which is made before anything is counted. A console asks for what the pages of
the console ask for when they open a conversation, and subscribes to its container without deltas and to its conversation with
them. A plain socket asks for nothing. Half of them come first: what these take once, above all the pages that the database
keeps, is told apart from what each further one costs. Goal: consoles cost at most 1.1 times the sockets.
"""

import argparse
import json
from typing import NamedTuple

import anyio
from websockets.asyncio.client import ClientConnection, connect

from bench.measure import Server, raise_file_limit, running, table

AT_ONCE = 50
GOAL = 1.1

Sessions = list[tuple[str, str]]
"""The container and the session of each user."""


def frame(kind: str, **data: object) -> str:
    return json.dumps({"type": f"{kind}_request", "data": {"requestId": kind, **data}})


def opened(container_id: str, session_id: str) -> tuple[list[str], int]:
    """Returns the frames of a console that opens a conversation, and the number of replies."""
    asked = [
        frame("definition_list"),
        frame("session_drafts", sessionId=session_id),
        frame("session_history", sessionId=session_id, order="newest", limit=100, follow=True),
        frame("session_browse", limit=100),
        frame("session_draft_list", limit=200),
        frame("session_get", sessionId=session_id),
        frame("session_rewinds", sessionId=session_id),
        frame("tool_waits", sessionId=session_id),
        frame("session_summaries", sessionId=session_id),
    ]
    return [json.dumps({"type": "subscribe", "containerId": container_id, "deltas": False}), *asked], len(asked)


async def open_socket(server: Server) -> ClientConnection:
    return await connect(f"ws://127.0.0.1:{server.port}/ws", compression=None, ping_interval=None, open_timeout=120)


async def make_sessions(server: Server, users: int) -> Sessions:
    sessions: Sessions = []
    async with await open_socket(server) as socket:
        for number in range(users):
            container_id = f"bench-{number}"
            await socket.send(frame("image_create", containerId=container_id))
            async for text in socket:
                reply = json.loads(text)
                if reply.get("type") == "image_create_response":
                    sessions.append((container_id, reply["data"]["record"]["sessionId"]))
                    break
    return sessions


async def crowd(server: Server, sessions: Sessions, *, are_consoles: bool) -> list[ClientConnection]:
    sockets: list[ClientConnection] = []
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def enter(container_id: str, session_id: str) -> None:
        async with limit:
            socket = await open_socket(server)
            sockets.append(socket)
            frames, replies = opened(container_id, session_id) if are_consoles else ([], 0)
            for text in frames:
                await socket.send(text)
            while replies:
                replies -= json.loads(await socket.recv()).get("category") == "response"

    async with anyio.create_task_group() as tasks:
        for container_id, session_id in sessions:
            tasks.start_soon(enter, container_id, session_id)
    return sockets


async def leave(sockets: list[ClientConnection]) -> None:
    async with anyio.create_task_group() as tasks:
        for socket in sockets:
            tasks.start_soon(socket.close)


class Cost(NamedTuple):
    """What a crowd costs the server."""

    each_kib: float
    """Memory for each further one: what the second half of the crowd has added."""
    once_kib: float
    """Memory that the first half has taken beyond that, and that does not grow: code, and the pages that the database keeps."""
    idle_ms: float
    """Milliseconds of CPU a second while all are idle."""


async def measure(users: int, seconds: float, *, are_consoles: bool) -> Cost:
    with running("agentvm") as server:
        sessions = await make_sessions(server, users)
        # One comes and goes first: what is loaded with the first request is nobody's cost.
        await leave(await crowd(server, sessions[:1], are_consoles=True))
        half, empty = users // 2, server.rss
        sockets = await crowd(server, sessions[:half], are_consoles=are_consoles)
        middle = server.rss
        sockets += await crowd(server, sessions[half:], are_consoles=are_consoles)
        full, cpu = server.rss, server.cpu
        await anyio.sleep(seconds)
        idle = (server.cpu - cpu) / seconds * 1000
        await leave(sockets)
    each = (full - middle) / (users - half) / 1024
    return Cost(each, (middle - empty) / 1024 - each * half, idle)


async def run(users: int, seconds: float) -> None:
    raise_file_limit()
    plain = await measure(users, seconds, are_consoles=False)
    consoles = await measure(users, seconds, are_consoles=True)
    rows = [
        ("", "plain socket", "console", "ratio"),
        (
            "KiB for each further one",
            f"{plain.each_kib:.1f}",
            f"{consoles.each_kib:.1f}",
            _ratio(plain.each_kib, consoles.each_kib),
        ),
        ("KiB once, for all", f"{plain.once_kib:.0f}", f"{consoles.once_kib:.0f}", "—"),
        (
            "ms CPU a second, all idle",
            f"{plain.idle_ms:.1f}",
            f"{consoles.idle_ms:.1f}",
            _ratio(plain.idle_ms, consoles.idle_ms),
        ),
    ]
    print(f"{users} open and idle for {seconds:.0f} s; goal {GOAL} at most")
    print(table(rows))


def _ratio(before: float, after: float) -> str:
    return f"{after / before:.2f}" if before > 0 else "—"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    anyio.run(run, arguments.users, arguments.seconds)
