"""Edge — counts what a turn at the edge takes in miniflare, and writes it beside the other coefficients of `avm cost`.

    python -m bench.edge [FILE] [--turns 200]

Requests and rows are counted by the objects' own log, and are exact. CPU is that of workerd, with Workers and objects in one
process: the cost of a delta is the slope between turns of 10 and of 100 deltas. The machine of the platform is another one.
"""

import argparse
import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import anyio
import msgspec
from tests.provision.edge import edge_tools
from tests.support.answers import anthropic_text
from tests.support.edge import Burst, EdgeServer
from tests.support.provider import ScriptedProvider
from tests.support.wire import Client19, client

from agentvm.cost.coefficients import EdgeCoefficients, Measured
from bench.measure import cpu_of_family

FILE = Path(__file__).parent.parent / "src" / "agentvm" / "cost" / "coefficients.json"
FEW, MANY = 10, 100
SESSION_TURNS = 5
TURNS_MAX = 200
TYPICAL_DELTA = "13 characters"
QUESTION = "What is the difference between a process and a thread?"


async def talk(one: Client19, provider: ScriptedProvider, image_ids: Sequence[str], deltas: int) -> None:
    """Turns in sessions of the usual length: what was said before is read with each message."""
    provider.play(anthropic_text(*[TYPICAL_DELTA] * deltas))
    for image_id in image_ids:
        for _ in range(SESSION_TURNS):
            await one.say(image_id, QUESTION)


async def measure(server: EdgeServer, turns: int) -> EdgeCoefficients:
    url = server.new_url()
    async with server.provider() as provider:
        mark = len(server.log)
        async with client(url) as alice:
            first = await _images(alice, 1)
            connected = [burst for burst in await server.bursts(mark, "putImage") if burst.what == "listen"]
            # The engine compiles what it runs often.
            await talk(alice, provider, first, MANY)
            cpu = {deltas: await _cpu(server, alice, provider, deltas, turns) for deltas in (FEW, MANY)}
            image_ids = await _images(alice, turns // SESSION_TURNS)
            mark = len(server.log)
            await talk(alice, provider, image_ids, MANY)
            await alice.settle()
            counted = ("accept", "fold", "message", "alarm")
            bursts = [burst for burst in await server.bursts(mark, "containers") if burst.what in counted]
    delta = max(0.0, (cpu[MANY] - cpu[FEW]) / (MANY - FEW))
    grown = max(burst.size_bytes for burst in bursts) - min(burst.size_bytes for burst in bursts)
    return _coefficients(turns, len(connected), bursts, max(0.0, cpu[FEW] - FEW * delta), delta, grown)


async def _images(alice: Client19, count: int) -> list[str]:
    """Images whose agents run: the first message of one would start it, which is a row more."""
    image_ids = [str((await alice.image("bench"))["imageId"]) for _ in range(count)]
    for image_id in image_ids:
        await alice.request("image_run_request", imageId=image_id)
    return image_ids


async def _cpu(server: EdgeServer, alice: Client19, provider: ScriptedProvider, deltas: int, turns: int) -> float:
    """Seconds of workerd for one turn."""
    image_ids = await _images(alice, turns // SESSION_TURNS)
    start = cpu_of_family(server.pid)
    await talk(alice, provider, image_ids, deltas)
    return (cpu_of_family(server.pid) - start) / turns


def _coefficients(turns: int, connected: int, bursts: list[Burst], turn: float, delta: float, grown: int) -> EdgeCoefficients:
    source = f"bench.edge, {turns} turns of {MANY} deltas"
    return EdgeCoefficients(
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{platform.machine()}, workerd in miniflare",
        worker_requests_per_connection=Measured(value=1, unit="requests", source="the upgrade; frames are not requests"),
        object_requests_per_connection=Measured(value=connected, unit="requests", source="bench.edge, log of the objects"),
        object_requests_per_turn=Measured(value=round(len(bursts) / turns, 3), unit="requests", source=source),
        rows_per_turn=Measured(value=round(sum(burst.rows for burst in bursts) / turns, 3), unit="rows", source=source),
        awake_per_turn=Measured(value=round(fmean(burst.ms for burst in bursts) * 2, 3), unit="ms", source=source),
        cpu_per_turn=Measured(value=round(turn * 1e3, 3), unit="ms", source=f"{source}, CPU of workerd at 0 deltas"),
        cpu_per_delta=Measured(value=round(delta * 1e6, 2), unit="us", source=f"bench.edge, slope of {FEW} to {MANY} deltas"),
        storage_per_turn=Measured(value=round(grown / turns), unit="bytes", source=f"{source}, growth of the database"),
    )


def counted(turns: int = TURNS_MAX) -> EdgeCoefficients:
    """Counts in a Worker of its own."""
    with TemporaryDirectory() as folder:
        server = EdgeServer(edge_tools(), Path(folder), LEASE_SECONDS="60")
        server.start()
        try:
            return anyio.run(measure, server, turns)
        finally:
            server.stop()


def main(file: Path, turns: int) -> None:
    whole = json.loads(file.read_text(encoding="utf-8"))
    whole["edge"] = msgspec.to_builtins(counted(turns))
    file.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(whole["edge"], indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=FILE, help="the coefficients, whose section `edge` is written")
    parser.add_argument("--turns", type=int, default=TURNS_MAX)
    options = parser.parse_args()
    main(options.file, options.turns)
