"""A node keeps to its part of a limit, asks the database seldom, and counts what it does not remember."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack

import pytest
from tests.conformance.accounts import tenant
from tests.conformance.ledger import entry
from tests.conformance.store import ACME
from tests.tenants.test_quota import Clock

from agentvm.errors import QuotaExceeded
from agentvm.model.account import Quota
from agentvm.model.ids import TenantId
from agentvm.storage.engine import open_shared
from agentvm.tenants.quota import Quotas
from agentvm.tenants.quota_parts import QuotaParts

Books = tuple[Quotas, Quotas]


@pytest.fixture
async def books(database_url: str) -> AsyncGenerator[Books]:
    """The books of two nodes over one database, at one time."""
    clock = Clock()
    async with AsyncExitStack() as stack:
        stores = [(await stack.enter_async_context(open_shared(database_url, name, "1")))[0] for name in ("a", "b")]
        await stores[0].directory.add_tenant(tenant(ACME))
        yield Quotas(stores[0], clock), Quotas(stores[1], clock)


async def limit(books: Books, quota: Quota) -> None:
    await books[0]._store.accounts(ACME).quotas.put(quota, 1)


def parts(one: Quotas) -> QuotaParts:
    assert one.parts is not None
    return one.parts


def exchange(books: Books, asked: list[TenantId]) -> None:
    """Each node gives back when it is asked, as over the mailbox."""

    def asker(other: Quotas) -> None:
        async def reclaim(tenant_id: TenantId, _nodes: Sequence[int]) -> None:
            asked.append(tenant_id)
            await other.give_back(tenant_id)

        parts(next(one for one in books if one is not other)).reclaim = reclaim

    for one in books:
        asker(one)


async def test_after_a_refusal_nobody_is_asked_for_a_while_unless_less_is_needed(books: Books) -> None:
    asked: list[TenantId] = []
    exchange(books, asked)
    await limit(books, Quota(metric="tokens_per_day", hard=100))
    await books[0].hold(ACME, None, 90, 0, force=False)
    for _ in range(3):
        with pytest.raises(QuotaExceeded):
            await books[1].hold(ACME, None, 20, 0, force=False)
    assert asked == [ACME]
    await books[1].hold(ACME, None, 10, 0, force=False)


async def test_a_soft_limit_warns_by_what_all_nodes_have_used(books: Books) -> None:
    await limit(books, Quota(metric="tokens_per_day", soft=100))
    assert (await books[0].hold(ACME, None, 90, 0, force=False)).warnings == ()
    (warning,) = (await books[1].hold(ACME, None, 90, 0, force=False)).warnings
    assert warning.limit == 100
    # It refuses nothing.
    await books[1].hold(ACME, None, 10_000, 0, force=False)


async def test_a_node_whose_books_are_gone_knows_its_use_by_the_ledger_and_its_requests_by_its_part(books: Books) -> None:
    await limit(books, Quota(metric="tokens_per_day", hard=1_000))
    await limit(books, Quota(metric="requests_per_minute", hard=10))
    first, store = books[0], books[0]._store
    for _ in range(9):
        await first.hit(ACME, None)
    held = await first.hold(ACME, None, 500, 0, force=False)
    held.settle(100, 0)
    await store.accounts(ACME).ledger.add([entry("a", at=first._clock())])
    first._clock.now += 1  # type: ignore[attr-defined]
    again = Quotas(store, first._clock)
    assert (await again.remaining(ACME, None, 1_000, 0)).tokens == 900
    await again.hit(ACME, None)
    with pytest.raises(QuotaExceeded):
        await again.hit(ACME, None)


async def test_a_lower_limit_holds_for_what_a_node_had_taken_before(books: Books) -> None:
    await limit(books, Quota(metric="tokens_per_day", hard=10_000))
    (await books[0].hold(ACME, None, 100, 0, force=False)).settle(100, 0)
    await limit(books, Quota(metric="tokens_per_day", hard=150))
    for one in books:
        await one.reread(ACME)
    with pytest.raises(QuotaExceeded):
        await books[0].hold(ACME, None, 60, 0, force=False)
    await books[1].hold(ACME, None, 50, 0, force=False)
