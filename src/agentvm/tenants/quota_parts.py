"""Quota parts — how a node of a cluster keeps limits that hold for all nodes together; see `storage.sql.accounts.quota_parts`.

A counter has a `part` of its limit, and refuses amounts beyond that. Before anything is counted the part is made large enough,
if the limit allows; most of the time it is. Unused parts of other nodes are asked back when needed.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agentvm.model.account import METRICS
from agentvm.model.ids import Clock, TenantId, UserId
from agentvm.model.quota_part import EARLIER_MS, WALLET, How, LimitKey, PartNeed
from agentvm.sharing.cache import Cache
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.tenants.book import Counter, QuotaBook, renew, window_of

if TYPE_CHECKING:
    from agentvm.storage.sql.store import Store

COUNTED_IN_STORE = frozenset({"containers", "images_per_container", "storage_bytes", "resources", "webhooks"})
"""Metrics that are counted in the database, which all nodes share."""
REFUSED_MS = 500
"""After a refusal as much is refused again for this long without asking the database and the other nodes."""
REFUSED_MAX = 10_000

ReclaimParts = Callable[[TenantId, Sequence[int]], Awaitable[None]]
"""Requests unused parts of a tenant's limits from other nodes; returns when they were returned, or after a timeout."""
Gauge = Callable[[TenantId, UserId | None], int]
"""The present number of things that begin and end, such as turns, of a tenant or of one of its users."""


class LimitNeed(NamedTuple):
    """A limit, and how much more of it is needed."""

    counter: Counter
    adding: int

    def is_unmet(self) -> bool:
        """Whether the part of this node is too small for it."""
        return self.adding > self.room

    @property
    def room(self) -> int:
        counter = self.counter
        return self.adding if counter.part is None else counter.part - counter.used - counter.held


class QuotaParts:
    """The parts of limits that this node has."""

    def __init__(self, store: "Store", clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._lock = KeyedLock[TenantId]()
        self._refused: Cache[tuple[TenantId, LimitKey], int] = Cache(REFUSED_MAX, age_ms=REFUSED_MS)
        self.reclaim: ReclaimParts | None = None
        self.gauges: dict[str, Gauge] = {}
        """Metrics of things that begin and end here, with the number of those that there are."""

    async def secure(self, tenant_id: TenantId, needs: Iterable[LimitNeed], how: How = "whole") -> None:
        """Enlarges parts as far as the limits allow; whether that is enough is for the caller to see, at once."""
        secured: list[LimitNeed] = []
        try:
            for need in needs:
                await self._secure(tenant_id, need, how)
                # Set aside while others are secured: this node may be asked to give back what it does not use.
                got = need._replace(adding=min(need.adding, max(0, need.room)))
                got.counter.held += got.adding
                secured.append(got)
        finally:
            for got in secured:
                got.counter.held -= got.adding

    async def _secure(self, tenant_id: TenantId, need: LimitNeed, how: How) -> None:
        self._refresh(tenant_id, need.counter)
        if not need.is_unmet():
            return
        key = self._key(need.counter)
        refused = self._refused.get((tenant_id, key), self._clock())
        if refused is not None and need.adding >= refused and how == "whole":
            return
        holders = await self._take(tenant_id, need, how)
        if need.is_unmet() and holders and self.reclaim is not None:
            # Not while the part is locked: another node may ask this one at the same time.
            await self.reclaim(tenant_id, holders)
            await self._take(tenant_id, need, how)
        if need.is_unmet():
            self._refused.put((tenant_id, key), need.adding, self._clock())

    async def give_back(self, tenant_id: TenantId, book: QuotaBook) -> None:
        """Returns the unused parts of the tenant's limits."""
        async with self._lock.hold(tenant_id):
            lowered: list[tuple[LimitKey, int]] = []
            for counter in book.shared():
                self._refresh(tenant_id, counter)
                needed = counter.used + counter.held
                if counter.part is not None and counter.part > needed:
                    # Here first: what is counted meanwhile must have a part already.
                    counter.part = needed
                    lowered.append((self._key(counter), needed))
            if lowered:
                await self._store.accounts(tenant_id).quota_parts.lower(lowered)

    def forget_refusals(self) -> None:
        """Limits have changed: refused amounts may be allowed now."""
        self._refused.clear()

    async def _take(self, tenant_id: TenantId, need: LimitNeed, how: How) -> tuple[int, ...]:
        """Returns the nodes that have parts of the limit as well."""
        counter = need.counter
        async with self._lock.hold(tenant_id):
            if not need.is_unmet():
                return ()
            key, quota = self._key(counter), counter.quota
            used = counter.used + counter.held
            part_need = PartNeed(used, need.adding, quota.hard, quota.soft, how, is_new=not counter.is_shared)
            part = await self._store.accounts(tenant_id).quota_parts.take(key, part_need)
            if key != self._key(counter):
                # Its window has ended meanwhile.
                return ()
            if part_need.is_new and key.is_counted_here:
                counter.used = max(counter.used, part.before - counter.held)
            counter.part, counter.elsewhere, counter.is_shared = part.amount, part.elsewhere, True
            return part.holders

    def _refresh(self, tenant_id: TenantId, counter: Counter) -> None:
        metric = counter.quota.metric
        if (gauge := self.gauges.get(metric)) is not None:
            counter.used = gauge(tenant_id, counter.quota.user_id)
        if metric != WALLET:
            renew(counter, self._clock())

    def _key(self, counter: Counter) -> LimitKey:
        quota = counter.quota
        window = METRICS.get(quota.metric)
        ends = None if window is None else window_of(window, counter.begins)[1]
        return LimitKey(quota.metric, quota.user_id or "", 0 if window is None else counter.begins, ends)


__all__ = ["COUNTED_IN_STORE", "EARLIER_MS", "WALLET", "Gauge", "How", "LimitNeed", "QuotaParts"]
