"""Stop — how soon a turn has ended after somebody says so, while many others stream.

    python -m bench.stop [--turns 200] [--stops 100]

The model streams over real HTTP, 50 deltas a second each. Another device interrupts turns at random and waits for
each: until it hears `turn_response`, and until the provider sees its connection closed. The floor is the round trip of a
command that does next to nothing, from the same device under the same load. Goal: p99 of 200 ms.

Provider and clients share the CPUs with the server, so they do as little as they can: the provider writes the same bytes to
all its connections, and a client throws away what it receives after its first delta.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

import anyio
from tests.support.answers import delta, event, message_start
from websockets.asyncio.client import ClientConnection, connect

from bench.density import Users, connect_users
from bench.measure import Server, percentile, raise_file_limit, running, table

PACE_SECONDS = 0.02
GROUPS = 10
"""Connections get their deltas in as many groups, one after another, as those of many models would come."""
START_SECONDS_MAX = 60.0
"""All turns stream by then."""
SETTLE_SECONDS = 2.0
"""For the start of so many turns at once, and for what the first turn of a process loads."""
MEASURE_SECONDS_MAX = 60.0
"""No stop begins later."""
STOP_SECONDS_MAX = 10.0
"""A stop that takes longer counts as this long: the machine cannot do what is asked of it."""


def chunked(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_WORDS = "some words of an answer "
_MESSAGES = (
    _HEAD
    + chunked(message_start() + event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})),
    chunked(event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": _WORDS}})),
)
"""The beginning of an answer of Anthropic, and a delta."""
_CHAT = (_HEAD + chunked(delta({"role": "assistant", "content": ""})), chunked(delta({"content": _WORDS})))
"""The same of OpenAI."""


class ProviderCall(asyncio.Protocol):
    """A connection of the provider, and its one request."""

    def __init__(self, provider: "Provider") -> None:
        self._provider = provider
        self.request = self.delta = b""
        self.closed = anyio.Event()
        self.closed_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.request += data
        head, end, body = self.request.partition(b"\r\n\r\n")
        length = next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"0")
        if end and len(body) == int(length):
            begin, self.delta = _CHAT if b"/chat/completions" in head else _MESSAGES
            self.transport.write(begin)
            self._provider.calls.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed_at = time.monotonic()
        self.closed.set()


class Provider:
    """Answers every request with deltas, for as long as its client stays."""

    def __init__(self) -> None:
        self.calls: list[ProviderCall] = []
        self.deltas = 0

    async def stream(self) -> None:
        group, due = 0, time.monotonic()
        while True:
            for call in self.calls[group::GROUPS]:
                if not call.closed.is_set():
                    call.transport.write(call.delta)
                    self.deltas += 1
            group = (group + 1) % GROUPS
            due += PACE_SECONDS / GROUPS
            await anyio.sleep(max(0.0, due - time.monotonic()))

    def call_of(self, image_id: str) -> ProviderCall:
        return next(call for call in self.calls if image_id.encode() in call.request)


@asynccontextmanager
async def open_provider() -> AsyncIterator[tuple[Provider, str]]:
    """Yields a provider and its address."""
    provider = Provider()
    server = await asyncio.get_running_loop().create_server(lambda: ProviderCall(provider), "127.0.0.1", 0)
    async with server, anyio.create_task_group() as tasks:
        tasks.start_soon(provider.stream)
        yield provider, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        tasks.cancel_scope.cancel()
        for call in provider.calls:
            call.transport.abort()


async def wait_for(socket: ClientConnection, text: str) -> None:
    async for frame in socket:
        if text in str(frame):
            return


async def begin_turn(socket: ClientConnection, message: str) -> None:
    """Sends a message that names its own image, and reads nothing more after the first delta."""
    frame = json.loads(message)
    frame["data"]["content"] = frame["data"]["imageId"]
    await socket.send(json.dumps(frame))
    await wait_for(socket, '"type":"text_delta"')
    socket.transport.set_protocol(asyncio.Protocol())


async def begin_turns(provider: Provider, users: Users) -> dict[str, ProviderCall]:
    """Returns the model call of each image's turn."""
    with anyio.move_on_after(START_SECONDS_MAX) as start:
        async with anyio.create_task_group() as tasks:
            for socket, message in users:
                tasks.start_soon(begin_turn, socket, message)
    if start.cancelled_caught:
        raise SystemExit(f"{len(users)} turns did not stream within {START_SECONDS_MAX:.0f} s: the machine is too busy")
    images = [json.loads(message)["data"]["imageId"] for _, message in users]
    return {image_id: provider.call_of(image_id) for image_id in images}


async def stop(device: ClientConnection, image_id: str, call: ProviderCall) -> tuple[float, float]:
    """Seconds until the turn's end is heard, and until the provider's socket is closed."""
    await device.send(json.dumps({"type": "image_get_request", "data": {"requestId": "get", "imageId": image_id}}))
    await wait_for(device, '"image_get_response"')
    started = time.monotonic()
    await device.send(json.dumps({"type": "agent_interrupt_request", "data": {"requestId": "stop", "imageId": image_id}}))
    await wait_for(device, '"turn_response"')
    heard = time.monotonic()
    await call.closed.wait()
    return heard - started, call.closed_at - started


async def ask(device: ClientConnection) -> float:
    started = time.monotonic()
    await device.send(json.dumps({"type": "container_get_request", "data": {"requestId": "r", "containerId": "bench-0"}}))
    await wait_for(device, '"container_get_response"')
    return time.monotonic() - started


async def measure_stops(server: Server, calls: Mapping[str, ProviderCall], stops: int) -> list[list[float]]:
    trivial, heard, closed = [], [], []
    until = time.monotonic() + MEASURE_SECONDS_MAX
    for image_id in random.Random(1).sample(sorted(calls), min(stops, len(calls))):
        if time.monotonic() > until:
            break
        # A device of its own for each: it has not heard the others' turns.
        async with connect(f"ws://127.0.0.1:{server.port}/ws", compression=None, open_timeout=60, close_timeout=1) as device:
            asked, ended = STOP_SECONDS_MAX, (STOP_SECONDS_MAX, STOP_SECONDS_MAX)
            with anyio.move_on_after(STOP_SECONDS_MAX):
                asked = await ask(device)
                ended = await stop(device, image_id, calls[image_id])
            trivial.append(asked)
            heard.append(ended[0])
            closed.append(ended[1])
    return [trivial, heard, closed]


async def main(turns: int, stops: int) -> None:
    async with open_provider() as (provider, address):
        with running("agentvm", provider=address) as server:
            users = await connect_users(server, "agentvm", 0, turns)
            calls = await begin_turns(provider, users)
            await anyio.sleep(SETTLE_SECONDS)
            cpu, started, deltas = server.cpu, time.monotonic(), provider.deltas
            measured = await measure_stops(server, calls, stops)
            cpu, seconds, deltas = server.cpu - cpu, time.monotonic() - started, provider.deltas - deltas
    rows = [["", "p50 ms", "p99 ms", "p99 x floor"]]
    names = ("floor: a trivial command", "until the end is heard", "until the provider's socket is closed")
    floor = percentile(measured[0], 0.99)
    for name, times in zip(names, measured, strict=True):
        last = percentile(times, 0.99)
        rows.append([name, f"{percentile(times, 0.5) * 1000:.1f}", f"{last * 1000:.1f}", f"{last / floor:.1f}"])
    print(f"{turns} turns stream, one delta every {PACE_SECONDS * 1000:.0f} ms each; {len(measured[0])} of them are stopped")
    print(table(rows))
    print(
        f"{deltas / seconds:,.0f} deltas a second; the server used {cpu / seconds:.2f} CPUs, {cpu / deltas * 1e6:.0f} µs/delta"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--stops", type=int, default=100)
    raise_file_limit()
    options = parser.parse_args()
    anyio.run(main, options.turns, options.stops, backend_options={"use_uvloop": True})
