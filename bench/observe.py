"""Observe — what counting adds to a turn.

    python -m bench.observe [--turns 400]

The same turns (100 deltas each) run in this process with everything that is counted, and without the effector. Compared is the
CPU per turn, in alternating rounds. Goal: at most 3 %. Besides: what one delta costs the effector, and what a scrape takes.
"""

import argparse
import time
from collections.abc import AsyncIterator
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


@asynccontextmanager
async def opened(counted: bool) -> AsyncIterator[tuple[AgentVM, Peer, ImageId]]:
    with TemporaryDirectory() as data_dir:
        config = ServerConfig(port=0, data_dir=Path(data_dir), grace=0)
        async with open_agentvm(config, drivers={"scripted": StampingDriver(0.0)}) as vm:
            if not counted:
                # Only a benchmark may do this: a runtime is opened with its effectors.
                silent = Ecosystem((vm.runtime.broadcaster,)).tell
                vm.runtime.journal._tell = silent
                object.__setattr__(vm.runtime._ports, "tell", silent)
                vm._observatory = None
            peer = vm.attach()
            await peer.store.container(ContainerId("c1")).create(1)
            await answer(peer, ask.ImageCreate(container_id="c1"), "r")
            (image,) = await peer.store.container(ContainerId("c1")).list_images()
            yield vm, peer, image.image_id


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


async def main(turns: int) -> None:
    costs: dict[bool, list[float]] = {False: [], True: []}
    async with opened(False) as plain, opened(True) as counted:
        for number in range(13):
            # Who is first is another each time: what the machine does meanwhile is nobody's fault.
            for kind, (_, peer, image_id) in ((False, plain), (True, counted))[:: 1 if number % 2 else -1]:
                cost = await play(peer, image_id, max(10, turns // 13))
                if number:
                    costs[kind].append(cost)
        delta, scrape = of_one_delta(counted[0]), of_one_scrape(counted[0])
    floor, full = median(costs[False]), median(costs[True])
    rows = [["", "us CPU/turn", "ratio"], ["plain", f"{floor:.0f}", "1.00"]]
    print(table([*rows, ["counted", f"{full:.0f}", f"{full / floor:.3f}"]]))
    print(f"one delta: {delta:.0f} ns; one scrape: {scrape:.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=400)
    anyio.run(main, parser.parse_args().turns, backend_options={"use_uvloop": True})
