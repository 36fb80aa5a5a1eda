"""Byte counts — how many bytes tenants have stored, counted beside their requests.

A count reads every row of a tenant, which takes seconds for one with a million users. So no message waits while it is renewed:
the last count holds, plus the bytes added since. After a start there is none: a message waits for the first one a moment, and a
large tenant may store beyond its limit until it is counted. A request that would be refused waits for the count to end.
"""

from collections.abc import Awaitable, Callable

import anyio
import anyio.abc

from agentvm.errors import StoreFailed
from agentvm.model.ids import Clock
from agentvm.tenants.book import Counter

RECOUNT_MS = 60_000
"""Time after which bytes are counted again; in between added bytes are summed."""

RECOUNT_SHARE = 200
"""A count that took long is repeated less often: after this many times its duration."""

NEVER_COUNTED_MS = 2**62
"""Time of a byte count that must be repeated before the next use."""

PATIENCE_SECONDS = 0.25
"""How long a request waits for the first count."""

CountResources = Callable[[], Awaitable[int]]


def is_recent(counter: Counter, now: int) -> bool:
    """Whether a count of stored bytes can be used: one that took long is not repeated each time."""
    return counter.begins <= now < counter.begins + max(RECOUNT_MS, counter.took)


class ByteCounts:
    """The counts that are being made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: anyio.abc.TaskGroup | None = None

    @property
    def is_running(self) -> bool:
        return self._tasks is not None

    async def run(self) -> None:
        """Counts until it is cancelled; without it each request counts for itself."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    async def renew(self, counter: Counter, count: CountResources, adding: int) -> None:
        """Lets a count be made; waits a moment for one that is the first, and to its end if there seems to be no room."""
        has_none = counter.begins in (0, NEVER_COUNTED_MS)
        ended, has_begun = self._begin(counter, count)
        # Who comes while it is made would wait in vain.
        if has_none and has_begun:
            with anyio.move_on_after(PATIENCE_SECONDS):
                await ended.wait()
        if counter.room is not None and counter.room < adding:
            await ended.wait()

    def _begin(self, counter: Counter, count: CountResources) -> tuple[anyio.Event, bool]:
        if counter.counted is not None:
            return counter.counted, False
        ended = anyio.Event()
        if self._tasks is None:
            ended.set()
        else:
            counter.counted = ended
            # From here on what is added may be stored after the count has read: it is counted in any case.
            self._tasks.start_soon(self._count, counter, count, ended, counter.used)
        return ended, True

    async def _count(self, counter: Counter, count: CountResources, ended: anyio.Event, before: int) -> None:
        began = self._clock()
        try:
            stored = await count()
        except StoreFailed:
            # The next message lets it be counted again; the store has said in the log why it failed.
            pass
        else:
            # What was admitted meanwhile may be counted twice, and never not at all.
            counter.used, counter.begins = stored + counter.used - before, began
            counter.took = RECOUNT_SHARE * max(0, self._clock() - began)
        finally:
            counter.counted = None
            ended.set()
