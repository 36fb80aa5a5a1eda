"""Visits — what it takes when a user comes who was not there: a connection, and an agent that is not in memory.

    python -m bench.visits [--users 1000]

Users of a filled database (`bench.million_store`) come one after another, some at a time. Each opens a socket, sends a message,
hears an answer of 10 deltas, and leaves; nobody comes twice. CPU is the server's, and holds the turn itself.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from bench.measure import raise_file_limit, running, wait_ready
from bench.million_load import Load, converse, first_user, open_socket
from bench.million_store import fill

AT_ONCE = 20
DELTAS = 10


async def measure(users: int) -> float:
    """Milliseconds of CPU of a visit with one turn."""
    with TemporaryDirectory() as name:
        data_dir = Path(name)
        image_id = await first_user(data_dir)
        # The first ones warm the server up.
        fill(data_dir, users + AT_ONCE)
        with running("agentvm", deltas=DELTAS, data_dir=data_dir, tools=True) as server:
            wait_ready(server)
            load, limit = Load(), anyio.CapacityLimiter(AT_ONCE)

            async def visit(number: int) -> None:
                async with limit, open_socket(server) as socket:
                    if await converse(socket, f"{image_id}-{number}", load, uses_tool=False) is None:
                        raise SystemExit(f"the message of user {number} was not answered")

            async def visits(numbers: range) -> None:
                async with anyio.create_task_group() as tasks:
                    for number in numbers:
                        tasks.start_soon(visit, number)

            await visits(range(1, 1 + AT_ONCE))
            before = server.cpu
            await visits(range(1 + AT_ONCE, 1 + AT_ONCE + users))
            return (server.cpu - before) / users * 1e3


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000)
    raise_file_limit()
    cpu = anyio.run(measure, parser.parse_args().users, backend_options={"use_uvloop": True})
    print(f"{cpu:.2f} ms of CPU for a visit with a turn of {DELTAS} deltas")
