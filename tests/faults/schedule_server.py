"""A server with schedules that are due, killed again and again while runs begin: `… DATA_DIR START_MS KILLS SEED [DATABASE]`.

One process that has imported the server forks a child for each kill, so a kill costs the start of a server and not that of
Python. The clock of the children stands at an hour until all runs of that hour have begun, then at the next.
"""

import json
import os
import random
import select
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import psycopg

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.definition import Definition
from agentvm.model.limits import Limits
from agentvm.model.secret import Secret
from agentvm.sessions.sender import MessageSender
from agentvm.storage.engines.postgres.database import PostgresDatabase
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.engines.sqlite.datadir import DATABASE
from agentvm.storage.sql.store import Store

STEPS: tuple[tuple[type[Any], str, bool], ...] = (
    (MessageSender, "send", False),
    (Store, "commit", False),
    (Store, "commit", True),
    (SqliteDatabase, "write", False),
    (SqliteDatabase, "write", True),
    (PostgresDatabase, "write", False),
    (PostgresDatabase, "write", True),
)
"""The methods at which it dies, and whether that has done its work."""
HOUR_MS = 3_600_000
NEXT_DUE = "SELECT min(next_at) FROM schedules"
LONGEST_LIFE_SECONDS = 0.6
"""A child that has not come to its step by then is killed where it is."""
DEFINITIONS = [Definition(name="default")]


def config(data_dir: str, database: str | None = None) -> ServerConfig:
    """The database is that of PostgreSQL; without one it is in the folder."""
    system = SystemSettings(data_dir=data_dir, database=None if database is None else Secret(database))
    # A turn that dies with its server often is taken for the cause of it; here it never is.
    return ServerConfig(system=system, limits=Limits(attempts=1_000_000))


def die_at(step: tuple[type[Any], str, bool], times: int) -> None:
    """Lets this process die at a step when it comes to it for the n-th time."""
    kind, name, is_done = step
    method, left = getattr(kind, name), times

    async def deadly(*args: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left > 0:
            return await method(*args, **named)
        if is_done:
            await method(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, name, deadly)


async def serve(data_dir: str, database: str | None, now: int, opened: int) -> None:
    drivers = {"scripted": ScriptedDriver()}
    async with open_agentvm(config(data_dir, database), drivers=drivers, definitions=DEFINITIONS, clock=lambda: now):
        os.write(opened, b"!")
        await anyio.sleep_forever()


def kill_once(data_dir: str, database: str | None, now: int, chance: random.Random) -> None:
    """Starts a server and kills it: at a step of its work, or at some moment."""
    other = SqliteDatabase if database else PostgresDatabase
    step = chance.choice((None, *(step for step in STEPS if step[0] is not other)))
    times, life = chance.randint(1, 12), chance.uniform(0.0, LONGEST_LIFE_SECONDS / 4)
    heard, opened = os.pipe()
    child = os.fork()
    if child == 0:
        if step is not None:
            die_at(step, times)
        anyio.run(serve, data_dir, database, now, opened)
    os.close(opened)
    # Readable when the child has opened its server, or is dead.
    select.select([heard], [], [], 60)
    deadline = time.monotonic() + (LONGEST_LIFE_SECONDS if step is not None else life)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.002)
    os.close(heard)


def next_due(data_dir: str, database: str | None) -> int:
    opened = sqlite3.connect(Path(data_dir) / DATABASE) if database is None else psycopg.connect(database)
    with closing(opened) as connection:
        row = connection.execute(NEXT_DUE).fetchone()
    assert row is not None
    return int(row[0])


def main(data_dir: str, start: int, kills: int, seed: int, *, database: str | None) -> None:
    chance, hours, now = random.Random(seed), 1, start + HOUR_MS
    for _ in range(kills):
        kill_once(data_dir, database, now, chance)
        if next_due(data_dir, database) > now:
            now, hours = now + HOUR_MS, hours + 1
    sys.stdout.write(json.dumps({"hours": hours}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), database=sys.argv[5] if len(sys.argv) > 5 else None)
