"""Byte counts — how many bytes tenants have stored, counted beside their requests.

A count reads every row of a tenant, which takes seconds for one with a million users. Nothing is counted while the whole
database is smaller than the limit: its size, which the engine knows, stands for the count. Beyond that no message waits while a
count is renewed: the last one holds, plus the bytes added since. After a start there is none: a message waits for the first one
a moment, and a large tenant may store beyond its limit until it is counted. A request that would be refused waits for the count
to end.
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

NEAR_SHARE = 100
"""A limit is near when less than this part of the used amount is left of it."""

NEVER_COUNTED_MS = 2**62
"""Time of a byte count that must be repeated before the next use."""

FIRST_COUNT_TIMEOUT_SECONDS = 0.25
"""How long a request waits for the first count."""

CountResources = Callable[[], Awaitable[int]]


def is_recent(counter: Counter, now: int, adding: int) -> bool:
    """Whether a count of stored bytes can be used: one that took long is not repeated each time."""
    if counter.is_upper and not _has_room(counter, adding):
        return False
    return counter.begins <= now < counter.begins + max(RECOUNT_MS, counter.took)


def may_be_reused(counter: Counter, now: int, adding: int) -> bool:
    """Whether a count of rows that took long stands for the next ones, too: not near the limit, where it must be exact."""
    is_far = _has_room(counter, adding + counter.used // NEAR_SHARE)
    return is_far and counter.begins <= now < counter.begins + counter.took


def _has_room(counter: Counter, adding: int) -> bool:
    return counter.room is None or counter.room >= adding


class ByteCounts:
    """The counts that are being made."""

    def __init__(self, clock: Clock, size_bytes: CountResources) -> None:
        self._clock = clock
        self.size_bytes = size_bytes
        """The size of the whole database."""
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
        ended, has_begun = self._begin(counter, count, adding)
        # Who comes while it is made would wait in vain.
        if has_none and has_begun:
            with anyio.move_on_after(FIRST_COUNT_TIMEOUT_SECONDS):
                await ended.wait()
        if not _has_room(counter, adding):
            await ended.wait()

    async def count(self, counter: Counter, count: CountResources, adding: int, before: int) -> None:
        """Counts, if the size of the database leaves no room for so much more. `before` is the use at the request for it."""
        began = self._clock()
        size, limit = await self.size_bytes(), counter.limit
        counter.is_upper = limit is None or size + adding + counter.used - before <= limit
        stored = size if counter.is_upper else await count()
        # What was admitted meanwhile may be counted twice, and never not at all.
        counter.used, counter.begins = stored + counter.used - before, began
        counter.took = RECOUNT_SHARE * max(0, self._clock() - began)

    def _begin(self, counter: Counter, count: CountResources, adding: int) -> tuple[anyio.Event, bool]:
        if counter.counted is not None:
            return counter.counted, False
        ended = anyio.Event()
        if self._tasks is None:
            ended.set()
        else:
            counter.counted = ended
            # From here on what is added may be stored after the count has read: it is counted in any case.
            self._tasks.start_soon(self._count, counter, count, adding, counter.used, ended)
        return ended, True

    async def _count(self, counter: Counter, count: CountResources, adding: int, before: int, ended: anyio.Event) -> None:
        try:
            await self.count(counter, count, adding, before)
        except StoreFailed:
            # The next message lets it be counted again; the store has said in the log why it failed.
            pass
        finally:
            counter.counted = None
            ended.set()
