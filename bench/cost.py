"""Cost — measures what a turn, a delta, a call of a tool and a user take, and writes the coefficients of `avm cost`.

    python -m bench.cost [FILE] [--rounds 3] [--users 500] [--containers 20000] [--cluster | --all]

CPU is that of all threads of the server, and of the jails for tools; the best of several rounds counts. A turn is without its
deltas, by the slope between turns of 10 and of 100 deltas as fast as possible; a delta is one of 50 a second for each client,
as a model sends them, of which each is told alone. The cost of a byte of text is the slope between short and long answers.

With `--cluster` a PostgreSQL on this machine is measured, and nothing else; `--all` measures both and the edge, as
`python -m bench.edge` does. Sections that are not measured stay as they were. Without FILE the results of this release are
written, the copy of them in the package, and the bills that the documents quote.
"""

import argparse
import json
import platform
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
import msgspec
import psycopg
from tests.provision.postgres import Postgres, postgres
from websockets.asyncio.client import connect

from agentvm.cost.coefficients import ClusterCoefficients, Coefficients, Measured
from agentvm.model.tier import Job
from agentvm.storage.engine import copy_to_postgres, make_backup
from agentvm.tiers.process import open_process_tier
from agentvm.version import VERSION
from agentvm.vm import system_clock
from bench import density, disk, edge, quotes, tiers, turns, visits
from bench.coefficients import FILE, save
from bench.measure import raise_file_limit, running, wait_ready
from bench.plans import created
from bench.syncs import measure as count_syncs

CLIENTS, FEW, MANY = 50, 10, 100
SHORT_WORDS, LONG_WORDS = 10, 200
TYPICAL_DELTA_BYTES = 13
VISITS, SYNCED_TURNS = 1_000, 100
AGENTS = 2_000
"""Fewer show what the allocator rounds up."""


@dataclass(frozen=True)
class Cpu:
    """What a turn takes of the server. Turns and visits in milliseconds, a delta in microseconds."""

    turn: float
    delta: float
    visit: float


async def cpu_of_turns(rounds: int) -> Cpu:
    async def best(deltas: int, pace: float) -> float:
        return min([(await turns.measure("agentvm", CLIENTS, deltas, 0, pace))["fresh"].cpu_per_turn for _ in range(rounds)])

    few, many, paced = await best(FEW, 0), await best(MANY, 0), await best(MANY, turns.PACE_SECONDS)
    visit = min([await visits.measure(VISITS) for _ in range(rounds)])
    together = (many - few) / (MANY - FEW)
    turn = few - FEW * together
    return Cpu(turn, (paced - turn) / MANY * 1e3, visit - turn - visits.DELTAS * together)


async def disk_of_turns() -> tuple[float, float]:
    """Bytes of a turn without text, and bytes for each byte of text."""
    sizes = []
    for count in (SHORT_WORDS, LONG_WORDS):
        answer = disk.words(count)
        used, _ = await disk.measure(answer, 400, 20)
        sizes.append((len("".join(answer)) + len(disk.QUESTION), used))
    (short, few), (long, many) = sizes
    per_byte = (many - few) / (long - short)
    return few - short * per_byte, per_byte


async def backup_of_turns() -> float:
    """Bytes of a backup for each byte of a database."""
    with TemporaryDirectory() as name:
        data_dir = Path(name, "data")
        # Answers that are all the same would take no place in a backup.
        await disk.fill(data_dir, partial(disk.words, LONG_WORDS, random.Random(1)), 400, 20)
        backup = await anyio.to_thread.run_sync(partial(make_backup, data_dir, Path(name, "backup"), clock=system_clock))
        return backup.size / disk.size_of(data_dir)


async def idle_user(containers: int) -> tuple[float, float]:
    """Bytes of memory of a server without users, and bytes on disk of a user who does nothing."""
    with TemporaryDirectory() as name:
        data_dir = Path(name)
        with running("agentvm", data_dir=data_dir) as server:
            wait_ready(server)
            memory = server.rss
            await density.leave(await density.connect_users(server, "agentvm", 0, 1))
        before = disk.size_of(data_dir)
        density.multiply_containers(data_dir, containers)
        return memory, (disk.size_of(data_dir) - before) / containers


async def bytes_of_delta() -> float:
    """Bytes of the frame of a delta of the usual length."""
    with running("agentvm", deltas=1) as server:
        async with connect(f"ws://127.0.0.1:{server.port}/ws", compression=None, open_timeout=60) as socket:
            await socket.send(await turns.prepare(socket, 0))
            async for text in socket:
                frame = json.loads(text)
                if frame.get("type") == "text_delta":
                    return len(str(text).encode()) - len(frame["data"]["text"]) + TYPICAL_DELTA_BYTES
    raise SystemExit("the server closed the socket")


async def jails() -> tuple[float, float]:
    """Milliseconds of CPU of a call in a jail, and bytes of a jail."""
    async with open_process_tier() as tier:
        offer = await tier.offer()
        if offer.missing:
            raise SystemExit(offer.missing)
        job = Job(engine="python", code="1 + 1")
        await tiers.jailed(tier, job, 5)
        cpu, _ = await tiers.jailed(tier, job, 50)
        _, _, megabytes = await tiers.crowd(tier, 20)
        return cpu * 1e3, megabytes * 1e6


async def cluster() -> ClusterCoefficients:
    """What PostgreSQL takes for the same turns, and for the same rows."""
    with postgres() as server:
        runs = [(await turns.measure("postgres", CLIENTS, MANY, 0, store=server))["fresh"] for _ in range(2)]
        memory = sum(_private_memory(pid) for pid in _family(server.process.pid))
        sizes = [await _copied_size(server, name, played) for name, played in (("empty", 0), ("played", 20))]
    (empty_rows, empty), (played_rows, played) = sizes
    ratio = (played - empty) / (played_rows - empty_rows)
    cpu = min(run.store_cpu / run.turns for run in runs) * 1e3
    return ClusterCoefficients(
        cpu_of_database_per_turn=Measured(
            value=round(cpu, 3), unit="ms", source=f"bench.turns --engine postgres, {CLIENTS} clients, {MANY} deltas"
        ),
        memory_of_database=Measured(value=memory, unit="bytes", source="private and shared memory of PostgreSQL 18 after it"),
        disk_ratio=Measured(value=round(ratio, 3), unit="bytes", source="the same turns copied by avm database copy"),
    )


async def _copied_size(server: Postgres, name: str, rounds: int) -> tuple[int, int]:
    """Bytes of a database of some turns in SQLite, and of its copy in PostgreSQL."""
    with TemporaryDirectory() as directory:
        data_dir = Path(directory)
        with running("agentvm", data_dir=data_dir, deltas=MANY) as started:
            wait_ready(started)
            clients = turns.Clients(started, None)
            await clients.connect("agentvm", CLIENTS)
            await clients.play(1 + rounds)
            await clients.close()
        with created(server, name) as url, psycopg.connect(url, autocommit=True) as connection:
            copy_to_postgres(data_dir, url, lambda label, done, of: None)
            connection.execute("VACUUM FULL")
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return disk.size_of(data_dir), int(row[0])


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def _private_memory(pid: int) -> int:
    """Bytes of a process; memory that several share counts in parts. None of one that has ended: PostgreSQL's come and go."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


async def measure(rounds: int, users: int, containers: int) -> Coefficients:
    cpu = await cpu_of_turns(rounds)
    socket, _ = await density.measure("agentvm", users)
    stream = await density.measure_waiting(users)
    agent = await density.measure_resting(AGENTS)
    memory, user = await idle_user(containers)
    kept, text = await disk_of_turns()
    call, jail = await jails()
    frame, ratio, syncs = await bytes_of_delta(), await backup_of_turns(), await count_syncs(SYNCED_TURNS)
    return Coefficients(
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{platform.machine()}, Python {platform.python_version()}, {platform.system()}",
        version=VERSION,
        cpu_per_turn=Measured(value=round(cpu.turn, 3), unit="ms", source=f"bench.turns, {CLIENTS} clients, at 0 deltas"),
        cpu_per_delta=Measured(
            value=round(cpu.delta, 2), unit="us", source=f"bench.turns, {CLIENTS} clients, paced, {MANY} deltas a turn"
        ),
        cpu_per_visit=Measured(value=round(cpu.visit, 3), unit="ms", source=f"bench.visits, {VISITS} users"),
        cpu_per_tool_call=Measured(value=round(call, 2), unit="ms", source="bench.tiers, Python in a jail"),
        memory_of_server=Measured(value=round(memory), unit="bytes", source="bench.density, after the start"),
        memory_per_socket=Measured(value=round(socket * 1024), unit="bytes", source=f"bench.density, {users} users"),
        memory_per_stream=Measured(value=round(stream * 1024), unit="bytes", source=f"bench.density, {users} waiting turns"),
        memory_per_agent=Measured(
            value=round(agent * 1024), unit="bytes", source=f"bench.density, {AGENTS} agents after a turn"
        ),
        memory_per_jail=Measured(value=round(jail), unit="bytes", source="bench.tiers, 20 at once"),
        disk_per_user=Measured(value=round(user), unit="bytes", source=f"bench.density, {containers} containers"),
        disk_per_turn=Measured(value=round(kept), unit="bytes", source="bench.disk, at no text"),
        disk_per_text=Measured(value=round(text, 3), unit="bytes", source="bench.disk, slope of short to long answers"),
        syncs_per_turn=Measured(value=round(syncs, 2), unit="syncs", source="bench.syncs, one turn after the other"),
        backup_ratio=Measured(
            value=round(ratio, 3), unit="bytes", source="avm backup of the turns of bench.disk with long answers"
        ),
        traffic_per_delta=Measured(value=round(frame), unit="bytes", source=f"frame of a delta of {TYPICAL_DELTA_BYTES} bytes"),
    )


def main(file: Path, rounds: int, users: int, containers: int, *, only_cluster: bool, everything: bool) -> None:
    raise_file_limit()
    uvloop = {"use_uvloop": True}
    # Each section is saved when it is measured: a later one may fail.
    if not only_cluster:
        measured = msgspec.to_builtins(anyio.run(measure, rounds, users, containers, backend_options=uvloop))
        save(file, {name: value for name, value in measured.items() if value is not None})
    if only_cluster or everything:
        save(file, {"cluster": anyio.run(cluster, backend_options=uvloop)})
    if everything:
        save(file, {"edge": edge.counted()})
    if file == FILE:
        quotes.write()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=FILE, help="where the coefficients are written")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--containers", type=int, default=20_000)
    parser.add_argument("--cluster", action="store_true", help="measure PostgreSQL only")
    parser.add_argument("--all", action="store_true", help="measure servers, PostgreSQL and the edge")
    options = parser.parse_args()
    main(
        options.file,
        options.rounds,
        options.users,
        options.containers,
        only_cluster=options.cluster and not options.all,
        everything=options.all,
    )
