"""Sandbox hold — the seconds that are set aside for one job in a sandbox, so that jobs at the same time cannot share them."""

from collections.abc import Callable

from agentvm.model.ids import Clock
from agentvm.tenants.book import Counter, QuotaHold, refuse_beyond, renew

SANDBOX = "sandbox_seconds_per_day"


class SandboxHold:
    """Reserves the time that a job may take, replaces it by the time it took, and releases the rest.

    `counters` returns the limits that apply, newer ones included. A job gets as much as is left: `QuotaExceeded` only if that
    is less than a second.
    """

    def __init__(self, clock: Clock, counters: Callable[[], list[Counter]], seconds: int) -> None:
        self._clock = clock
        self._counters = counters
        self._held = counters()
        self.money: QuotaHold | None = None
        """The money of a job on a tier that has a price."""
        now, self.seconds = clock(), seconds
        for counter in self._held:
            renew(counter, now)
            refuse_beyond(counter, 1, now)
            if (left := counter.room) is not None:
                self.seconds = min(self.seconds, left)
        for counter in self._held:
            counter.held += self.seconds

    def settle(self, wall_ms: int, price: int = 0) -> None:
        """Called once, at the end, for any result of the job. `price` is that of its entry in the ledger."""
        if self.money is not None:
            self.money.settle(0, price)
        for counter in self._held:
            counter.held -= self.seconds
        now = self._clock()
        for counter in self._counters():
            renew(counter, now)
            # Parts of a second are summed, or short jobs would cost a thousand times what they took.
            whole, counter.rest_ms = divmod(counter.rest_ms + wall_ms, 1000)
            counter.used += whole
