"""Observe — what counting adds to a turn.

    python -m bench.observe [--turns 400]

The same turns (100 deltas each) run in this process with everything that is counted, without the effector, and with traces and
metrics sent to a collector on this machine, which is another process. Compared is the CPU per turn, in alternating rounds, with
that of the thread that sends. Goal: counting takes at most 3 %. Besides: what one delta costs each effector, and a scrape.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal

import anyio

from agentvm.app import AgentVM, open_agentvm
from agentvm.commands.call import Peer
from agentvm.commands.dispatch import answer
from agentvm.config import OtelConfig, ServerConfig
from agentvm.ecosystem import Ecosystem
from agentvm.events.base import Event, Scope
from agentvm.events.stream import TextDelta
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, SessionId, TurnId
from agentvm.observability.exposition import render
from agentvm.observability.tracing import Tracing
from agentvm.protocol import commands as ask
from bench.measure import table
from bench.metering import play
from bench.servers import StampingDriver

DELTAS = 200_000


Kind = Literal["plain", "counted", "sent"]
# Sending needs the extra `otel`.
KINDS: tuple[Kind, ...] = ("plain", "counted", "sent") if find_spec("opentelemetry.sdk") else ("plain", "counted")

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
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@asynccontextmanager
async def opened(kind: Kind, collector: str) -> AsyncIterator[tuple[AgentVM, Peer, ImageId]]:
    with TemporaryDirectory() as data_dir:
        otel = OtelConfig(endpoint=collector if kind == "sent" else None, export_seconds=1)
        config = ServerConfig(port=0, data_dir=Path(data_dir), grace=0, otel=otel)
        async with open_agentvm(config, drivers={"scripted": StampingDriver(0.0)}) as vm:
            if kind == "plain":
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


def of_one_delta(react: Callable[[Event], None]) -> float:
    """Nanoseconds."""
    scope = Scope(container_id=ContainerId("c1"), session_id=SessionId("s"), turn_id=TurnId("t"))
    event = Event(data=TextDelta(text="x"), scope=scope, timestamp=1, tenant_id=DEFAULT_TENANT, seq=1)
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
    costs: dict[Kind, list[float]] = {kind: [] for kind in KINDS}
    async with AsyncExitStack() as stack:
        collector = stack.enter_context(collecting())
        vms = {kind: await stack.enter_async_context(opened(kind, collector)) for kind in KINDS}
        for number in range(13):
            # Who is first is another each time: what the machine does meanwhile is nobody's fault.
            for kind in KINDS[:: 1 if number % 2 else -1]:
                _, peer, image_id = vms[kind]
                cost = await play(peer, image_id, max(10, turns // 13))
                if number:
                    costs[kind].append(cost)
        counted = vms["counted"][0]
        delta, scrape = of_one_delta(counted.observatory.metrics.react), of_one_scrape(counted)
    floor = median(costs["plain"])
    rows = [[kind, f"{median(costs[kind]):.0f}", f"{median(costs[kind]) / floor:.3f}"] for kind in KINDS]
    print(table([["", "us CPU/turn", "ratio"], *rows]))
    traced = of_one_delta(Tracing(None).react)
    print(f"one delta: {delta:.0f} ns counted, {traced:.0f} ns traced; one scrape: {scrape:.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=400)
    anyio.run(main, parser.parse_args().turns, backend_options={"use_uvloop": True})
