"""Recovery — a server is killed while turns run; how soon clients can connect, and how soon every turn goes on and has ended.

    python -m bench.recovery [--turns 200 1000]

The model is slow before the kill, so that every turn is in the middle of its answer, and as fast as can be afterwards. What
is counted is what is committed: the database is read from outside. The floor is the same server on an empty database; "later"
is how much later than there a client hears the first frame. Goals: a client is connected within a second of the start with
10,000 turns, and every turn goes on two seconds after `/ready`.
"""

import argparse
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from websockets.asyncio.client import connect

from bench.density import connect_users
from bench.measure import Server, raise_file_limit, running, table, wait_ready

SLOW = 30.0
"""Seconds between two deltas before the kill."""


def count(database: sqlite3.Connection, condition: str) -> int:
    return int(database.execute(f"SELECT count(*) FROM turns WHERE {condition}").fetchone()[0])


async def begin_turns(data_dir: Path, turns: int) -> None:
    """Leaves as many turns on the disk as a crash would."""
    with running("agentvm", SLOW, data_dir=data_dir) as server:
        users = await connect_users(server, "agentvm", 0, turns)
        for socket, message in users:
            await socket.send(message)
        for socket, _ in users:
            async for text in socket:
                if str(text).startswith('{"type":"text_content_block_start"'):
                    break


async def connected(server: Server) -> float:
    """Returns when a client has heard the first frame."""
    while True:
        try:
            async with connect(f"ws://127.0.0.1:{server.port}/ws", compression=None, open_timeout=60) as socket:
                await socket.recv()
                return time.monotonic()
        except OSError:
            await anyio.sleep(0.005)


async def start_empty() -> float:
    with TemporaryDirectory() as empty:
        started = time.monotonic()
        with running("agentvm", data_dir=Path(empty)) as server:
            return await connected(server) - started


async def measure(turns: int) -> list[str]:
    with TemporaryDirectory() as name:
        data_dir = Path(name)
        await begin_turns(data_dir, turns)
        floor = await start_empty()
        started = time.monotonic()
        with running("agentvm", data_dir=data_dir) as server:
            first = await connected(server) - started
            wait_ready(server)
            ready, resumed = time.monotonic(), 0.0
            database = sqlite3.connect(data_dir / "agentvm.db")
            while count(database, "outcome IS NULL"):
                if not resumed and count(database, "attempts > 0") == turns:
                    resumed = time.monotonic()
                await anyio.sleep(0.01)
            ended, cpu = time.monotonic(), server.cpu
            lost = turns - count(database, "outcome = 'completed'")
            database.close()
    resumed = resumed or ended
    times = [first / floor, first - floor, first, ready - started - first, resumed - ready, ended - ready, cpu / turns * 1e3]
    return [str(turns), *(f"{number:.2f}" for number in times), str(lost)]


async def main(sizes: list[int]) -> None:
    print("x floor and later: until the first client is connected, next to a start on an empty database")
    rows = [
        ["turns", "x floor", "later s", "connected s", "to /ready", "to all resumed", "to all ended", "CPU ms/turn", "lost"]
    ]
    rows += [await measure(turns) for turns in sizes]
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[200, 1000])
    raise_file_limit()
    anyio.run(main, parser.parse_args().turns, backend_options={"use_uvloop": True})
