"""Stop — how soon a turn has ended after somebody says so, while many others stream.

    python -m bench.stop [--turns 200] [--stops 100]

The model streams over real HTTP, 50 deltas a second each. Another device interrupts turns at random and waits for
each: until it hears `turn_response`, and until the provider sees its connection closed. The floor is the round trip of a
command that does next to nothing, from the same device under the same load. Goal: p99 of 200 ms.
"""

import argparse
import json
import random
import time

import anyio
from tests.support.answers import event, message_end, message_start, stream
from tests.support.provider import Delay, ProviderRequest, ScriptedProvider, Step, open_provider
from websockets.asyncio.client import ClientConnection, connect

from bench.density import Users, connect_users
from bench.measure import Server, percentile, raise_file_limit, running, table

PACE_SECONDS = 0.02
DELTAS = 30_000


def long_answer() -> list[Step]:
    delta = {"index": 0, "delta": {"type": "text_delta", "text": "some words of an answer "}}
    steps: list[Step] = [
        message_start(),
        event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
    ]
    for _ in range(DELTAS):
        steps += [event("content_block_delta", delta), Delay(PACE_SECONDS)]
    return [*steps, event("content_block_stop", {"index": 0}), *message_end()]


async def wait_for(socket: ClientConnection, text: str) -> None:
    async for frame in socket:
        if text in str(frame):
            return


async def ignore(socket: ClientConnection) -> None:
    async for _ in socket:
        pass


async def begin_turns(provider: ScriptedProvider, users: Users) -> dict[str, ProviderRequest]:
    """Which image's turn is which request: each user says its own image's id."""
    for socket, message in users:
        frame = json.loads(message)
        frame["data"]["content"] = frame["data"]["imageId"]
        await socket.send(json.dumps(frame))
    await provider.wait_request(len(users))
    for socket, _ in users:
        await wait_for(socket, '"type":"text_delta"')
    asked = {}
    for _, message in users:
        image_id = json.loads(message)["data"]["imageId"]
        asked[image_id] = next(request for request in provider.requests if image_id.encode() in request.body)
    return asked


async def stop(device: ClientConnection, image_id: str, request: ProviderRequest) -> tuple[float, float]:
    """Seconds until the turn's end is heard, and until the provider's socket is closed."""
    await device.send(json.dumps({"type": "image_get_request", "data": {"requestId": "get", "imageId": image_id}}))
    await wait_for(device, '"image_get_response"')
    closed = 0.0

    async def watch() -> None:
        nonlocal closed
        await request.abandoned.wait()
        closed = time.monotonic()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        started = time.monotonic()
        await device.send(json.dumps({"type": "agent_interrupt_request", "data": {"requestId": "stop", "imageId": image_id}}))
        await wait_for(device, '"turn_response"')
        heard = time.monotonic()
    return heard - started, closed - started


async def ask(device: ClientConnection) -> float:
    started = time.monotonic()
    await device.send(json.dumps({"type": "container_get_request", "data": {"requestId": "r", "containerId": "bench-0"}}))
    await wait_for(device, '"container_get_response"')
    return time.monotonic() - started


async def measure(server: Server, provider: ScriptedProvider, turns: int, stops: int) -> list[list[float]]:
    users = await connect_users(server, "agentvm", 0, turns)
    asked = await begin_turns(provider, users)
    trivial, heard, closed = [], [], []
    async with anyio.create_task_group() as tasks:
        for socket, _ in users:
            tasks.start_soon(ignore, socket)
        for image_id in random.Random(1).sample(sorted(asked), min(stops, turns)):
            # A device of its own for each: it has not heard the others' turns.
            async with connect(f"ws://127.0.0.1:{server.port}/ws", compression=None) as device:
                trivial.append(await ask(device))
                ended = await stop(device, image_id, asked[image_id])
                heard.append(ended[0])
                closed.append(ended[1])
        tasks.cancel_scope.cancel()
    return [trivial, heard, closed]


async def main(turns: int, stops: int) -> None:
    async with open_provider() as provider:
        provider.play(stream(long_answer()))
        with running("agentvm", provider=provider.base_url) as server:
            measured = await measure(server, provider, turns, stops)
    rows = [["", "p50 ms", "p99 ms", "p99 x floor"]]
    names = ("floor: a trivial command", "until the end is heard", "until the provider's socket is closed")
    floor = percentile(measured[0], 0.99)
    for name, times in zip(names, measured, strict=True):
        last = percentile(times, 0.99)
        rows.append([name, f"{percentile(times, 0.5) * 1000:.1f}", f"{last * 1000:.1f}", f"{last / floor:.1f}"])
    print(f"{turns} turns stream, one delta every {PACE_SECONDS * 1000:.0f} ms each; {len(measured[0])} of them are stopped")
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--stops", type=int, default=100)
    raise_file_limit()
    options = parser.parse_args()
    anyio.run(main, options.turns, options.stops, backend_options={"use_uvloop": True})
