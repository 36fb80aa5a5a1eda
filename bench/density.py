"""Density — memory per idle user: connected, waiting for a model, and not connected at all.

    python -m bench.density [--users 1000 10000] [--containers 100000]

Each user has a container and an image. The floor is the same number of idle sockets on a server that only forwards, so what
lies above it is what AgentVM adds to a socket. `uvicorn` is that floor with uvicorn's own socket protocol, which ours is made
lighter from. Last, a server starts on a database of many containers, and the users connect to it.
"""

import argparse
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from websockets.asyncio.client import ClientConnection, connect

from bench.measure import Server, raise_file_limit, running, table, wait_ready
from bench.turns import Run, play, prepare

NEVER = 3_600.0
"""The pace of a model that does not answer."""

Users = list[tuple[ClientConnection, str]]
"""Each with the frame that starts a turn."""


async def connect_users(server: Server, kind: str, first: int, users: int) -> Users:
    connected: Users = []
    limit = anyio.CapacityLimiter(50)

    async def one(number: int) -> None:
        async with limit:
            socket = await connect(f"ws://127.0.0.1:{server.port}/ws", compression=None, ping_interval=None, open_timeout=60)
            connected.append((socket, await prepare(socket, number) if kind == "agentvm" else ""))

    async with anyio.create_task_group() as tasks:
        for number in range(first, first + users):
            tasks.start_soon(one, number)
    return connected


async def leave(users: Users) -> None:
    async with anyio.create_task_group() as tasks:
        for socket, _ in users:
            tasks.start_soon(socket.close)


async def measure(kind: str, users: int) -> tuple[float, float]:
    """KiB per connected user, and per user who has gone."""
    with running(kind) as server:
        await leave(await connect_users(server, kind, 0, 1))
        before = server.rss
        sockets = await connect_users(server, kind, 1, users)
        connected = server.rss
        await leave(sockets)
        # The allocator keeps what the first users needed; what a second crowd of others leaves behind is the true cost.
        first_gone = server.rss
        await leave(await connect_users(server, kind, 1 + users, users))
        return (connected - before) / users / 1024, (server.rss - first_gone) / users / 1024


async def measure_waiting(turns: int) -> float:
    """KiB per turn whose model does not answer, beyond the connected user."""
    with running("agentvm", NEVER) as server:
        users = await connect_users(server, "agentvm", 0, turns)
        before = server.rss
        for socket, message in users:
            await socket.send(message)
        for socket, _ in users:
            async for text in socket:
                if str(text).startswith('{"type":"text_content_block_start"'):
                    break
        used = (server.rss - before) / turns / 1024
        await leave(users)
    return used


async def measure_resting(agents: int) -> float:
    """KiB per agent that has answered once, and whose user has gone."""
    with running("agentvm") as server:
        await _talk(server, 0, agents)
        # As in `measure`: the first crowd is what the allocator learns from.
        before = server.rss
        await _talk(server, agents, agents)
        return (server.rss - before) / agents / 1024


async def _talk(server: Server, first: int, users: int) -> None:
    crowd = await connect_users(server, "agentvm", first, users)
    for socket, message in crowd:
        await play(socket, message, 1, Run())
    await leave(crowd)


def multiply_containers(data_dir: Path, containers: int) -> None:
    """Copies of the only user that is there, each with a container, an image and a session."""
    database = sqlite3.connect(data_dir / "agentvm.db")
    database.execute(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?) SELECT i FROM n",
        (containers,),
    )
    for kind, named in (
        ("containers", {"container_id"}),
        ("images", {"container_id", "image_id", "session_id"}),
        ("sessions", {"container_id", "image_id", "session_id"}),
    ):
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({kind})") if not row[5]]
        copied = ", ".join(f"{column} || '-' || i" if column in named else column for column in columns)
        database.execute(f"INSERT INTO {kind} ({', '.join(columns)}) SELECT {copied} FROM {kind}, n")
    database.commit()
    database.close()


async def measure_crowd(containers: int, users: int) -> list[str]:
    with TemporaryDirectory() as name:
        data_dir = Path(name)
        started = time.monotonic()
        with running("agentvm", data_dir=data_dir) as server:
            wait_ready(server)
            empty_start = time.monotonic() - started
            await leave(await connect_users(server, "agentvm", 0, 1))
            empty = server.rss
        multiply_containers(data_dir, containers)
        started = time.monotonic()
        with running("agentvm", data_dir=data_dir) as server:
            wait_ready(server)
            full_start = time.monotonic() - started
            await leave(await connect_users(server, "agentvm", 1, 1))
            full = server.rss
            crowd = await connect_users(server, "agentvm", 2, users)
            total = server.rss
            await leave(crowd)
    start = [f"{empty_start:.2f}", f"{full_start:.2f}", f"{full_start / empty_start:.2f}"]
    return [str(containers), str(users), *start, f"{(full - empty) / containers:.0f}", f"{total / 2**20:.0f}"]


async def main(sizes: list[int], containers: int) -> None:
    rows = [
        ["users", "uvicorn KiB/socket", "floor", "agentvm KiB/connected user", "ratio", "above floor", "without connection"]
    ]
    for users in sizes:
        uvicorn, _ = await measure("uvicorn", users)
        floor, _ = await measure("floor", users)
        connected, left = await measure("agentvm", users)
        numbers = (uvicorn, floor, connected, connected / floor, connected - floor, left)
        rows.append([str(users), *(f"{number:.1f}" for number in numbers)])
    print(table(rows))
    waiting = min(sizes[0], 1_000)
    print(f"\n{waiting} turns whose model does not answer: {await measure_waiting(waiting):.1f} KiB each, beyond the user\n")
    if containers:
        head = ["containers", "users", "empty to /ready s", "to /ready s", "ratio", "bytes/idle container", "total MiB"]
        print(table([head, await measure_crowd(containers, sizes[-1])]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--containers", type=int, default=100_000, help="that exist when the server starts; 0 for no such run")
    raise_file_limit()
    options = parser.parse_args()
    anyio.run(main, options.users, options.containers, backend_options={"use_uvloop": True})
