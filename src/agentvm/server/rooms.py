"""Rooms — how many sockets may wait without credentials, in all and from one place, and which of them makes way.

Silent sockets must keep nobody out. So a newcomer is never refused: when there is no room left, the socket goes that has waited
longest, of those from the newcomer's own place or else of the place that has the most. Whoever has credentials to send does so
within a moment, and is gone from here by then.
"""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

from agentvm.model.address import origin_of
from agentvm.runtime.channel import Closing

MAX_ROOMS = 200
MAX_ROOMS_PER_ORIGIN = 20
"""Sockets that may wait at a time, and those of them that come from one address (of IPv6, one network of 64 bits)."""

CROWDED = Closing(1013, "too many sockets wait without credentials; connect with ?token=")

T = TypeVar("T")


class Room:
    """One socket that waits, and can be told to go."""

    __slots__ = ("_scope", "closing")

    def __init__(self) -> None:
        self._scope = anyio.CancelScope()
        self.closing: Closing | None = None

    def dismiss(self, closing: Closing) -> None:
        self.closing = closing
        self._scope.cancel()

    async def hold(self, waiting: Awaitable[T]) -> T | Closing | None:
        """What came of the wait, or why it was ended."""
        with self._scope:
            return await waiting
        return self.closing


class Rooms:
    """Those who wait, by where they come from."""

    def __init__(self) -> None:
        # Dicts for their order: the first is the one that has waited longest.
        self._waiting: dict[str, dict[Room, None]] = {}
        self._inside = 0
        self._left = anyio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @contextmanager
    def take(self, address: str) -> Iterator[Room]:
        origin, room = origin_of(address), Room()
        self._make_room(origin)
        self._waiting.setdefault(origin, {})[room] = None
        self._inside += 1
        try:
            yield room
        finally:
            self._inside -= 1
            self._remove(origin, room)
            self._left.set()

    async def clear(self, closing: Closing) -> None:
        """Tells all of them to go, and returns when they have."""
        for rooms in tuple(self._waiting.values()):
            for room in tuple(rooms):
                room.dismiss(closing)
        while self._inside:
            self._left = anyio.Event()
            await self._left.wait()

    def _make_room(self, origin: str) -> None:
        own = self._waiting.get(origin, {})
        if len(own) >= MAX_ROOMS_PER_ORIGIN:
            self._evict(origin)
        elif len(self) >= MAX_ROOMS:
            self._evict(max(self._waiting, key=lambda one: len(self._waiting[one])))

    def _evict(self, origin: str) -> None:
        oldest = next(iter(self._waiting[origin]))
        # Not counted from now on, though it takes a moment until its socket is closed.
        self._remove(origin, oldest)
        oldest.dismiss(CROWDED)

    def _remove(self, origin: str, room: Room) -> None:
        rooms = self._waiting.get(origin, {})
        rooms.pop(room, None)
        if not rooms:
            self._waiting.pop(origin, None)
