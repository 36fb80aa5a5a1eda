"""Underway — things that requests of this process are changing one after the other, for readers who want them all changed."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import anyio

SETTLE_SECONDS = 10.0
"""The longest time that a reader waits."""


class Underway:
    """The names of the items that are being changed. There are at most as many entries as requests."""

    def __init__(self) -> None:
        self._changes: dict[anyio.Event, frozenset[str]] = {}

    @contextmanager
    def changing(self, names: Collection[str]) -> Iterator[None]:
        done = anyio.Event()
        self._changes[done] = frozenset(names)
        try:
            yield
        finally:
            del self._changes[done]
            done.set()

    async def settle(self, names: Collection[str]) -> None:
        """Waits until none of them is being changed by those who have begun; not longer than the deadline."""
        pending = [done for done, changed in self._changes.items() if not changed.isdisjoint(names)]
        with anyio.move_on_after(SETTLE_SECONDS):
            for done in pending:
                await done.wait()
