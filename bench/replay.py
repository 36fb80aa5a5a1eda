"""Replay — a storm: thousands of clients come back at once, each with a cursor somewhere in the past of a session.

    python -m bench.replay [--clients 10000] [--sessions 200] [--rounds 1]

Each session has one turn of 100 deltas in its log; a client lacks about half of it. Measured is the time from the first
`subscribe` of all until a client has its last event. Clients look for that event in the bytes and parse nothing, since they
share the machine with the server. The floor is sent the same number of frames of about the same size from memory.
Goal: 1.5 times the floor's CPU.
"""

import argparse
import asyncio
import json
import os
import random
import struct
import time
from typing import NamedTuple, cast

import anyio
from websockets.asyncio.client import connect

from bench.measure import Server, percentile, raise_file_limit, running, table
from bench.turns import prepare

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
END = b'"type":"turn_response"'
_SPARE_FILES = 200


class Session(NamedTuple):
    session_id: str
    last: int


class Client(asyncio.Protocol):
    """A socket that only looks for the last event; by hand, because ten thousand of a library's would be measured too."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._seen = b""
        self.bytes = 0
        self.open = asyncio.Event()
        self.done = asyncio.Event()
        self.ended = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(HANDSHAKE)

    def data_received(self, data: bytes) -> None:
        self.bytes += len(data)
        seen = self._seen + data
        if b"\r\n\r\n" in seen:
            self.open.set()
        if END in seen:
            self.ended = time.monotonic()
            self.done.set()
        self._seen = seen[-len(END) :]

    def say(self, text: str) -> None:
        """One text frame, masked with zeros."""
        body = text.encode()
        length = struct.pack("!B", 0x80 | len(body)) if len(body) < 126 else struct.pack("!BH", 0x80 | 126, len(body))
        if self._transport is not None:
            self._transport.write(b"\x81" + length + bytes(4) + body)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def write_logs(server: Server, sessions: int) -> list[Session]:
    """Sessions with one finished turn each."""
    written = []
    for number in range(sessions):
        async with connect(f"ws://127.0.0.1:{server.port}/ws", compression=None) as socket:
            await socket.send(await prepare(socket, number))
            async for text in socket:
                if str(text).startswith('{"type":"turn_response"'):
                    frame = json.loads(text)
                    written.append(Session(frame["context"]["sessionId"], int(frame["cursor"])))
                    break
    return written


class Storm(NamedTuple):
    seconds: list[float]
    """Until each client has caught up."""
    cpu: float
    """Seconds of the server."""
    before: int
    after: int
    """Resident memory of the server."""
    sent: int


async def storm(kind: str, clients: int, sessions: int) -> Storm:
    loop, chance = asyncio.get_running_loop(), random.Random(1)
    with running(kind) as server:
        logs = await write_logs(server, sessions) if kind == "agentvm" else [Session("", 110)]
        limit = anyio.CapacityLimiter(100)
        sockets: list[Client] = []

        async def one() -> None:
            async with limit:
                _, client = await loop.create_connection(Client, "127.0.0.1", server.port)
                await client.open.wait()
                sockets.append(client)

        async with anyio.create_task_group() as tasks:
            for _ in range(clients):
                tasks.start_soon(one)
        before, cpu, started = server.rss, server.cpu, time.monotonic()
        for client in sockets:
            session = chance.choice(logs)
            seen = chance.randrange(session.last)
            subscribe = {"type": "subscribe", "sessionId": session.session_id, "afterCursor": str(seen)}
            client.say(json.dumps(subscribe) if kind == "agentvm" else str(session.last - seen))
        for client in sockets:
            await client.done.wait()
        cpu, after = server.cpu - cpu, server.rss
        for client in sockets:
            client.close()
        sent = sum(client.bytes for client in sockets)
        return Storm([client.ended - started for client in sockets], cpu, before, after, sent)


async def main(clients: int, sessions: int, rounds: int) -> None:
    rows = [["", "clients", "CPU x floor", "p99 x floor", "CPU s", "p50 s", "p99 s", "MB sent", "RSS before MiB", "after MiB"]]
    floor: Storm | None = None
    for kind in ("floor", "agentvm"):
        storms = [await storm(kind, clients, sessions) for _ in range(rounds)]
        best = min(storms, key=lambda measured: measured.cpu)
        floor = floor or best
        last, floor_last = percentile(best.seconds, 0.99), percentile(floor.seconds, 0.99)
        ratios = [f"{best.cpu / floor.cpu:.2f}", f"{last / floor_last:.2f}"]
        times = [f"{best.cpu:.2f}", f"{percentile(best.seconds, 0.5):.2f}", f"{last:.2f}"]
        memory = [f"{size / 2**20:.0f}" for size in (best.before, best.after)]
        rows.append([kind, str(clients), *ratios, *times, f"{best.sent / 1e6:.0f}", *memory])
    print(table(rows))
    print(f"{os.cpu_count()} CPUs, shared by the server and its clients")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    most = raise_file_limit() - _SPARE_FILES
    anyio.run(main, min(options.clients, most), options.sessions, options.rounds, backend_options={"use_uvloop": True})
