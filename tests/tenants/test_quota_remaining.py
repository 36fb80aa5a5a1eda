"""How much is left: of limits, of a wallet that may be overdrawn, and after a clock that jumped."""

import pytest
from tests.tenants.test_quota import ACME, ALICE, BOB, NOON, RIVAL, at, entry, opened

from agentvm.errors import QuotaExceeded, WalletEmpty
from agentvm.model.account import EACH_USER, Quota
from agentvm.model.ids import UserId
from agentvm.model.ledger import Credit
from agentvm.tenants.book import release
from agentvm.tenants.quota import QuotaRemaining, Quotas


async def test_what_was_really_used_is_charged_and_a_balance_below_zero_refuses_all_that_costs_something() -> None:
    async with opened(Quota(metric="budget_per_month", hard=2_000), credit=1_000) as (quotas, store, _):
        held = await quotas.hold(ACME, None, 1, 500, force=False)
        # The provider reports more than could be known before.
        held.settle(1, 5_000)
        assert (await quotas.book(ACME)).balance == -4_000
        with pytest.raises(QuotaExceeded, match="Monthly budget"):
            await quotas.hold(ACME, None, 1, 1, force=False)
        await store.accounts(ACME).quotas.remove("budget_per_month", None)
        await quotas.reread(ACME)
        with pytest.raises(WalletEmpty, match=r"-\$0\.000004 left"):
            await quotas.hold(ACME, None, 1, 1, force=False)
        # What costs nothing goes on, and credit pays the debt first.
        (await quotas.hold(ACME, None, 1, 0, force=False)).release()
        for reference, amount in (("half", 4_000), ("rest", 500)):
            with pytest.raises(WalletEmpty):
                await quotas.hold(ACME, None, 1, 1, force=False)
            await store.accounts(ACME).ledger.credit(Credit(reference=reference, at=NOON, amount=amount, actor="test"))
            await quotas.reread(ACME)
        (await quotas.hold(ACME, None, 1, 500, force=False)).release()


async def test_there_is_as_much_room_as_the_tightest_limit_leaves() -> None:
    limits = (
        Quota(metric="tokens_per_day", hard=100),
        Quota(metric="tokens_per_month", hard=1_000),
        Quota(metric="tokens_per_day", hard=60, user_id=ALICE),
        Quota(metric="budget_per_month", soft=5),
    )
    async with opened(*limits, credit=700) as (quotas, _, _):
        held = await quotas.hold(ACME, ALICE, 10, 200, force=False)
        assert await quotas.remaining(ACME, ALICE) == QuotaRemaining(tokens=50, money=500)
        assert await quotas.remaining(ACME, BOB) == QuotaRemaining(tokens=90, money=500)
        held.settle(150, 900)
        assert await quotas.remaining(ACME, BOB) == QuotaRemaining(tokens=-50, money=-200)
        assert await quotas.remaining(RIVAL, BOB) == QuotaRemaining()


async def test_a_clock_that_was_set_forward_and_back_keeps_no_window_from_being_renewed() -> None:
    async with opened(Quota(metric="tokens_per_day", hard=100)) as (quotas, _, clock):
        (await quotas.hold(ACME, None, 60, 0, force=False)).settle(60, 0)
        clock.now = NOON + 365 * 86_400_000
        (await quotas.hold(ACME, None, 100, 0, force=False)).settle(100, 0)
        clock.now = NOON + 1
        with pytest.raises(QuotaExceeded, match="40 of 100 left"):
            await quotas.hold(ACME, None, 41, 0, force=False)
        clock.now = at("2026-11-16T00:00:00")
        (await quotas.hold(ACME, None, 100, 0, force=False)).release()
        clock.now = NOON + 365 * 86_400_000
        with pytest.raises(QuotaExceeded, match="0 of 100 left"):
            await quotas.hold(ACME, None, 1, 0, force=False)


async def test_a_limit_of_each_user_is_counted_for_each_and_knows_what_they_used_before() -> None:
    each = Quota(metric="tokens_per_day", hard=100, user_id=EACH_USER)
    async with opened(each, Quota(metric="tokens_per_day", hard=30, user_id=BOB)) as (_, store, clock):
        await store.accounts(ACME).ledger.add([entry("before", NOON - 1, tokens=60, user_id=ALICE)])
        quotas = Quotas(store, clock)
        assert (await quotas.remaining(ACME, ALICE)).tokens == 40
        assert (await quotas.remaining(ACME, UserId("carl"))).tokens == 100
        assert (await quotas.remaining(ACME, BOB)).tokens == 30
        assert await quotas.remaining(ACME, None) == QuotaRemaining()
        (await quotas.hold(ACME, ALICE, 40, 0, force=False)).settle(40, 0)
        with pytest.raises(QuotaExceeded):
            await quotas.hold(ACME, ALICE, 1, 0, force=False)
        # A change holds for those who are here at once, and what they used stays used.
        await store.accounts(ACME).quotas.put(Quota(metric="tokens_per_day", hard=150, user_id=EACH_USER), NOON)
        await quotas.reread(ACME)
        assert (await quotas.remaining(ACME, ALICE)).tokens == 50


async def test_what_a_user_stores_in_a_day_has_a_limit() -> None:
    async def count() -> int:
        return 0

    limits = (Quota(metric="stored_bytes_per_day", hard=100, user_id=EACH_USER),)
    async with opened(*limits) as (quotas, _, clock):
        await quotas.check(ACME, ALICE, "storage_bytes", count, 80)
        with pytest.raises(QuotaExceeded, match="stored_bytes_per_day"):
            await quotas.check(ACME, ALICE, "storage_bytes", count, 30)
        await quotas.check(ACME, BOB, "storage_bytes", count, 30)
        clock.now += 86_400_000
        await quotas.check(ACME, ALICE, "storage_bytes", count, 30)


async def test_who_is_about_to_add_something_is_counted_and_nobody_waits() -> None:
    none = {"running_agents": 0}
    async with opened(Quota(metric="running_agents", hard=2)) as (quotas, _, _):
        book = await quotas.book(ACME)
        reserved = [*book.reserve(None, none, NOON), *book.reserve(None, none, NOON)]
        with pytest.raises(QuotaExceeded):
            book.reserve(None, none, NOON)
        release(reserved)
        book.reserve(None, none, NOON)
