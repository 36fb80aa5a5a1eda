"""Disk — bytes on disk per turn against the text of the turn, and turns per second against a bare SQLite append.

    python -m bench.disk [--turns 200] [--clients 20]

Clients in this process talk to one server without sockets, each to its own session. What is counted is the size of the
database after the server has ended, less that of the same sessions without turns. The floor appends the same text to a
SQLite table, a transaction and a sync per turn. Goal: 1.3 times the text for long answers.
"""

import argparse
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import anyio
import apsw

from agentvm import ServerConfig, create_agentx, local_runtime
from agentvm.client.verbs import AgentX
from agentvm.config import SystemSettings
from agentvm.drivers.scripted import ScriptedDriver, reply
from bench.measure import table

QUESTION = "What do you think about this?"
SIZES = {"short": 12, "medium": 200, "long": 2_000}
"""Words of an answer; a delta carries one word."""


Answer = Callable[[], Sequence[str]]
"""The deltas of the next answer."""


def words(count: int, chance: random.Random | None = None) -> list[str]:
    """Words of chance; the same ones each time without one."""
    chance = chance or random.Random(count)
    return ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) + " " for _ in range(count)]


def size_of(data_dir: Path) -> int:
    """Bytes in use. Pages that the journal has left are free for the next turns, however many there will be."""
    database = apsw.Connection(str(data_dir / "agentvm.db"))
    pages = int(database.pragma("page_count")) - int(database.pragma("freelist_count"))
    size = pages * int(database.pragma("page_size"))
    database.close()
    return size


@asynccontextmanager
async def open_runtime(data_dir: Path, answer: Answer) -> AsyncIterator[AgentX]:
    config = ServerConfig(system=SystemSettings(data_dir=str(data_dir), shutdown_seconds=0))
    async with create_agentx(local_runtime(config, drivers={"scripted": ScriptedDriver(lambda _: reply(*answer()))})) as agentx:
        yield agentx


async def converse(agentx: AgentX, ended: dict[object, anyio.Event], image_id: str, turns: int) -> None:
    agent = await agentx.images.run(image_id)
    for _ in range(turns):
        sent = await agent.receive(QUESTION)
        await ended[sent.turn_id].wait()


async def create_image(agentx: AgentX, number: int) -> str:
    made = await agentx.request("image_create_request", {"containerId": f"bench-{number}"})
    record = cast("dict[str, str]", made.data["record"])
    return record["imageId"]


async def fill(data_dir: Path, answer: Answer, turns: int, clients: int) -> tuple[int, float]:
    """Plays turns; returns the bytes that they added, and the seconds that they took."""
    async with open_runtime(data_dir, answer) as agentx:
        images = [await create_image(agentx, number) for number in range(clients)]
    before = size_of(data_dir)
    ended: dict[object, anyio.Event] = defaultdict(anyio.Event)
    async with open_runtime(data_dir, answer) as agentx:
        agentx.runtime.on("turn_response", lambda event: ended[event.context["turnId"]].set())
        started = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for image_id in images:
                tasks.start_soon(converse, agentx, ended, image_id, turns // clients)
        seconds = time.monotonic() - started
    return size_of(data_dir) - before, seconds


async def measure(answer: list[str], turns: int, clients: int) -> tuple[float, float]:
    """Bytes per turn, and turns per second."""
    with TemporaryDirectory() as name:
        added, seconds = await fill(Path(name), lambda: answer, turns, clients)
        done = turns // clients * clients
        return added / done, done / seconds


def measure_floor(answer: list[str], turns: int) -> float:
    with TemporaryDirectory() as name:
        database = apsw.Connection(str(Path(name) / "floor.db"))
        database.pragma("journal_mode", "wal")
        database.pragma("synchronous", "full")
        database.execute("CREATE TABLE messages (position INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        text = "".join(answer).encode()
        started = time.monotonic()
        for _ in range(turns):
            with database:
                database.execute("INSERT INTO messages (body) VALUES (?)", (QUESTION.encode(),))
                database.execute("INSERT INTO messages (body) VALUES (?)", (text,))
        seconds = time.monotonic() - started
        database.close()
        return turns / seconds


async def main(turns: int, clients: int) -> None:
    rows = [["answer", "text B/turn", "disk B/turn", "x text", "floor turns/s", "turns/s", "ratio", "deltas/s"]]
    for name, count in SIZES.items():
        answer = words(count)
        text = len("".join(answer)) + len(QUESTION)
        used, speed = await measure(answer, turns, clients)
        floor = measure_floor(answer, turns)
        sizes = [str(text), f"{used:.0f}", f"{used / text:.2f}"]
        rows.append([name, *sizes, f"{floor:.0f}", f"{speed:.0f}", f"{speed / floor:.2f}", f"{speed * count:.0f}"])
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--clients", type=int, default=20)
    options = parser.parse_args()
    anyio.run(main, options.turns, options.clients, backend_options={"use_uvloop": True})
