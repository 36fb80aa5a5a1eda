"""Observe — what counting adds to a turn.

    python -m bench.observe [--turns 1000] [--same | --sent]

The same turns (100 deltas each) run in this process with everything that is counted, and with all the other effectors but
that one. Compared is the CPU per turn, of all threads, in pairs of short rounds whose order alternates, so that what the
machine does meanwhile hits both. Each pair gives one ratio; told are the median of all, and the bounds that hold it with a
confidence of 95 %. The garbage collector works between the rounds. Goal: at most 3 %. `--same` compares the plain one with
another plain one: what is told then is the error of the method, and must have 1 within its bounds. `--sent` compares what is
counted with what is counted, traced and sent to a collector in another process, with the CPU of the thread that sends.

Besides: what one delta costs the effectors, and what a scrape takes.
"""

import argparse
import gc
import math
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal

import anyio

from agentvm.app import open_agentvm
from agentvm.config import OtelSettings, ServerConfig, SystemSettings
from agentvm.ecosystem import Ecosystem
from agentvm.events.base import Event, EventScope
from agentvm.events.stream import TextDelta
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, SessionId, TurnId
from agentvm.observability.exposition import render
from agentvm.observability.tracing import Tracing
from agentvm.operations.dispatch import answer
from agentvm.operations.image_build import ImageCreate
from agentvm.vm import AgentVM, Peer
from bench.measure import table
from bench.metering import play
from bench.servers import StampingDriver

DELTAS = 200_000
ROUND = 2
"""Turns: short, so that both rounds of a pair meet the same machine."""
WARM = 4
"""Pairs that do not count."""


Playing = tuple[AgentVM, Peer]
Kind = Literal["plain", "counted", "sent"]

COLLECTOR = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@contextmanager
def collecting() -> Iterator[str]:
    """The address of a collector that takes everything."""
    with subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


@asynccontextmanager
async def opened(kind: Kind) -> AsyncIterator[Playing]:
    with TemporaryDirectory() as data_dir, collecting() as collector:
        otel = OtelSettings(endpoint=collector if kind == "sent" else None, export_seconds=1)
        config = ServerConfig(system=SystemSettings(port=0, data_dir=str(Path(data_dir)), shutdown_seconds=0), otel=otel)
        async with open_agentvm(config, drivers={"scripted": StampingDriver(0.0)}) as vm:
            if kind == "plain":
                # Only a benchmark may do this: a runtime is opened with its effectors.
                told: Ecosystem = vm.runtime.journal._broadcast.__self__  # type: ignore[attr-defined]  # A bound method.
                others = [effector for effector in told._effectors if effector is not vm.monitor.metrics]
                silent = Ecosystem(told._peers, others).broadcast
                vm.runtime.journal._broadcast = silent
                object.__setattr__(vm.runtime._ports, "broadcast", silent)
            yield vm, vm.attach()


async def new_image(peer: Peer, number: int) -> ImageId:
    """With a history of its own: a long one would cost more than what is looked for."""
    home = peer.store.container(ContainerId(f"c{number}"))
    await home.create(1)
    await answer(peer, ImageCreate(container_id=f"c{number}"), "r")
    (image,) = await home.list_images()
    return image.image_id


def of_one_delta(react: Callable[[Event], None]) -> float:
    """Nanoseconds."""
    scope = EventScope(container_id=ContainerId("c1"), session_id=SessionId("s"), turn_id=TurnId("t"))
    event = Event(data=TextDelta(text="x"), scope=scope, timestamp=1, tenant_id=DEFAULT_TENANT, seq=1)
    began = time.perf_counter_ns()
    for _ in range(DELTAS):
        react(event)
    return (time.perf_counter_ns() - began) / DELTAS


def of_one_scrape(vm: AgentVM) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    for _ in range(20):
        render(vm.monitor.samples())
    return (time.perf_counter() - began) / 20 * 1000


async def compare(plain: Playing, other: Playing, pairs: int) -> tuple[list[float], list[float]]:
    """Microseconds per turn of each, pair by pair."""
    costs: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    gc.freeze()
    gc.disable()
    for number in range(WARM + pairs):
        for which in (0, 1) if number % 2 else (1, 0):
            _, peer = (plain, other)[which]
            cost = await play(peer, await new_image(peer, number), ROUND)
            if number >= WARM:
                costs[which].append(cost)
        gc.collect()
    gc.enable()
    return costs


def median_within(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and its bounds with a confidence of 95 %: by rank, so that it does not matter how the values are spread."""
    ordered = sorted(values)
    reach = 0.98 * math.sqrt(len(ordered))
    low, high = math.floor(len(ordered) / 2 - reach), math.ceil(len(ordered) / 2 + reach)
    return median(ordered), ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


async def main(turns: int, floor: Kind, other: Kind) -> None:
    async with opened(floor) as plain, opened(other) as full:
        costs = await compare(plain, full, max(10, turns // ROUND))
        ratio, low, high = median_within([one / base for base, one in zip(*costs, strict=True)])
        rows = [[name, f"{median(cost):.0f}"] for name, cost in zip((floor, other), costs, strict=True)]
        print(table([["", "us CPU/turn"], *rows]))
        print(f"ratio: {ratio:.3f} (95 %: {low:.3f} to {high:.3f}; {len(costs[0])} pairs)")
        if other != "plain":
            counted, traced = of_one_delta(full[0].monitor.metrics.react), of_one_delta(Tracing(None).react)
            print(f"one delta: {counted:.0f} ns counted, {traced:.0f} ns traced; one scrape: {of_one_scrape(full[0]):.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1000)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--same", action="store_true")
    which.add_argument("--sent", action="store_true")
    given = parser.parse_args()
    sides: tuple[Kind, Kind] = ("counted", "sent") if given.sent else ("plain", "plain" if given.same else "counted")
    anyio.run(main, given.turns, *sides, backend_options={"use_uvloop": True})
