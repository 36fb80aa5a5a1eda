"""PendingSockets — bounds the sockets that wait without credentials, in all and from one origin.

Silent sockets must not keep others out. So a new socket is never refused: at the limit the one that has waited longest is
closed, of those from the new socket's own origin or else of the origin that has the most. A client with credentials sends
them within a moment and no longer waits here by then.
"""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

from agentvm.model.address import origin_of
from agentvm.runtime.channel import Closing

PENDING_MAX = 200
PENDING_PER_ORIGIN_MAX = 20
"""Sockets that may wait at a time, and those of them that come from one address (of IPv6, one network of 64 bits)."""

CROWDED = Closing(1013, "too many sockets wait without credentials; connect with ?token=")

T = TypeVar("T")


class PendingSocket:
    """One socket that waits for credentials and can be closed meanwhile."""

    __slots__ = ("_scope", "closing")

    def __init__(self) -> None:
        self._scope = anyio.CancelScope()
        self.closing: Closing | None = None

    def dismiss(self, closing: Closing) -> None:
        self.closing = closing
        self._scope.cancel()

    async def hold(self, waiting: Awaitable[T]) -> T | Closing | None:
        """Returns the result of the wait, or the reason why it was cut short."""
        with self._scope:
            return await waiting
        return self.closing


class PendingSockets:
    """The waiting sockets by origin."""

    def __init__(self) -> None:
        # Dicts for their order: the first is the one that has waited longest.
        self._waiting: dict[str, dict[PendingSocket, None]] = {}
        self._open = 0
        self._left = anyio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @contextmanager
    def take(self, address: str) -> Iterator[PendingSocket]:
        origin, socket = origin_of(address), PendingSocket()
        self._evict_if_full(origin)
        self._waiting.setdefault(origin, {})[socket] = None
        self._open += 1
        try:
            yield socket
        finally:
            self._open -= 1
            self._remove(origin, socket)
            self._left.set()

    async def clear(self, closing: Closing) -> None:
        """Closes all of them, and returns when they have gone."""
        for sockets in tuple(self._waiting.values()):
            for socket in tuple(sockets):
                socket.dismiss(closing)
        while self._open:
            self._left = anyio.Event()
            await self._left.wait()

    def _evict_if_full(self, origin: str) -> None:
        own = self._waiting.get(origin, {})
        if len(own) >= PENDING_PER_ORIGIN_MAX:
            self._evict(origin)
        elif len(self) >= PENDING_MAX:
            self._evict(max(self._waiting, key=lambda name: len(self._waiting[name])))

    def _evict(self, origin: str) -> None:
        oldest = next(iter(self._waiting[origin]))
        # Not counted from now on, though it takes a moment until its socket is closed.
        self._remove(origin, oldest)
        oldest.dismiss(CROWDED)

    def _remove(self, origin: str, socket: PendingSocket) -> None:
        sockets = self._waiting.get(origin, {})
        sockets.pop(socket, None)
        if not sockets:
            self._waiting.pop(origin, None)
