"""Streaming — CPU of reading a provider's deltas, next to a socket whose bytes are only counted.

    python -m bench.streaming [--calls 100] [--seconds 3]

A provider in a process of its own sends 50 deltas a second on each connection. The floor is a bare protocol that counts them in
the bytes it is handed: no HTTP, no JSON. The drivers make whole calls, and what they yield is counted; nothing is stored or
sent on. Each is measured with all its calls at once, as the deltas of many turns come.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

import anyio

from agentvm.drivers import anthropic, openai
from agentvm.drivers.base import Driver, DriverSettings, Prompt, TextChunk, UserEntry
from agentvm.model.secret import Secret
from bench.measure import raise_file_limit, table
from bench.stop import open_provider

ROUNDS = 3
"""The best of each counts."""
SETTLE_SECONDS = 1.0
_REQUEST = b"POST /v1/messages HTTP/1.1\r\nhost: bench\r\ncontent-length: 2\r\n\r\n{}"
_PROMPT = Prompt(model="bench", conversation=(UserEntry(content="hi"),), max_tokens=100)


class Counter(asyncio.Protocol):
    """A connection of the floor."""

    def __init__(self) -> None:
        self.deltas = 0

    def data_received(self, data: bytes) -> None:
        self.deltas += data.count(b"\n\n")


async def measure(seconds: float, count: Callable[[], int]) -> tuple[float, int]:
    """CPU of this process per delta in microseconds, and the deltas."""
    cpu, before = time.process_time(), count()
    await anyio.sleep(seconds)
    cpu, deltas = time.process_time() - cpu, count() - before
    return cpu / max(1, deltas) * 1e6, deltas


async def measure_floor(address: str, calls: int, seconds: float) -> tuple[float, int]:
    host, _, port = urlsplit(address).netloc.partition(":")
    loop = asyncio.get_running_loop()
    connections = [await loop.create_connection(Counter, host, int(port)) for _ in range(calls)]
    for transport, _ in connections:
        transport.write(_REQUEST)
    await anyio.sleep(SETTLE_SECONDS)
    measured = await measure(seconds, lambda: sum(counter.deltas for _, counter in connections))
    for transport, _ in connections:
        transport.abort()
    return measured


async def measure_driver(opened: AbstractAsyncContextManager[Driver], calls: int, seconds: float) -> tuple[float, int]:
    deltas, streaming = 0, anyio.Event()

    async def call(driver: Driver) -> None:
        nonlocal deltas
        async for output in driver.run(_PROMPT):
            if isinstance(output, TextChunk):
                deltas += 1
                if deltas == 10 * calls:
                    streaming.set()

    async with opened as driver, anyio.create_task_group() as tasks:
        for _ in range(calls):
            tasks.start_soon(call, driver)
        await streaming.wait()
        await anyio.sleep(SETTLE_SECONDS)
        measured = await measure(seconds, lambda: deltas)
        tasks.cancel_scope.cancel()
    return measured


async def main(address: str, calls: int, seconds: float) -> None:
    settings = DriverSettings(base_url=address, api_key=Secret("bench"))
    best: dict[str, tuple[float, int]] = {}
    for _ in range(ROUNDS):
        measured = {
            "floor": await measure_floor(address, calls, seconds),
            "anthropic": await measure_driver(anthropic.open_driver(settings), calls, seconds),
            "openai": await measure_driver(openai.open_driver(settings), calls, seconds),
        }
        best = {name: min(result, best.get(name, result)) for name, result in measured.items()}
    rows = [["", "CPU µs/delta", "x floor", "deltas"]]
    for name, (micros, deltas) in best.items():
        rows.append([name, f"{micros:.1f}", f"{micros / best['floor'][0]:.2f}", f"{deltas:,}"])
    print(f"{calls} calls stream, one delta every 20 ms each")
    print(table(rows))


async def provide() -> None:
    async with open_provider() as (_, address):
        print(address, flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--provide", action="store_true", help=argparse.SUPPRESS)
    raise_file_limit()
    options = parser.parse_args()
    if options.provide:
        anyio.run(provide, backend_options={"use_uvloop": True})
        raise SystemExit
    with subprocess.Popen(
        [sys.executable, "-m", "bench.streaming", "--provide"], stdout=subprocess.PIPE, text=True
    ) as provider:
        try:
            assert provider.stdout is not None
            parts = (provider.stdout.readline().strip(), options.calls, options.seconds)
            anyio.run(main, *parts, backend_options={"use_uvloop": True})
        finally:
            provider.kill()
