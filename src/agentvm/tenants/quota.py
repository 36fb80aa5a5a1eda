"""Quota — limits of a tenant and of its users. Amounts are reserved before and settled after, so that no limit is overdrawn.

Theory of operation. A tenant's book is read once and then kept in memory: its limits, the ledger's amounts in the current
windows, its wallet; and for limits that hold for each user, counters of the active users. A model call first reserves the most
it can use; other calls see that as used. When the call has ended, its actual use replaces the reserved amount. So calls at the
same time cannot share the same last token. A tenant without limits and without a wallet costs one look into a dict.

A settled amount reaches the ledger a little later, so while a book lives it knows more than the ledger: the ledger's amounts
are read once, with the book, and never again. A new limit starts with the ledger's amount from when the book was read, plus the
amounts settled since.

In a cluster a book counts the use by this node, and each limit has a part for it; see `agentvm.tenants.quota_parts`.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from agentvm.errors import Conflict, InvalidInput, WalletEmpty
from agentvm.events.lifecycle import QuotaWarning
from agentvm.model.account import EACH_USER, METRICS, OF_USERS, Plan, Quota
from agentvm.model.ids import Clock, TenantId, UserId
from agentvm.model.money import dollars
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.tenants.book import (
    MONEY,
    SPENT,
    TOKENS,
    Counter,
    QuotaBook,
    QuotaHold,
    QuotaRemaining,
    refuse_beyond,
    renew,
    warn,
    window_of,
)
from agentvm.tenants.book_reader import EXPORTED, BookReader
from agentvm.tenants.byte_counts import (
    NEVER_COUNTED_MS,
    RECOUNT_SHARE,
    ByteCounts,
    CountResources,
    is_recent,
    may_be_reused,
)
from agentvm.tenants.export_hold import ExportHold, reserved_bytes
from agentvm.tenants.plans import DEFAULT, Plans
from agentvm.tenants.quota_parts import Gauge, How, LimitNeed, QuotaParts
from agentvm.tenants.sandbox_hold import SANDBOX, SandboxHold

if TYPE_CHECKING:
    from agentvm.storage.sql.store import Store

BOOKS_MAX = 10_000
"""Tenants whose books are in memory."""

_REQUESTS = ("requests_per_minute",)

STORED = "stored_bytes_per_day"
_STORED = (STORED,)
_STORAGE = ("storage_bytes",)


class Quotas:
    """The books of this server's tenants."""

    def __init__(self, store: "Store", clock: Clock, plans: Plans | None = None) -> None:
        """Without `plans` a tenant has only its explicit limits."""
        self._store = store
        self._clock = clock
        self.plans = plans or Plans({DEFAULT: Plan()})
        self._books: OrderedDict[TenantId, QuotaBook] = OrderedDict()
        self._lock = KeyedLock[tuple[TenantId, str]]()
        self._reader = BookReader(store, clock, self.plans)
        self.byte_counts = ByteCounts(clock, store.size_bytes)
        self.parts = QuotaParts(store, clock) if store.node_id else None
        """In a cluster: the parts that this node has of all limits."""

    async def replace_plans(self, own: Mapping[str, Plan]) -> None:
        """The operator has changed the plans: they hold at once."""
        if self.plans.replace(own):
            for tenant_id in tuple(self._books):
                await self.reread(tenant_id)

    async def book(self, tenant_id: TenantId, user_id: UserId | None = None) -> QuotaBook:
        """The tenant's book, with the limits of that user."""
        book = await self._book(tenant_id)
        if user_id is not None and book.each and user_id not in book.users:
            async with self._lock.hold((tenant_id, "")):
                await self._reader.add_user(tenant_id, book, user_id)
        return book

    async def _book(self, tenant_id: TenantId) -> QuotaBook:
        book = self._books.get(tenant_id)
        if book is None:
            # One reads, the others wait: two books of one tenant would allow twice as much.
            async with self._lock.hold((tenant_id, "")):
                book = self._books.get(tenant_id)
                if book is None:
                    book = self._books[tenant_id] = await self._reader.read(tenant_id)
                    self._forget_some()
        else:
            self._books.move_to_end(tenant_id)
        return book

    async def reread(self, tenant_id: TenantId) -> None:
        """Reads the limits and the wallet of a tenant again after a change. Used and reserved amounts stay."""
        # Waits for a first read of the book, too, which may have seen the state before the change.
        async with self._lock.hold((tenant_id, "")):
            book = self._books.get(tenant_id)
            if book is None:
                return
            accounts, now = self._store.accounts(tenant_id), self._clock()
            wallet, quotas = await accounts.ledger.wallet(), await self._reader.limits(tenant_id)
            named = [quota for quota in quotas if quota.user_id != EACH_USER]
            for_each_user = {quota.metric: quota for quota in quotas if quota.user_id == EACH_USER}
            of_users = (msgspec.structs.replace(quota, user_id=user) for user in book.users for quota in for_each_user.values())
            own = {(quota.metric, quota.user_id) for quota in named}
            quotas = (*named, *(quota for quota in of_users if (quota.metric, quota.user_id) not in own))
            new = [
                await self._reader.count(tenant_id, quota, now, until=book.read_at)
                for quota in quotas
                if (quota.metric, quota.user_id) not in book.counters
            ]
            book.each = for_each_user
            for key in book.counters.keys() - {(quota.metric, quota.user_id) for quota in quotas}:
                del book.counters[key]
            for quota in quotas:
                # In place: running calls refer to the counter.
                if (existing := book.counters.get((quota.metric, quota.user_id))) is not None:
                    if quota.metric == "storage_bytes" and existing.quota != quota:
                        # A changed limit is compared with the count of now, not of a minute ago.
                        existing.begins = NEVER_COUNTED_MS
                    existing.quota = quota
            for counter in new:
                book.add(counter)
            book.wallet = msgspec.structs.replace(book.wallet, credited=wallet.credited, prepaid=wallet.prepaid)
            if self.parts is not None:
                await self._reader.open_purse(tenant_id, book)
                self.parts.forget_refusals()
                # A limit may be lower than before; and what was used before there was a limit counts for it.
                await self.parts.give_back(tenant_id, book)
                await self.parts.secure(tenant_id, [LimitNeed(counter, 0) for counter in book.shared()], "forced")

    async def give_back(self, tenant_id: TenantId | None = None) -> None:
        """In a cluster: returns the unused parts of the limits of a tenant, or of all tenants, to other nodes."""
        for book_tenant, book in tuple(self._books.items()):
            if self.parts is not None and tenant_id in (None, book_tenant):
                await self.parts.give_back(book_tenant, book)

    async def hit(self, tenant_id: TenantId, user_id: UserId | None) -> None:
        """Counts one request; `QuotaExceeded` if it is one too many."""
        counters, now = await self.counters(tenant_id, user_id, _REQUESTS, 1), self._clock()
        for counter in counters:
            renew(counter, now)
            refuse_beyond(counter, 1, now)
        for counter in counters:
            counter.used += 1

    async def refuse(self, tenant_id: TenantId, user_id: UserId | None, metric: str, adding: int) -> None:
        """`QuotaExceeded` if that much more of a metric that is only counted in memory would exceed a limit."""
        counters, now = await self.counters(tenant_id, user_id, (metric,), adding), self._clock()
        for counter in counters:
            renew(counter, now)
            refuse_beyond(counter, adding, now)

    async def reserve(self, tenant_id: TenantId, user_id: UserId | None, metric: str, count: Gauge) -> list[Counter]:
        """Reserves one more of a metric that is counted in memory, until `release`; `QuotaExceeded` if it is one too many."""
        await self.counters(tenant_id, user_id, (metric,), 1)
        book, own = await self.book(tenant_id, user_id), None if user_id is None else count(tenant_id, user_id)
        return book.reserve(user_id, {metric: count(tenant_id, None)}, self._clock(), own=own)

    async def counters(
        self, tenant_id: TenantId, user_id: UserId | None, metrics: Iterable[str], adding: int, how: How = "whole"
    ) -> list[Counter]:
        """Returns the limits that apply; in a cluster with parts for so much more, if they allow."""
        book = await self.book(tenant_id, user_id)
        counters = book.applying(user_id, metrics)
        if self.parts is not None and counters:
            await self.parts.secure(tenant_id, [LimitNeed(counter, adding) for counter in counters], how)
            counters = book.applying(user_id, metrics)
        return counters

    async def count(self, tenant_id: TenantId, user_id: UserId | None, metric: str, adding: int) -> None:
        """Adds to a metric that is only counted in memory: until the server ends, or its window does; see `note_exported`."""
        now = self._clock()
        for counter in (await self.book(tenant_id, user_id)).applying(user_id, (metric,)):
            renew(counter, now)
            counter.used += adding

    async def hold_export(self, tenant_id: TenantId, user_id: UserId | None, size: int) -> ExportHold:
        """Reserves the measured size of an export; `QuotaExceeded` if that is more than is left."""
        book = await self.book(tenant_id)
        await self.counters(tenant_id, user_id, (EXPORTED,), reserved_bytes(size), "partly")
        return ExportHold(self._clock, lambda: book.applying(user_id, (EXPORTED,)), size)

    async def note_exported(self, tenant_id: TenantId, amount: int, began: int) -> None:
        """Bytes that left by an export which has ended: the next start shall know, too."""
        await self._store.accounts(tenant_id).quotas.add_exported(amount, window_of(METRICS[EXPORTED], began)[0])

    async def hold_sandbox(self, tenant_id: TenantId, user_id: UserId | None, seconds: int, price: int = 0) -> SandboxHold:
        """Reserves the time of a job in a sandbox, and its money at that price a second.

        `QuotaExceeded` or `WalletEmpty` if not even a second is left. The ledger gets the job before it is settled.
        """
        book = await self.book(tenant_id, user_id)
        await self.counters(tenant_id, user_id, (SANDBOX,), seconds, "partly")
        money = (await self.remaining(tenant_id, user_id, money=seconds * price)).money if price else None
        affordable = seconds if money is None else min(seconds, max(1, money // price))
        hold = SandboxHold(self._clock, lambda: book.applying(user_id, (SANDBOX,)), affordable)
        if price:
            try:
                hold.money = await self.hold(tenant_id, user_id, 0, hold.seconds * price, force=False)
            finally:
                if hold.money is None:
                    hold.settle(0)
        return hold

    async def check(
        self,
        tenant_id: TenantId,
        user_id: UserId | None,
        metric: str,
        count: CountResources,
        adding: int = 1,
    ) -> None:
        """Refuses one more of a metric that is counted in the store."""
        async with self.adding(tenant_id, user_id, metric, count, adding):
            pass

    async def store(self, tenant_id: TenantId, user_id: UserId | None, size: int, count: CountResources) -> None:
        """Counts bytes that are about to be stored; `QuotaExceeded` if they are too many. `count` counts the stored bytes."""
        of_today, now = await self.counters(tenant_id, user_id, _STORED, size), self._clock()
        stored = (await self.book(tenant_id, user_id)).applying(user_id, _STORAGE)
        for counter in stored:
            if is_recent(counter, now, size):
                continue
            if not self.byte_counts.is_running:
                await self.check(tenant_id, user_id, "storage_bytes", count, size)
                return
            await self.byte_counts.renew(counter, count, size)
        now = self._clock()
        for counter in of_today:
            renew(counter, now)
        for counter in (*stored, *of_today):
            refuse_beyond(counter, size, now)
        for counter in (*stored, *of_today):
            counter.used += size

    @asynccontextmanager
    async def adding(
        self,
        tenant_id: TenantId,
        user_id: UserId | None,
        metric: str,
        count: CountResources,
        adding: int = 1,
    ) -> AsyncIterator[None]:
        """Like `check`, but serialises the tenant's requests until the addition can be counted."""
        book = await self.book(tenant_id, user_id)
        counters = book.applying(user_id, (metric,))
        if metric == "storage_bytes":
            await self.refuse(tenant_id, user_id, STORED, adding)
        if not counters:
            yield
        else:
            async with self._lock.hold((tenant_id, metric)):
                now = self._clock()
                for counter in book.applying(user_id, (metric,)):
                    if metric == "storage_bytes":
                        if not is_recent(counter, now, adding):
                            await self.byte_counts.count(counter, count, adding, counter.used)
                    elif metric != "containers" or not may_be_reused(counter, now, adding):
                        counter.used, counter.begins = await count(), now
                        counter.took = RECOUNT_SHARE * max(0, self._clock() - now)
                    refuse_beyond(counter, adding, now)
                    counter.used += adding
                yield
        if metric == "storage_bytes":
            await self.count(tenant_id, user_id, STORED, adding)

    async def remaining(self, tenant_id: TenantId, user_id: UserId | None, tokens: int = 0, money: int = 0) -> QuotaRemaining:
        """Returns how much more a call may reserve; in a cluster so much, if there is as much."""
        book = await self.book(tenant_id, user_id)
        await self._secure_call(tenant_id, book, user_id, tokens, money, "partly")
        return book.remaining(user_id, self._clock()) if book.limited else QuotaRemaining()

    async def refuse_call(self, tenant_id: TenantId, user_id: UserId | None, tokens: int) -> None:
        """`QuotaExceeded` when a call of this many tokens cannot be made now. Nothing is set aside."""
        counters, now = await self.counters(tenant_id, user_id, TOKENS, tokens), self._clock()
        for counter in counters:
            renew(counter, now)
            refuse_beyond(counter, tokens, now)

    async def hold(self, tenant_id: TenantId, user_id: UserId | None, tokens: int, money: int, *, force: bool) -> QuotaHold:
        """Reserves tokens and money. Limits of tokens do not matter where none are used."""
        book = await self.book(tenant_id, user_id)
        await self._secure_call(tenant_id, book, user_id, tokens, money, "forced" if force else "whole")
        now = self._clock()
        limits = book.applying(user_id, SPENT if tokens else (MONEY,)) if book.limited else []
        held = QuotaHold(book, self._clock, user_id, tokens, money, limits)
        warnings: list[QuotaWarning] = []
        for counter in held.counters:
            renew(counter, now)
            if not force:
                refuse_beyond(counter, held.amount(counter), now)
            warnings += warn(counter, held.amount(counter), now)
        # A call without a price needs no money: a free model, or the tenant's own key.
        if book.wallet.prepaid and not force and money and book.money_left < money:
            left, needed = dollars(book.money_left), dollars(money)
            raise WalletEmpty(f"The wallet has {left} left; this request reserves at least {needed}. Add credit to continue")
        held.take()
        held.warnings = tuple(warnings)
        return held

    async def _secure_call(
        self, tenant_id: TenantId, book: QuotaBook, user_id: UserId | None, tokens: int, money: int, how: How
    ) -> None:
        if self.parts is None or not book.limited:
            return
        metrics = SPENT if tokens else (MONEY,)
        needs = [
            LimitNeed(counter, money if counter.quota.metric == MONEY else tokens)
            for counter in book.applying(user_id, metrics)
        ]
        if book.purse is not None and money:
            needs.append(LimitNeed(book.purse, money))
        await self.parts.secure(tenant_id, needs, how)

    @asynccontextmanager
    async def withdrawing(self, tenant_id: TenantId, money: int) -> AsyncIterator[None]:
        """Reserves the amount that is about to leave the wallet: the ledger does not have the reservations of running calls
        yet."""
        book = await self.book(tenant_id)
        if self.parts is not None and book.purse is not None:
            await self.parts.secure(tenant_id, [LimitNeed(book.purse, money)])
        left = book.money_left
        if left < money:
            raise Conflict(f"The wallet has {dollars(max(0, left))} that is not reserved; no more can be withdrawn")
        book.set_aside(money)
        try:
            yield
        finally:
            book.set_aside(-money)
            # What was withdrawn belongs to nobody's part any more.
            await self.give_back(tenant_id)

    def _forget_some(self) -> None:
        """Drops the least recently used books, but never the newest, which was just requested."""
        if len(self._books) <= BOOKS_MAX:
            return
        now = self._clock()
        for tenant_id in tuple(self._books)[:-1]:
            if len(self._books) <= BOOKS_MAX:
                return
            if not self._books[tenant_id].is_needed(now):
                del self._books[tenant_id]


def check_quota(quota: Quota) -> Quota:
    """Refuses a limit that means nothing."""
    if quota.metric not in METRICS:
        raise InvalidInput(f"There is no metric {quota.metric!r}; there are: {', '.join(METRICS)}")
    if quota.user_id is not None and quota.metric not in OF_USERS:
        of_users = ", ".join(OF_USERS)
        raise InvalidInput(f"{quota.metric} is counted for a tenant as a whole; for one user there are: {of_users}")
    if quota.hard is None and quota.soft is None:
        raise InvalidInput("A quota needs `hard`, `soft` or both; remove it to have no limit")
    if min(quota.hard or 0, quota.soft or 0) < 0:
        raise InvalidInput("A limit cannot be negative")
    if quota.hard is not None and quota.soft is not None and quota.soft > quota.hard:
        raise InvalidInput("`soft` warns before `hard` refuses, so it must not be larger")
    return quota


__all__ = ["QuotaBook", "QuotaHold", "QuotaRemaining", "Quotas", "check_quota", "window_of"]
