"""Observe — what counting adds to a turn.

    python -m bench.observe [--turns 1000] [--same]

The same turns (100 deltas each) run in this process with everything that is counted, and with all the other effectors but
that one. Compared is the CPU per turn, of all threads, in pairs of short rounds whose order alternates, so that what the
machine does meanwhile hits both. Each pair gives one ratio; told are the median of all, and the bounds that hold it with a
confidence of 95 %. The garbage collector works between the rounds. Goal: at most 3 %. `--same` compares the plain one with
another plain one: what is told then is the error of the method, and must have 1 within its bounds.

Besides: what one delta costs the effector, and what a scrape takes.
"""

import argparse
import gc
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio

from agentvm.app import AgentVM, open_agentvm
from agentvm.commands.call import Peer
from agentvm.commands.dispatch import answer
from agentvm.config import ServerConfig
from agentvm.ecosystem import Ecosystem
from agentvm.events.base import Event, Scope
from agentvm.events.stream import TextDelta
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, SessionId, TurnId
from agentvm.observability.exposition import render
from agentvm.protocol import commands as ask
from bench.measure import table
from bench.metering import play
from bench.servers import StampingDriver

DELTAS = 200_000
ROUND = 2
"""Turns: short, so that both rounds of a pair meet the same machine."""
WARM = 4
"""Pairs that do not count."""


Playing = tuple[AgentVM, Peer]


@asynccontextmanager
async def opened(counted: bool) -> AsyncIterator[Playing]:
    with TemporaryDirectory() as data_dir:
        config = ServerConfig(port=0, data_dir=Path(data_dir), grace=0)
        async with open_agentvm(config, drivers={"scripted": StampingDriver(0.0)}) as vm:
            if not counted:
                # Only a benchmark may do this: a runtime is opened with its effectors.
                told: Ecosystem = vm.runtime.journal._tell.__self__  # type: ignore[attr-defined]  # A bound method.
                others = [effector for effector in told._effectors if effector is not vm.observatory.metrics]
                silent = Ecosystem(others).tell
                vm.runtime.journal._tell = silent
                object.__setattr__(vm.runtime._ports, "tell", silent)
                vm._observatory = None
            yield vm, vm.attach()


async def new_image(peer: Peer, number: int) -> ImageId:
    """With a history of its own: a long one would cost more than what is looked for."""
    home = peer.store.container(ContainerId(f"c{number}"))
    await home.create(1)
    await answer(peer, ask.ImageCreate(container_id=f"c{number}"), "r")
    (image,) = await home.list_images()
    return image.image_id


def of_one_delta(vm: AgentVM) -> float:
    """Nanoseconds."""
    scope = Scope(container_id=ContainerId("c1"), session_id=SessionId("s"), turn_id=TurnId("t"))
    event = Event(data=TextDelta(text="x"), scope=scope, timestamp=1, tenant_id=DEFAULT_TENANT, seq=1)
    react = vm.observatory.metrics.react
    began = time.perf_counter_ns()
    for _ in range(DELTAS):
        react(event)
    return (time.perf_counter_ns() - began) / DELTAS


def of_one_scrape(vm: AgentVM) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    for _ in range(20):
        render(vm.observatory.samples())
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


async def main(turns: int, same: bool) -> None:
    async with opened(False) as plain, opened(not same) as other:
        floor, full = await compare(plain, other, max(10, turns // ROUND))
        ratio, low, high = median_within([one / base for base, one in zip(floor, full, strict=True)])
        print(table([["", "us CPU/turn"], ["plain", f"{median(floor):.0f}"], ["counted", f"{median(full):.0f}"]]))
        print(f"ratio: {ratio:.3f} (95 %: {low:.3f} to {high:.3f}; {len(full)} pairs)")
        if not same:
            print(f"one delta: {of_one_delta(other[0]):.0f} ns; one scrape: {of_one_scrape(other[0]):.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--same", action="store_true")
    given = parser.parse_args()
    anyio.run(main, given.turns, given.same, backend_options={"use_uvloop": True})
