"""Turns — what a turn and a delta cost, next to a server that only forwards the same frames (the floor).

    python -m bench.turns [--clients 50 1000] [--deltas 10 100] [--history 50] [--rounds 2] [--only fast|paced]
                          [--engine sqlite|postgres]

Every client has its own container and image on its own socket and sends its next message when the last turn has ended. Each
cell is measured as fast as the server can (its CPU is the limit), with sessions that are new and again when each has a history
of 50 turns. The last run is paced as a model would be, one delta every 20 ms, which shows the latency people meet: each delta
carries the time it was made, so it is the server's alone. The first delta comes after the durable commit of the user's message,
which the floor does not make. CPU is that of all threads of the server; with `--engine postgres` a PostgreSQL on this machine
stores besides, whose CPU is told apart, and its turns/s are divided by those of SQLite. Trust the ratios: times depend on the
machine and on what else it does.
"""

import argparse
import itertools
import json
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import anyio
import psycopg
from tests.provision.postgres import Postgres, postgres
from websockets.asyncio.client import ClientConnection, connect

from bench.measure import Server, cpu_of_family, percentile, raise_file_limit, running, table
from bench.servers import DELTAS

PACE_SECONDS = 0.02
PACED_CLIENTS = 50
TURNS_MIN = 1_000
"""Turns that one cell is measured with, at least."""
WIDTHS = (7, 6, 8, 13, 15, 5, 8, 7)
CONNECTING_MAX = 50
"""Clients that connect at a time."""


@dataclass
class Run:
    """One server's numbers."""

    seconds: float = 0.0
    cpu: float = 0.0
    store_cpu: float = 0.0
    turns: int = 0
    deltas: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Turns in a second."""
        return self.turns / self.seconds

    @property
    def cpu_per_turn(self) -> float:
        """Milliseconds."""
        return self.cpu / self.turns * 1e3


Cells = dict[str, Run]
"""Runs of one server: `fresh`, and with a history."""

Kind = Literal["floor", "agentvm", "postgres"]
"""The floor, and AgentVM on SQLite and on PostgreSQL."""

NUMBERS = itertools.count()


@contextmanager
def database(server: Postgres | None) -> Generator[str]:
    """The address of an empty database."""
    if server is None:
        raise SystemExit("there is no PostgreSQL server")
    name = f"bench_{next(NUMBERS)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield server.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def serving(kind: Kind, pace: float, deltas: int, server: Postgres | None) -> Generator[Server]:
    if kind == "postgres":
        with database(server) as url, running("agentvm", pace, deltas=deltas, database=url) as started:
            yield started
    else:
        with running(kind, pace, deltas=deltas) as started:
            yield started


async def prepare(socket: ClientConnection, number: int) -> str:
    """The frame that starts a turn."""
    request = {"type": "image_create_request", "data": {"requestId": "create", "containerId": f"bench-{number}"}}
    await socket.send(json.dumps(request))
    async for text in socket:
        frame = json.loads(text)
        if frame.get("type") == "image_create_response":
            image_id = frame["data"]["record"]["imageId"]
            return json.dumps(
                {"type": "message_send_request", "data": {"requestId": "send", "imageId": image_id, "content": "go"}}
            )
    raise SystemExit("the server closed the socket")


async def play(socket: ClientConnection, message: str, turns: int, run: Run) -> None:
    for _ in range(turns):
        sent = time.monotonic_ns()
        await socket.send(message)
        first = True
        async for frame in socket:
            text = str(frame)
            if text.startswith('{"type":"text_delta"'):
                now = time.monotonic_ns()
                at = text.index('"text":"') + 8
                run.deltas.append((now - int(text[at : at + 20])) / 1e6)
                if first:
                    run.first.append((now - sent) / 1e6)
                    first = False
            elif text.startswith('{"type":"turn_response"'):
                run.turns += 1
                break


class Clients:
    """The sockets of one run, each with the frame that starts its turns."""

    def __init__(self, server: Server, store: Postgres | None) -> None:
        self._server = server
        self._store = store
        self._clients: list[tuple[ClientConnection, str]] = []

    async def connect(self, kind: Kind, count: int) -> None:
        limit = anyio.CapacityLimiter(CONNECTING_MAX)

        async def one(number: int) -> None:
            async with limit:
                address = f"ws://127.0.0.1:{self._server.port}/ws"
                socket = await connect(address, compression=None, ping_interval=None, open_timeout=60)
                self._clients.append((socket, "go" if kind == "floor" else await prepare(socket, number)))

        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(one, number)

    async def play(self, turns: int) -> Run:
        run, cpu, stored, started = Run(), self._server.cpu, self._store_cpu(), time.monotonic()
        async with anyio.create_task_group() as tasks:
            for socket, message in self._clients:
                tasks.start_soon(play, socket, message, turns, run)
        run.cpu, run.seconds = self._server.cpu - cpu, time.monotonic() - started
        run.store_cpu = self._store_cpu() - stored
        return run

    def _store_cpu(self) -> float:
        return 0.0 if self._store is None else cpu_of_family(self._store.process.pid)

    async def close(self) -> None:
        for socket, _ in self._clients:
            await socket.close()


async def measure(
    kind: Kind, clients: int, deltas: int, history: int, pace: float = 0.0, store: Postgres | None = None
) -> Cells:
    """Each client's first turn is not counted: it makes its agent, and warms the server up."""
    turns = 4 if pace else max(2, TURNS_MIN // clients)
    with serving(kind, pace, deltas, store) as server:
        at_work = Clients(server, store)
        await at_work.connect(kind, clients)
        await at_work.play(1)
        cells = {"fresh": await at_work.play(turns)}
        if history and kind != "floor":
            await at_work.play(max(0, history - turns - 1))
            cells[f"{history} turns"] = await at_work.play(turns)
        await at_work.close()
    return cells


async def best_of(
    rounds: int, clients: int, deltas: int, history: int, pace: float = 0.0, store: Postgres | None = None
) -> dict[Kind, Cells]:
    best: dict[Kind, Cells] = {"floor": {}, "agentvm": {}}
    if store is not None:
        best["postgres"] = {}
    for _ in range(rounds):
        # Interleaved, so that a busy moment of the machine does not hit only one of them.
        for kind, cells in best.items():
            for name, run in (await measure(kind, clients, deltas, history, pace, store)).items():
                if name not in cells or run.cpu_per_turn < cells[name].cpu_per_turn:
                    cells[name] = run
    return best


async def compare(clients: Sequence[int], deltas: Sequence[int], history: int, rounds: int, store: Postgres | None) -> None:
    print(f"As fast as possible, CPU of the server per turn, best of {rounds} rounds")
    print(line(["clients", "deltas", "history", "floor ms/turn", "agentvm ms/turn", "ratio", "µs/delta", "turns/s"]))
    for some in clients:
        for count in deltas:
            best = await best_of(rounds, some, count, history, store=store)
            floor = best["floor"]["fresh"].cpu_per_turn
            for name, run in best["agentvm"].items():
                cost = run.cpu_per_turn
                cell = [f"{floor:.2f}", f"{cost:.2f}", f"{cost / floor:.2f}", f"{cost / count * 1e3:.1f}"]
                print(line([str(some), str(count), name, *cell, f"{run.rate:.0f}"]), flush=True)
            for name, run in best.get("postgres", {}).items():
                share = run.rate / best["agentvm"][name].rate
                print(f"on PostgreSQL, {name}: {run.rate:.0f} turns/s, {share:.2f} of SQLite's", end="; ")
                print(f"{run.cpu_per_turn:.2f} ms/turn, {run.cpu_per_turn / count * 1e3:.1f} µs/delta", end="; ")
                print(f"PostgreSQL itself {run.store_cpu / run.turns * 1e3:.2f} ms/turn", flush=True)


def line(cells: Sequence[str]) -> str:
    """One row of a table whose rows appear one by one."""
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


async def compare_paced(rounds: int, store: Postgres | None) -> None:
    best = await best_of(rounds, PACED_CLIENTS, DELTAS, 0, PACE_SECONDS, store)
    rows = [["", "first p50 ms", "p99", "delta p50 ms", "p99", "CPU µs/delta", "ratio"]]
    floor = best["floor"]["fresh"].cpu_per_turn
    for kind, cells in best.items():
        run = cells["fresh"]
        late = [percentile(run.first, share) - PACE_SECONDS * 1e3 for share in (0.5, 0.99)]
        cost = [run.cpu_per_turn / DELTAS * 1e3, run.cpu_per_turn / floor]
        numbers = [*late, *(percentile(run.deltas, share) for share in (0.5, 0.99)), *cost]
        rows.append([kind, *(f"{number:.2f}" for number in numbers)])
    print(f"{PACED_CLIENTS} clients, {DELTAS} deltas a turn, one every {PACE_SECONDS * 1e3:.0f} ms, best of {rounds} rounds")
    print(table(rows))
    print("first: includes the durable commit of the message, which the floor does not make; see docs/benchmarks.md")


async def main(
    clients: Sequence[int], deltas: Sequence[int], history: int, rounds: int, only: str | None, store: Postgres | None
) -> None:
    raise_file_limit()
    if only != "paced":
        await compare(clients, deltas, history, rounds, store)
    if only != "fast":
        print()
        await compare_paced(rounds, store)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[50, 1_000])
    parser.add_argument("--deltas", type=int, nargs="+", default=[10, DELTAS])
    parser.add_argument("--history", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=["fast", "paced"], help="one of the two parts")
    parser.add_argument("--engine", choices=["sqlite", "postgres"], default="sqlite", help="postgres: measures both")
    options = parser.parse_args()
    with postgres() if options.engine == "postgres" else nullcontext() as server:
        arguments = (options.clients, options.deltas, options.history, options.rounds, options.only, server)
        anyio.run(main, *arguments, backend_options={"use_uvloop": True})
