"""Waits — parked turns on the disk: the bytes of each, how soon a server with many of them has started, how soon one goes on.

    python -m bench.waits [--turns 1000 100000]

One turn is parked by a real runtime and then copied, each into a session of its own. The floor of a start is the same runtime
before they were copied; both are started in a process of their own. Goals: 1 KB a turn with its session, a start of at most one
second with 100,000 of them, no agent in memory and no more memory than without them, and 10 ms from the answer to the call.
"""

import argparse
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import anyio
from tests.runtime.fixtures import open_world
from tests.runtime.test_parking import Hammer, asked_for, open_waits

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.wait import WaitAnswer
from bench.measure import table

COPIED = {"sessions": "session_key", "turns": "position", "waits": "wait_key"}
WAKES = 5
NAMED = {"session_id", "turn_id", "wait_id", "message_id"}


async def park(path: Path, hammer: Hammer) -> None:
    async with open_world(asked_for(("c1", "hammer")), tools=[hammer.tool], path=path, suspends=True) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        await world.start().rest()


def copy(database: Path, turns: int) -> float:
    """Copies the rows of the parked turn; returns the bytes of each copy."""
    before = database.stat().st_size
    # Closed here: closed later, it would end the locks of the runtime that has the file open then.
    with closing(sqlite3.connect(database)) as link:
        for name, key in COPIED.items():
            columns = [row[1] for row in link.execute(f"PRAGMA table_xinfo({name})") if row[6] == 0]
            listed = ", ".join(columns)
            (values,) = link.execute(f"SELECT {listed} FROM {name} LIMIT 1").fetchall()
            row = dict(zip(columns, values, strict=True))
            copies = [[*_numbered(row, key, number).values()] for number in range(1, turns + 1)]
            link.executemany(f"INSERT INTO {name} ({listed}) VALUES ({', '.join('?' * len(columns))})", copies)
        link.commit()
        link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (database.stat().st_size - before) / turns


def _numbered(row: dict[str, object], key: str, number: int) -> dict[str, object]:
    copied = {name: f"{value}_{number}" if name in NAMED else value for name, value in row.items()}
    for name in {key, "session_key"} & set(row):
        copied[name] = int(str(row[name])) + number * 10
    return copied


async def start(path: Path) -> None:
    """Prints the CPU milliseconds of a start, the agents in memory after it, and the megabytes of the process."""
    began = time.process_time()
    async with open_world(ScriptedDriver(), tools=[Hammer().tool], path=path) as world:
        took = time.process_time() - began
        print(took * 1000, len(world.runtime.roster), resident_bytes() / 1e6)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def wake(path: Path) -> None:
    """Prints the CPU milliseconds from an answer to the end of its call: of the first in this process, and of the next ones."""
    hammer = Hammer()
    async with open_world(ScriptedDriver(), tools=[hammer.tool], path=path) as world:
        for wait in (await open_waits(world))[: 1 + WAKES]:
            began = time.process_time()
            await world.runtime.answer_wait(DEFAULT_TENANT, wait, WaitAnswer(decision="approve"), None)
            await world.hear("tool_completed")
            print((time.process_time() - began) * 1000)


def in_own_process(what: str, path: Path) -> list[float]:
    command = [sys.executable, "-m", "bench.waits", f"--{what}", str(path)]
    return [float(word) for word in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


def database_in(folder: Path) -> Path:
    return next(file for file in folder.rglob("*") if file.is_file() and file.read_bytes()[:6] == b"SQLite")


async def measure(turns: int) -> list[str]:
    with TemporaryDirectory() as folder:
        hammer, path = Hammer(), Path(folder) / "data"
        await park(path, hammer)
        database = database_in(Path(folder))
        floor, _, before = in_own_process("start", path)
        size = copy(database, turns)
        took, agents, after = in_own_process("start", path)
        first, *others = in_own_process("wake", path)
    wakes = [f"{first:.1f}", f"{median(others):.1f}"]
    return [f"{turns:,}", f"{size:.0f}", f"{floor:.0f}", f"{took:.0f}", f"{agents:.0f}", f"{after - before:.1f}", *wakes]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.waits", description="Measures parked turns.")
    parser.add_argument("--turns", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--wake", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.start or chosen.wake:
        anyio.run(start if chosen.start else wake, chosen.start or chosen.wake)
        return
    rows = [anyio.run(measure, turns) for turns in chosen.turns]
    head = ["parked turns", "bytes each", "floor, ms CPU", "start, ms CPU", "agents", "MB more", "wake, ms CPU", "next wake"]
    print(table([head, *rows]))


if __name__ == "__main__":
    main()
