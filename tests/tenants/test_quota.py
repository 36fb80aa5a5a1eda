from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from agentvm.errors import InvalidInput, QuotaExceeded, WalletEmpty
from agentvm.model.account import Quota
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import Credit, LedgerEntry, UsageRow
from agentvm.model.usage import Usage
from agentvm.storage.engine import open_store
from agentvm.storage.sql.accounts.ledger import LedgerStore
from agentvm.storage.sql.store import Store
from agentvm.tenants import book, quota
from agentvm.tenants.quota import Quotas, check_quota

ACME, RIVAL = TenantId("acme"), TenantId("rival")
ALICE, BOB = UserId("alice"), UserId("bob")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOON = at("2026-11-15T12:00:00")


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now


@asynccontextmanager
async def opened(*quotas: Quota, credit: int | None = None) -> AsyncIterator[tuple[Quotas, Store, Clock]]:
    clock = Clock()
    async with open_store(None) as store:
        accounts = store.accounts(ACME)
        for one in quotas:
            await accounts.quotas.put(one, NOON)
        if credit is not None:
            await accounts.ledger.credit(Credit(reference="first", at=NOON, amount=credit, actor="test"))
        yield Quotas(store, clock), store, clock


def entry(key: str, when: int, *, tokens: int = 100, price: int = 10, user_id: UserId | None = None) -> LedgerEntry:
    return LedgerEntry(
        key=key,
        at=when,
        tenant_id=ACME,
        user_id=user_id,
        container_id=ContainerId("c"),
        image_id=ImageId("i"),
        session_id=SessionId("s"),
        turn_id=TurnId("t"),
        driver="d",
        model="m",
        usage=Usage(input_tokens=tokens, output_tokens=0),
        cost=price,
        price=price,
    )


async def test_a_tenant_without_limits_is_never_refused() -> None:
    async with opened() as (quotas, _, _):
        held = await quotas.hold(ACME, ALICE, 10**12, 10**15, force=False)
        held.settle(10**12, 10**15)
        for _ in range(100):
            await quotas.hit(ACME, ALICE)


async def test_what_is_set_aside_counts_as_used_so_that_nobody_overdraws() -> None:
    async with opened(Quota(metric="tokens_per_day", hard=1_000)) as (quotas, _, _):
        first = await quotas.hold(ACME, None, 600, 0, force=False)
        with pytest.raises(QuotaExceeded) as refused:
            await quotas.hold(ACME, None, 600, 0, force=False)
        assert refused.value.details == {
            "metric": "tokens_per_day",
            "limit": 1_000,
            "used": 600,
            "resetAt": at("2026-11-16T00:00:00"),
        }
        first.settle(100, 0)
        second = await quotas.hold(ACME, None, 600, 0, force=False)
        # A call that was never made gives everything back.
        second.release()
        (await quotas.hold(ACME, None, 900, 0, force=False)).settle(900, 0)
        with pytest.raises(QuotaExceeded):
            await quotas.hold(ACME, None, 1, 0, force=False)


async def test_what_the_ledger_says_counts_after_a_restart() -> None:
    async with opened(
        Quota(metric="tokens_per_day", hard=1_000),
        Quota(metric="tokens_per_month", hard=1_500),
        Quota(metric="tokens_per_day", hard=300, user_id=ALICE),
    ) as (_, store, clock):
        await store.accounts(ACME).ledger.add(
            [
                entry("yesterday", NOON - 86_400_000, tokens=700),
                entry("today", NOON - 1_000, tokens=250, user_id=ALICE),
                entry("last month", at("2026-10-31T23:59:59"), tokens=5_000),
            ]
        )
        quotas = Quotas(store, clock)
        with pytest.raises(QuotaExceeded, match="Daily token limit: 50 of 300 left until 00:00 UTC; this request needs"):
            await quotas.hold(ACME, ALICE, 51, 0, force=False)
        (await quotas.hold(ACME, BOB, 550, 0, force=False)).release()
        with pytest.raises(QuotaExceeded, match="Monthly token limit: 550 of 1,500 left until 2026-12-01 00:00 UTC"):
            await quotas.hold(ACME, BOB, 551, 0, force=False)


async def test_a_window_is_renewed_when_it_ends_and_not_when_the_clock_is_set_back() -> None:
    async with opened(Quota(metric="tokens_per_day", hard=100)) as (quotas, _, clock):
        (await quotas.hold(ACME, None, 100, 0, force=False)).settle(100, 0)
        clock.now = NOON - 2 * 86_400_000
        with pytest.raises(QuotaExceeded):
            await quotas.hold(ACME, None, 1, 0, force=False)
        clock.now = at("2026-11-16T00:00:00")
        (await quotas.hold(ACME, None, 100, 0, force=False)).release()


async def test_money_has_a_limit_of_its_own() -> None:
    async with opened(Quota(metric="budget_per_month", hard=1_000)) as (quotas, _, _):
        (await quotas.hold(ACME, None, 5, 900, force=False)).settle(5, 900)
        with pytest.raises(QuotaExceeded, match="Monthly budget"):
            await quotas.hold(ACME, None, 5, 101, force=False)


async def test_an_empty_wallet_refuses_and_credit_opens_it_again() -> None:
    async with opened(credit=1_000) as (quotas, store, _):
        held = await quotas.hold(ACME, None, 1, 700, force=False)
        with pytest.raises(WalletEmpty, match="Add credit"):
            await quotas.hold(ACME, None, 1, 400, force=False)
        held.settle(1, 650)
        (await quotas.hold(ACME, None, 1, 350, force=False)).settle(1, 350)
        with pytest.raises(WalletEmpty):
            await quotas.hold(ACME, None, 1, 1, force=False)
        await store.accounts(ACME).ledger.add([entry("both", NOON, price=1_000)])
        await store.accounts(ACME).ledger.credit(Credit(reference="second", at=NOON, amount=500, actor="test"))
        await quotas.reread(ACME)
        (await quotas.hold(ACME, None, 1, 500, force=False)).release()


async def test_a_call_that_was_already_made_is_charged_whatever_remains() -> None:
    async with opened(Quota(metric="tokens_per_day", hard=10), credit=5) as (quotas, _, _):
        (await quotas.hold(ACME, None, 0, 0, force=True)).settle(100, 3)
        with pytest.raises(QuotaExceeded):
            await quotas.hold(ACME, None, 1, 0, force=False)


async def test_a_soft_limit_warns_once_per_window_and_refuses_nothing() -> None:
    async with opened(Quota(metric="tokens_per_day", soft=100)) as (quotas, _, clock):
        held = [await quotas.hold(ACME, None, 60, 0, force=False) for _ in range(3)]
        assert [len(one.warnings) for one in held] == [0, 1, 0]
        (warning,) = held[1].warnings
        assert (warning.metric, warning.limit, warning.used) == ("tokens_per_day", 100, 60)
        clock.now += 86_400_000
        for one in held:
            one.settle(60, 0)
        assert [len((await quotas.hold(ACME, None, 60, 0, force=False)).warnings) for _ in range(2)] == [1, 0]


async def test_requests_are_counted_by_the_minute_for_the_tenant_and_for_each_user() -> None:
    limits = (Quota(metric="requests_per_minute", hard=5), Quota(metric="requests_per_minute", hard=3, user_id=ALICE))
    async with opened(*limits) as (quotas, _, clock):
        for _ in range(3):
            await quotas.hit(ACME, ALICE)
        with pytest.raises(QuotaExceeded, match="0 of 3 left"):
            await quotas.hit(ACME, ALICE)
        for _ in range(2):
            await quotas.hit(ACME, BOB)
        with pytest.raises(QuotaExceeded, match="0 of 5 left") as refused:
            await quotas.hit(ACME, BOB)
        assert refused.value.details["resetAt"] == NOON + 60_000
        # Another tenant's requests are its own.
        await quotas.hit(RIVAL, ALICE)
        clock.now += 60_000
        await quotas.hit(ACME, ALICE)


async def test_things_are_counted_only_where_there_is_a_limit() -> None:
    counted = 0

    async def count() -> int:
        nonlocal counted
        counted += 1
        return 4

    async with opened(Quota(metric="containers", hard=4), Quota(metric="images_per_container", hard=5)) as (quotas, _, _):
        await quotas.check(ACME, None, "connections", count)
        assert counted == 0
        with pytest.raises(QuotaExceeded, match="Limit containers: 0 of 4 left"):
            await quotas.check(ACME, None, "containers", count)
        await quotas.check(ACME, None, "images_per_container", count)
        assert counted == 2


async def test_a_change_of_limits_holds_at_once_and_keeps_what_is_set_aside() -> None:
    async with opened(Quota(metric="tokens_per_day", hard=100)) as (quotas, store, _):
        held = await quotas.hold(ACME, None, 90, 0, force=False)
        await store.accounts(ACME).quotas.put(Quota(metric="tokens_per_day", hard=95), NOON)
        await quotas.reread(ACME)
        with pytest.raises(QuotaExceeded, match="5 of 95 left"):
            await quotas.hold(ACME, None, 6, 0, force=False)
        held.settle(10, 0)
        (await quotas.hold(ACME, None, 85, 0, force=False)).release()


async def test_two_who_ask_at_once_share_one_book() -> None:
    async with opened(Quota(metric="tokens_per_day", hard=100)) as (quotas, _, _):
        refused = 0

        async def take() -> None:
            nonlocal refused
            try:
                await quotas.hold(ACME, None, 10, 0, force=False)
            except QuotaExceeded:
                refused += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(25):
                tasks.start_soon(take)
        assert refused == 15


async def test_books_nobody_uses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "BOOKS_MAX", 3)
    async with opened(Quota(metric="tokens_per_day", hard=100)) as (quotas, _, _):
        held = await quotas.hold(ACME, None, 60, 0, force=False)
        for number in range(10):
            await quotas.book(TenantId(f"t{number}"))
        assert len(quotas._books) == 3
        # One with something set aside is kept.
        with pytest.raises(QuotaExceeded):
            await quotas.hold(ACME, None, 60, 0, force=False)
        held.release()


async def test_what_is_settled_and_not_yet_in_the_ledger_survives_a_change_of_limits() -> None:
    async with opened(Quota(metric="tokens_per_day", hard=100), credit=1_000) as (quotas, store, _):
        (await quotas.hold(ACME, None, 90, 900, force=False)).settle(90, 900)
        await store.accounts(ACME).quotas.put(Quota(metric="containers", hard=5), NOON)
        await quotas.reread(ACME)
        assert (await quotas.book(ACME)).balance == 100
        with pytest.raises(QuotaExceeded, match="10 of 100 left"):
            await quotas.hold(ACME, None, 11, 0, force=False)
        # Once it is there it is not counted twice.
        await store.accounts(ACME).ledger.add([entry("one", NOON, tokens=90, price=900)])
        await quotas.reread(ACME)
        assert (await quotas.book(ACME)).balance == 100
        (await quotas.hold(ACME, None, 10, 100, force=False)).release()


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("user_id", [None, ALICE])
async def test_a_new_limit_knows_what_was_used_before_it(user_id: UserId | None, *, committed: bool) -> None:
    async with opened() as (quotas, store, clock):
        await store.accounts(ACME).ledger.add([entry("old", NOON - 1_000, tokens=10, user_id=ALICE)])
        running = await quotas.hold(ACME, ALICE, 30, 0, force=False)
        (await quotas.hold(ACME, BOB, 5, 0, force=False)).settle(5, 0)
        (await quotas.hold(ACME, ALICE, 20, 0, force=False)).settle(20, 0)
        if committed:
            new = [entry("alice", NOON, tokens=20, user_id=ALICE), entry("bob", NOON, tokens=5, user_id=BOB)]
            await store.accounts(ACME).ledger.add(new)
        clock.now += 1_000
        await store.accounts(ACME).quotas.put(Quota(metric="tokens_per_day", hard=70, user_id=user_id), NOON)
        await quotas.reread(ACME)
        used = 60 if user_id else 65
        with pytest.raises(QuotaExceeded, match=f"{70 - used} of 70 left"):
            await quotas.hold(ACME, ALICE, 71 - used, 0, force=False)
        running.settle(1, 0)
        (await quotas.hold(ACME, ALICE, 70 - used + 29, 0, force=False)).release()


class Held:
    """A ledger that answers late: the test lets it."""

    def __init__(self, inner: LedgerStore) -> None:
        self._inner = inner
        self.asked, self.go = anyio.Event(), anyio.Event()

    async def usage(self, **query: Any) -> tuple[UsageRow, ...]:
        found = await self._inner.usage(**query)
        self.asked.set()
        await self.go.wait()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_what_is_settled_while_a_limit_is_read_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as (quotas, store, _):
        held = await quotas.hold(ACME, None, 50, 0, force=False)
        accounts = store.accounts(ACME)
        await accounts.quotas.put(Quota(metric="tokens_per_day", hard=100), NOON)
        slow = Held(accounts.ledger)
        monkeypatch.setattr(accounts, "ledger", slow)
        monkeypatch.setattr(store, "accounts", lambda tenant_id: accounts)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(quotas.reread, ACME)
                await slow.asked.wait()
                held.settle(40, 0)
                await accounts.ledger.add([entry("one", NOON, tokens=40)])
                slow.go.set()
        with pytest.raises(QuotaExceeded, match="60 of 100 left"):
            await quotas.hold(ACME, None, 61, 0, force=False)
        (await quotas.hold(ACME, None, 60, 0, force=False)).release()


async def test_a_book_is_not_forgotten_before_the_ledger_has_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "BOOKS_MAX", 1)
    async with opened(credit=100) as (quotas, _, clock):
        (await quotas.hold(ACME, None, 1, 100, force=False)).settle(1, 100)
        await quotas.book(RIVAL)
        assert (await quotas.book(ACME)).balance == 0
        clock.now += book.LEDGER_LAG_MS
        await quotas.book(TenantId("third"))
        assert (await quotas.book(ACME)).balance == 100


async def test_a_book_is_there_for_who_asks_also_when_all_others_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "BOOKS_MAX", 1)
    async with opened() as (quotas, _, _):
        held = await quotas.hold(ACME, None, 1, 1, force=False)
        assert await quotas.book(RIVAL) is await quotas.book(RIVAL)
        held.release()


async def test_a_book_that_could_not_be_read_leaves_nothing_behind() -> None:
    async with opened() as (_, store, _):
        broken = Quotas(store, lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await broken.book(ACME)
        assert (len(broken._lock), len(broken._books)) == (0, 0)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Quota(metric="tokens_per_week", hard=1), "there are: requests_per_minute"),
        (Quota(metric="containers"), "needs `hard`, `soft` or both"),
        (Quota(metric="containers", hard=-1), "negative"),
        (Quota(metric="containers", hard=1, soft=2), "must not be larger"),
        (Quota(metric="containers", hard=1, user_id=ALICE), "for one user there are: requests_per_minute, connections, tokens"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(bad: Quota, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        check_quota(bad)


async def test_a_change_of_limits_forgets_no_request_that_was_counted() -> None:
    async with opened(Quota(metric="requests_per_minute", hard=2)) as (quotas, store, _):
        for _ in range(2):
            await quotas.hit(ACME, None)
        await store.accounts(ACME).quotas.put(Quota(metric="containers", hard=5), NOON)
        await quotas.reread(ACME)
        with pytest.raises(QuotaExceeded):
            await quotas.hit(ACME, None)


async def test_a_limit_of_a_user_that_cannot_be_counted_for_one_refuses_nobody() -> None:
    async def count() -> int:
        return 9

    async with opened(Quota(metric="containers", hard=1, user_id=ALICE)) as (quotas, _, _):
        await quotas.check(ACME, ALICE, "containers", count)


async def test_what_is_only_counted_here_is_refused_beyond_its_limit_and_renewed() -> None:
    async with opened(Quota(metric="export_bytes_per_day", hard=10)) as (quotas, _, clock):
        await quotas.refuse(ACME, ALICE, "export_bytes_per_day", 10)
        await quotas.count(ACME, ALICE, "export_bytes_per_day", 7)
        await quotas.refuse(ACME, BOB, "export_bytes_per_day", 3)
        with pytest.raises(QuotaExceeded):
            await quotas.refuse(ACME, BOB, "export_bytes_per_day", 4)
        clock.now += 86_400_000
        await quotas.refuse(ACME, BOB, "export_bytes_per_day", 10)
