"""Pending changes — items that requests of this process are changing, so that a reader can wait for the end of the changes."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import anyio

CHANGE_TIMEOUT_SECONDS = 10.0
"""A reader waits this long at most."""


class PendingChanges:
    """The names of the items that requests are changing: at most one entry for each request."""

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
        """Waits until the changes of these items that have begun are over, but no longer than the timeout."""
        pending = [done for done, changed in self._changes.items() if not changed.isdisjoint(names)]
        with anyio.move_on_after(CHANGE_TIMEOUT_SECONDS):
            for done in pending:
                await done.wait()
