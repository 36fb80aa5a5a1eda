"""How much is left: of limits, of a wallet that may be overdrawn, and after a clock that jumped."""

import pytest
from tests.tenants.test_quota import ACME, ALICE, BOB, NOON, RIVAL, at, opened

from agentvm.errors import QuotaExceeded, WalletEmpty
from agentvm.model.account import Quota
from agentvm.model.ledger import Credit
from agentvm.tenants.quota import Room

pytestmark = pytest.mark.anyio


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
        assert await quotas.room(ACME, ALICE) == Room(tokens=50, money=500)
        assert await quotas.room(ACME, BOB) == Room(tokens=90, money=500)
        held.settle(150, 900)
        assert await quotas.room(ACME, BOB) == Room(tokens=-50, money=-200)
        assert await quotas.room(RIVAL, BOB) == Room()


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
