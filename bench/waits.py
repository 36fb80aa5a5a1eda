"""Waits — parked turns on the disk: the bytes of each, how soon a server with many of them has started, how soon one goes on.

    python -m bench.waits [--turns 1000 100000]

One turn is parked by a real runtime and then copied, each into a session of its own. The floor of a start is the same runtime
before they were copied. Goals: 1 KB a turn with its session, a start of at most one second with 100,000 of them and no agent in
memory, and 10 ms from the answer to the call.
"""

import argparse
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from tests.runtime.fixtures import open_world
from tests.runtime.test_parking import Hammer, asked_for, open_waits

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.wait import WaitAnswer
from bench.measure import table

COPIED = {"sessions": "session_key", "turns": "position", "waits": "wait_key"}
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


async def start(path: Path, hammer: Hammer) -> tuple[float, int]:
    """Returns the CPU seconds of a start, and the agents in memory after it."""
    began = time.process_time()
    async with open_world(ScriptedDriver(), tools=[hammer.tool], path=path) as world:
        return time.process_time() - began, len(world.runtime.roster)


async def wake(path: Path, hammer: Hammer) -> float:
    """Returns the CPU seconds from the answer to the call."""
    async with open_world(ScriptedDriver(), tools=[hammer.tool], path=path) as world:
        wait = (await open_waits(world))[0]
        began = time.process_time()
        await world.runtime.answer_wait(DEFAULT_TENANT, wait, WaitAnswer(decision="approve"), None)
        await world.hear("tool_completed")
        return time.process_time() - began


def database_in(folder: Path) -> Path:
    return next(file for file in folder.rglob("*") if file.is_file() and file.read_bytes()[:6] == b"SQLite")


async def measure(turns: int) -> list[str]:
    with TemporaryDirectory() as folder:
        hammer, path = Hammer(), Path(folder) / "data"
        await park(path, hammer)
        database = database_in(Path(folder))
        floor, _ = await start(path, hammer)
        size = copy(database, turns)
        seconds, agents = await start(path, hammer)
        woken = await wake(path, hammer)
    return [f"{turns:,}", f"{size:.0f}", f"{floor * 1000:.0f}", f"{seconds * 1000:.0f}", str(agents), f"{woken * 1000:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.waits", description="Measures parked turns.")
    parser.add_argument("--turns", type=int, nargs="+", default=[1_000, 100_000])
    chosen = parser.parse_args()
    rows = [anyio.run(measure, turns) for turns in chosen.turns]
    head = ["parked turns", "bytes each", "floor, ms CPU", "start, ms CPU", "agents", "wake, ms CPU"]
    print(table([head, *rows]))


if __name__ == "__main__":
    main()
