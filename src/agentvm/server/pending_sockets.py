"""Pending sockets — the sockets that wait without credentials, bounded in all and from one origin.

A client with credentials sends them within a moment and no longer waits here by then; see `origin_table.py`.
"""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

from agentvm.runtime.channel import Closing
from agentvm.server.origin_table import OriginTable

PENDING_MAX = 200
PENDING_PER_ORIGIN_MAX = 20
"""Sockets that may wait at a time, and those of them that come from one address (of IPv6, one network of 64 bits)."""

CROWDED = Closing(1013, "too many sockets wait without credentials; connect with ?token=")

T = TypeVar("T")


class PendingSocket:
    """One socket that waits for credentials and can be closed in the meantime."""

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
    """The waiting sockets."""

    def __init__(self) -> None:
        self._waiting: OriginTable[PendingSocket] = OriginTable(PENDING_MAX, PENDING_PER_ORIGIN_MAX)
        self._open = 0
        self._left = anyio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def take(self, address: str) -> Iterator[PendingSocket]:
        socket = PendingSocket()
        evicted = self._waiting.add(socket, address)
        if evicted is not None:
            # Not counted from now on, though it takes a moment until its socket is closed.
            evicted.dismiss(CROWDED)
        self._open += 1
        try:
            yield socket
        finally:
            self._open -= 1
            self._waiting.remove(socket)
            self._left.set()

    async def clear(self, closing: Closing) -> None:
        """Closes all of them, and returns when they have gone."""
        for socket in self._waiting:
            socket.dismiss(closing)
        while self._open:
            self._left = anyio.Event()
            await self._left.wait()
