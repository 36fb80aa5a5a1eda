"""Relay — carries bytes between two sockets, both ways at once, in one task.

Each direction holds one piece at a time and reads on only when that was taken, so a slow side slows its own direction and never
the other. The end of one direction is passed on; the other may continue, since a request can end before its answer.
"""

import select
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio

_PIECE_BYTES = 64 * 1024
_MOVES_MAX = 8


class _Direction:
    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source = source
        self.target = target
        self.held = memoryview(b"")
        self.over = False

    def move(self, count: Callable[[int], None]) -> None:
        """Moves bytes that can be moved now, a part of them where both sides are fast: others wait for the event loop, too.

        Raises `OSError` when the target is gone.
        """
        for _ in range(_MOVES_MAX):
            if self.over:
                return
            try:
                if self.held:
                    self.held = self.held[self.target.send(self.held) :]
                    continue
                data = self.source.recv(_PIECE_BYTES)
            except BlockingIOError:
                return
            count(len(data))
            self.held = memoryview(data)
            if not data:
                self.over = True
                self.target.shutdown(socket.SHUT_WR)


class Relay:
    """Two sockets that do not block."""

    def __init__(self, left: socket.socket, right: socket.socket, count: Callable[[int], None]) -> None:
        """`count` is told the bytes of each piece, and ends the relay by raising."""
        self._sockets = (left, right)
        self._directions = (_Direction(left, right), _Direction(right, left))
        self._count = count
        self._poll = select.epoll()
        self._wanted = {left: 0, right: 0}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._poll.close()

    async def run(self, idle_seconds: float) -> None:
        """Carries until both directions are over. `OSError` when a side is gone, or nothing moved for this long."""
        while True:
            for direction in self._directions:
                direction.move(self._count)
            if all(direction.over for direction in self._directions):
                return
            self._watch()
            with anyio.fail_after(idle_seconds):
                await anyio.wait_readable(self._poll.fileno())

    def _watch(self) -> None:
        for side in self._sockets:
            events = 0
            for direction in self._directions:
                if direction.source is side and not direction.held and not direction.over:
                    events |= select.EPOLLIN
                if direction.target is side and direction.held:
                    events |= select.EPOLLOUT
            if events != self._wanted[side]:
                change = self._poll.modify if self._wanted[side] else self._poll.register
                if events:
                    change(side, events)
                else:
                    self._poll.unregister(side)
                self._wanted[side] = events
