"""Book reader — reads the limits of a tenant, its wallet, and their use from the ledger."""

from typing import TYPE_CHECKING

import msgspec

from agentvm.model.account import EACH_USER, METRICS, OF_USERS, Quota
from agentvm.model.ids import Clock, TenantId, UserId
from agentvm.tenants.book import SPENT, Counter, QuotaBook, amount_of, window_of
from agentvm.tenants.plans import Plans, effective
from agentvm.tenants.quota_parts import COUNTED_IN_STORE, EARLIER_MS, WALLET
from agentvm.tenants.sandbox_hold import SANDBOX

if TYPE_CHECKING:
    from agentvm.storage.sql.store import Store

EXPORTED = "export_bytes_per_day"

USERS_MAX = 10_000
"""Users of one tenant whose counters for limits of each user are in memory."""


class BookReader:
    """Reads books. In a cluster only the use by this node counts in them: the rest is in the parts of the others."""

    def __init__(self, store: "Store", clock: Clock, plans: Plans) -> None:
        self._store, self._clock, self._plans = store, clock, plans
        self._opened_at = clock() if store.node_id else 0

    async def read(self, tenant_id: TenantId) -> QuotaBook:
        """Reads the book. Nothing of the tenant is on its way to the ledger now: a caller that settles has a book."""
        now = self._clock()
        book = QuotaBook(read_at=now, wallet=await self._store.accounts(tenant_id).ledger.wallet())
        for quota in await self.limits(tenant_id):
            if quota.user_id == EACH_USER:
                book.each[quota.metric] = quota
            else:
                book.add(await self.count(tenant_id, quota, now))
        await self.open_purse(tenant_id, book)
        return book

    async def open_purse(self, tenant_id: TenantId, book: QuotaBook) -> None:
        """In a cluster: the part of a wallet that this node may spend, and the part that it has spent."""
        if not self._store.node_id or not book.wallet.prepaid:
            return
        quota = Quota(metric=WALLET, hard=book.wallet.credited)
        if book.purse is not None:
            book.purse.quota = quota
            return
        ledger, since = self._store.accounts(tenant_id).ledger, self._opened_at - EARLIER_MS
        rows = await ledger.usage(by=(), since=since, until=book.read_at, node_id=self._store.node_id)
        used = sum(row.price for row in rows) + book.spent
        book.purse = Counter(quota, used=used, held=book.held, part=0)

    async def add_user(self, tenant_id: TenantId, book: QuotaBook, user_id: UserId) -> None:
        """Adds counters for this user; the use of a user who was inactive for long is read again."""
        if user_id in book.users:
            return
        now = self._clock()
        for metric, quota in tuple(book.each.items()):
            if (metric, user_id) not in book.counters:
                own = msgspec.structs.replace(quota, user_id=user_id)
                book.add(await self.count(tenant_id, own, now, until=book.read_at))
        book.users[user_id] = None
        while len(book.users) > USERS_MAX:
            oldest = next(iter(book.users))
            del book.users[oldest]
            for metric in book.each:
                if (counter := book.counters.get((metric, oldest))) is not None and not counter.held:
                    del book.counters[metric, oldest]

    async def limits(self, tenant_id: TenantId) -> tuple[Quota, ...]:
        """Returns the explicit limits, and those of the tenant's plan for the other metrics."""
        tenant = await self._store.directory.get_tenant(tenant_id)
        plan = self._plans.find(None if tenant is None else tenant.plan)
        explicit = await self._store.accounts(tenant_id).quotas.list()
        return tuple(q for q in effective(plan, explicit) if q.user_id is None or q.metric in OF_USERS)

    async def count(self, tenant_id: TenantId, quota: Quota, now: int, until: int | None = None) -> Counter:
        is_shared = self._store.node_id != 0 and quota.metric not in COUNTED_IN_STORE
        counter, node_id = Counter(quota, part=0 if is_shared else None), self._store.node_id or None
        if quota.metric in SPENT:
            counter.begins = window_of(METRICS[quota.metric], now)[0]
            ledger = self._store.accounts(tenant_id).ledger
            rows = await ledger.usage(by=(), since=counter.begins, until=until, user_id=quota.user_id, node_id=node_id)
            counter.used = sum(amount_of(quota.metric, row) for row in rows)
        elif quota.metric == SANDBOX:
            # All that is in the ledger: a job is entered before it is settled.
            counter.begins = window_of(METRICS[SANDBOX], now)[0]
            rows = await self._store.accounts(tenant_id).ledger.usage(by=(), since=counter.begins, node_id=node_id)
            counter.used, counter.rest_ms = divmod(sum(row.wall_ms for row in rows), 1000)
        elif quota.metric == EXPORTED:
            counter.begins = window_of(METRICS[EXPORTED], now)[0]
            if not is_shared:
                counter.used = await self._store.accounts(tenant_id).quotas.exported(counter.begins)
        return counter
