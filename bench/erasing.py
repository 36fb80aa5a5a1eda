"""Erasing — how long a container takes to be erased, and what its neighbours notice of it.

    python -m bench.erasing [--messages 20000] [--directory DIR]

A store with two containers whose messages lie between each other. The neighbour commits a message every 5 ms, as the journal of
a busy server does, before and while the other is erased; how long each commit took is shown.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

import anyio
from tests.conformance.records import image
from tests.conformance.store import settle

from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, SessionId
from agentvm.model.message import UserMessage
from agentvm.sessions.erasing import Eraser
from agentvm.storage.base import SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store
from bench.measure import percentile, table

VICTIM, NEIGHBOUR = ContainerId("victim"), ContainerId("neighbour")
WORDS = [f"word{number}" for number in range(5_000)]
AT_ONCE, BEFORE, PACE = 20, 400, 0.005


async def stop_nothing(*_: object) -> None:
    """Stops no turns: none run."""


def write_of(container: ContainerId, first: int, chance: random.Random, count: int = AT_ONCE) -> SessionWrite:
    return SessionWrite(
        tenant_id=DEFAULT_TENANT,
        container_id=container,
        session_id=SessionId(f"img-{container}-default"),
        now=1,
        messages=[
            UserMessage(
                id=MessageId(f"{container}-{number}"),
                timestamp=1,
                role="user",
                content=" ".join(chance.choices(WORDS, k=chance.choice((5, 30, 150)))),
            )
            for number in range(first, first + count)
        ],
    )


async def fill(store: Store, messages: int, chance: random.Random) -> None:
    for container in (VICTIM, NEIGHBOUR):
        await settle(store, image(f"img-{container}", container), tenant=DEFAULT_TENANT, container=container)
    for first in range(0, messages, AT_ONCE):
        await store.commit([write_of(container, first, chance) for container in (VICTIM, NEIGHBOUR)])
        while first % 1_000 == 0 and await store.tend_search():
            pass


class Commits:
    """How long each commit of the neighbour took, in ms."""

    def __init__(self, store: Store, chance: random.Random, first: int) -> None:
        self._store, self._chance, self._number = store, chance, first
        self.took: list[float] = []

    async def make(self) -> None:
        began = time.perf_counter()
        await self._store.commit([write_of(NEIGHBOUR, self._number, self._chance, 1)], entry=b"x" * 500, forget=self._number)
        self.took.append((time.perf_counter() - began) * 1000)
        self._number += 1
        await anyio.sleep(PACE)

    async def run(self) -> None:
        while True:
            await self.make()


async def main(messages: int, directory: str | None) -> None:
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        async with open_store(Path(folder) / "agentvm.db") as store:
            await fill(store, messages, chance)
            size = (Path(folder) / "agentvm.db").stat().st_size
            before, during = Commits(store, chance, 10**6), Commits(store, chance, 2 * 10**6)
            for _ in range(BEFORE):
                await before.make()
            began = time.perf_counter()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(during.run)
                await store.erasing.delete_container(DEFAULT_TENANT, VICTIM, now=1)
                answered = time.perf_counter() - began
                eraser = Eraser(store, stop_nothing, lambda *_: None)
                while not await eraser.erase():  # noqa: ASYNC110  # there is no event to wait for
                    await anyio.sleep(0.1)
                finished = time.perf_counter() - began
                tasks.cancel_scope.cancel()
    print(
        f"{messages:,} messages in a database of {size / 1e6:.0f} MB: gone after {answered * 1000:.0f} ms, "
        f"erased in {finished:.1f} s"
    )
    rows = [
        [name, str(len(one.took)), *(f"{percentile(one.took, share):.1f}" for share in (0.5, 0.99, 1.0))]
        for name, one in (("before", before), ("while it is erased", during))
    ]
    print(table([["neighbour's commits", "number", "p50 ms", "p99 ms", "worst ms"], *rows]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--directory")
    given = parser.parse_args()
    anyio.run(main, given.messages, given.directory)
