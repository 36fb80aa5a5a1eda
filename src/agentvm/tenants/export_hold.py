"""Export hold — the bytes that are set aside for one export, so that exports at the same time cannot share the same quota."""

from collections.abc import Callable

from agentvm.model.ids import Clock
from agentvm.tenants.book import Counter, refuse_beyond, renew

SLACK_BYTES = 4 * 1024
SLACK_SHARE = 4
"""The reservation exceeds the measured size by one part in this many, within the limit: only messages are measured."""


def reserved_bytes(size: int) -> int:
    """The bytes that are set aside for an export of that measured size, if there are as many."""
    return size + size // SLACK_SHARE + SLACK_BYTES


class ExportHold:
    """Reserves the measured size of an export, replaces it by the bytes sent, and releases the rest at the end.

    `counters` returns the limits that apply, newer ones included. An export that turns out larger than measured reserves more
    as it continues, and is cut off with `QuotaExceeded` at the limit.
    """

    def __init__(self, clock: Clock, counters: Callable[[], list[Counter]], size: int) -> None:
        """`QuotaExceeded` if there is not as much left."""
        self._clock = clock
        self._counters = counters
        self._held = counters()
        self._left = 0
        self.sent = 0
        now, room = clock(), reserved_bytes(size)
        for counter in self._held:
            renew(counter, now)
            refuse_beyond(counter, size, now)
            if (left := counter.room) is not None:
                room = min(room, left)
        self._left = room
        for counter in self._held:
            counter.held += room

    def spend(self, size: int) -> None:
        """Bytes that are about to leave."""
        now = self._clock()
        held = min(size, self._left)
        counters = self._counters()
        for counter in counters:
            renew(counter, now)
            if size > held:
                refuse_beyond(counter, size - held, now)
        for counter in self._held:
            counter.held -= held
        for counter in counters:
            counter.used += size
        self._left -= held
        self.sent += size

    def release(self) -> None:
        """To be called at the end; again does no harm."""
        for counter in self._held:
            counter.held -= self._left
        self._left = 0

    def __del__(self) -> None:
        # A response that is never read has no end of its own.
        self.release()
