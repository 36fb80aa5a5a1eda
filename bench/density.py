"""Density — memory per idle user: connected, and not connected at all.

    python -m bench.density [--users 1000 10000]

Each user has a container and an image. The floor is the same number of idle sockets on a server that only forwards, so the
ratio is what AgentVM adds to a socket.
"""

import argparse
import resource

import anyio
from websockets.asyncio.client import ClientConnection, connect

from bench.measure import Server, running, table
from bench.turns import prepare


async def connect_users(server: Server, kind: str, first: int, users: int) -> list[ClientConnection]:
    sockets: list[ClientConnection] = []
    limit = anyio.CapacityLimiter(50)

    async def one(number: int) -> None:
        async with limit:
            socket = await connect(f"ws://127.0.0.1:{server.port}/ws", compression=None, ping_interval=None, open_timeout=60)
            if kind == "agentvm":
                await prepare(socket, number)
            sockets.append(socket)

    async with anyio.create_task_group() as tasks:
        for number in range(first, first + users):
            tasks.start_soon(one, number)
    return sockets


async def leave(sockets: list[ClientConnection]) -> None:
    async with anyio.create_task_group() as tasks:
        for socket in sockets:
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


async def main(sizes: list[int]) -> None:
    rows = [["users", "floor KiB/socket", "agentvm KiB/connected user", "ratio", "agentvm KiB/user without connection"]]
    for users in sizes:
        floor, _ = await measure("floor", users)
        connected, left = await measure("agentvm", users)
        rows.append([str(users), f"{floor:.1f}", f"{connected:.1f}", f"{connected / floor:.2f}", f"{left:.1f}"])
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, nargs="+", default=[1000, 10000])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    anyio.run(main, parser.parse_args().users, backend_options={"use_uvloop": True})
