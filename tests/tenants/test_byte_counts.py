"""How long a request waits for the count of its tenant's bytes."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.tenants.test_quota import ACME, opened

from agentvm.errors import QuotaExceeded, StoreFailed
from agentvm.model.account import Quota
from agentvm.tenants import byte_counts
from agentvm.tenants.byte_counts import RECOUNT_SHARE
from agentvm.tenants.quota import Quotas
from agentvm.tenants.quota_limits import used_of

LIMIT = Quota(metric="storage_bytes", hard=100)
LARGE_BYTES = 2**40
LATER_MS = 3_600_000


class Count:
    """A count of stored bytes that lasts until it is let go."""

    def __init__(self, stored: int, *, waits: bool = True, fails: bool = False) -> None:
        self.stored, self.fails = stored, fails
        self.begun, self.end = anyio.Event(), anyio.Event()
        if not waits:
            self.end.set()

    async def __call__(self) -> int:
        self.begun.set()
        await self.end.wait()
        if self.fails:
            raise StoreFailed("The disk refused it")
        return self.stored


@asynccontextmanager
async def counting(quotas: Quotas, size: int = LARGE_BYTES) -> AsyncIterator[anyio.abc.TaskGroup]:
    async def size_bytes() -> int:
        return size

    quotas.byte_counts.size_bytes = size_bytes
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(quotas.byte_counts.run)
        with anyio.fail_after(60):
            await anyio.wait_all_tasks_blocked()
            yield tasks
        tasks.cancel_scope.cancel()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_counts, "FIRST_COUNT_TIMEOUT_SECONDS", 0)


async def test_a_count_that_is_soon_made_is_waited_for() -> None:
    async with opened(LIMIT) as (quotas, _, _), counting(quotas):
        await quotas.store(ACME, None, 40, Count(50, waits=False))
        with pytest.raises(QuotaExceeded):
            await quotas.store(ACME, None, 20, Count(0))


async def test_nothing_is_counted_while_the_whole_database_leaves_room() -> None:
    count = Count(50, waits=False)
    async with opened(LIMIT) as (quotas, store, clock), counting(quotas, size=70):
        await quotas.store(ACME, None, 10, count)
        # What others have stored is told to nobody.
        assert await used_of(LIMIT, store.accounts(ACME), await quotas.book(ACME), clock()) == 0
        async with quotas.adding(ACME, None, "storage_bytes", count, 20):
            assert not count.begun.is_set()
        # The size stands for a count only as long as there is room beside it.
        await quotas.store(ACME, None, 35, count)
        assert count.begun.is_set()
        with pytest.raises(QuotaExceeded) as refused:
            await quotas.store(ACME, None, 16, Count(0))
    assert refused.value.details["used"] == 85


@pytest.mark.usefixtures("impatient")
async def test_a_message_after_a_start_does_not_wait_for_a_long_count_and_is_added_to_it() -> None:
    count = Count(50)
    async with opened(LIMIT) as (quotas, _, _), counting(quotas):
        await quotas.store(ACME, None, 10, count)
        await count.begun.wait()
        await quotas.store(ACME, None, 30, Count(0))
        count.end.set()
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(QuotaExceeded) as refused:
            await quotas.store(ACME, None, 20, Count(0))
    assert refused.value.details["used"] == 90


async def test_a_count_that_is_renewed_is_not_waited_for_if_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_counts, "FIRST_COUNT_TIMEOUT_SECONDS", math.inf)
    again = Count(50)
    async with opened(LIMIT) as (quotas, _, clock), counting(quotas):
        await quotas.store(ACME, None, 10, Count(20, waits=False))
        clock.now += LATER_MS
        await quotas.store(ACME, None, 10, again)
        await again.begun.wait()
        again.end.set()
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(QuotaExceeded):
            await quotas.store(ACME, None, 41, Count(0))


@pytest.mark.usefixtures("impatient")
async def test_who_seems_to_have_no_room_waits_for_the_count_that_is_being_made() -> None:
    count = Count(5)
    admitted = anyio.Event()
    async with opened(LIMIT) as (quotas, _, clock), counting(quotas) as tasks:
        await quotas.store(ACME, None, 10, Count(80, waits=False))
        clock.now += LATER_MS

        async def send() -> None:
            await quotas.store(ACME, None, 60, count)
            admitted.set()

        tasks.start_soon(send)
        await count.begun.wait()
        await anyio.wait_all_tasks_blocked()
        assert not admitted.is_set()
        count.end.set()
        await admitted.wait()


@pytest.mark.usefixtures("impatient")
async def test_a_count_that_failed_is_made_again_by_the_next_message() -> None:
    async with opened(LIMIT) as (quotas, _, _), counting(quotas):
        await quotas.store(ACME, None, 1, Count(0, waits=False, fails=True))
        await anyio.wait_all_tasks_blocked()
        await quotas.store(ACME, None, 1, Count(99, waits=False))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(QuotaExceeded):
            await quotas.store(ACME, None, 1, Count(0))


async def test_a_count_of_containers_that_took_long_is_reused_far_from_the_limit() -> None:
    counted = 0
    async with opened(Quota(metric="containers", hard=1_000)) as (quotas, _, clock):

        async def count() -> int:
            nonlocal counted
            counted += 1
            clock.now += 70
            return 900

        for adding, times in ((1, 1), (1, 1), (90, 2), (1, 2)):
            await quotas.check(ACME, None, "containers", count, adding)
            assert counted == times
        clock.now += 70 * RECOUNT_SHARE
        await quotas.check(ACME, None, "containers", count)
        assert counted == 3
