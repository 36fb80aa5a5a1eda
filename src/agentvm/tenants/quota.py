"""Quota — how much a tenant, or one of its users, may use. Set aside before, settled after, so that nobody overdraws.

Theory of operation. A tenant's book is read once and then kept in memory: its limits, what the ledger says was used in the
current windows, its wallet. A model call first sets aside the most it can use; other calls see that as used. When the call
has ended, what it really used takes the place of what was set aside. So calls at the same time cannot share the same
last token. A tenant without limits and without a wallet costs one look into a dict.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio

from agentvm.errors import InvalidInput, QuotaExceeded, WalletEmpty
from agentvm.events.lifecycle import QuotaWarning
from agentvm.model.account import METRICS, Quota, Window
from agentvm.model.ids import Clock, TenantId, UserId
from agentvm.model.ledger import UsageRow, Wallet
from agentvm.model.money import dollars
from agentvm.storage.base import Store

MAX_BOOKS = 10_000
"""Tenants whose books are in memory."""

RECOUNT = 60_000
"""Milliseconds after which bytes are counted anew; meanwhile what is added is added up."""

_TOKENS = ("tokens_per_day", "tokens_per_month")
_MONEY = "budget_per_month"
_SPENT = (*_TOKENS, _MONEY)
"""What is set aside before a call and settled after it."""


@dataclass(slots=True)
class _Counter:
    """One limit, and how much of it is used in the current window."""

    quota: Quota
    begins: int = 0
    used: int = 0
    held: int = 0
    warned: bool = False


@dataclass(slots=True, eq=False)
class Book:
    """One tenant's limits and what is used of them."""

    counters: dict[tuple[str, UserId | None], _Counter] = field(default_factory=dict)
    wallet: Wallet = field(default_factory=Wallet)
    spent: int = 0
    """Settled since the wallet was read."""
    held: int = 0
    """Money set aside."""

    @property
    def limited(self) -> bool:
        return bool(self.counters) or self.wallet.prepaid

    @property
    def balance(self) -> int:
        return self.wallet.balance - self.spent

    def applying(self, user_id: UserId | None, metrics: Iterable[str]) -> list[_Counter]:
        """The tenant's own limits, and the user's."""
        users = (None,) if user_id is None else (None, user_id)
        return [self.counters[key] for metric in metrics for user in users if (key := (metric, user)) in self.counters]


class Quotas:
    """The books of this server's tenants."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._books: OrderedDict[TenantId, Book] = OrderedDict()
        self._reading: dict[TenantId, anyio.Lock] = {}

    async def book(self, tenant_id: TenantId) -> Book:
        found = self._books.get(tenant_id)
        if found is None:
            # One reads, the others wait: two books of one tenant would allow twice as much.
            lock = self._reading.setdefault(tenant_id, anyio.Lock())
            async with lock:
                found = self._books.get(tenant_id)
                if found is None:
                    found = self._books[tenant_id] = await self._read(tenant_id)
            self._reading.pop(tenant_id, None)
            self._forget_some()
        self._books.move_to_end(tenant_id)
        return found

    async def reread(self, tenant_id: TenantId) -> None:
        """Its limits or its wallet were changed. What is set aside stays so."""
        before = self._books.get(tenant_id)
        if before is None:
            return
        after = await self._read(tenant_id)
        for key, counter in after.counters.items():
            # In place: calls that have set something aside know the counter.
            known = before.counters.setdefault(key, counter)
            known.quota = counter.quota
            if counter.quota.metric in _SPENT:
                known.begins, known.used = counter.begins, counter.used
        for key in before.counters.keys() - after.counters.keys():
            del before.counters[key]
        before.wallet, before.spent = after.wallet, 0

    async def hit(self, tenant_id: TenantId, user_id: UserId | None) -> None:
        """Counts one request."""
        book = await self.book(tenant_id)
        now = self._clock()
        counters = book.applying(user_id, ("requests_per_minute",))
        for counter in counters:
            _renew(counter, now)
            _refuse_beyond(counter, 1, now)
        for counter in counters:
            counter.used += 1

    async def check(
        self, tenant_id: TenantId, user_id: UserId | None, metric: str, count: Callable[[], Awaitable[int]], adding: int = 1
    ) -> None:
        """Refuses one more of something that is counted where it is; counted only if there is a limit."""
        book = await self.book(tenant_id)
        now = self._clock()
        for counter in book.applying(user_id, (metric,)):
            # What takes long to count is not counted each time.
            if metric != "storage_bytes" or not counter.begins <= now < counter.begins + RECOUNT:
                counter.used, counter.begins = await count(), now
            _refuse_beyond(counter, adding, now)
            counter.used += adding

    async def hold(self, tenant_id: TenantId, user_id: UserId | None, tokens: int, money: int, *, force: bool) -> "QuotaHold":
        book = await self.book(tenant_id)
        now = self._clock()
        held = QuotaHold(book, self._clock, tokens, money, book.applying(user_id, _SPENT) if book.limited else [])
        warnings: list[QuotaWarning] = []
        for counter in held.counters:
            _renew(counter, now)
            if not force:
                _refuse_beyond(counter, held.amount(counter), now)
            warnings += _warn(counter, held.amount(counter), now)
        if book.wallet.prepaid and not force and book.balance - book.held < max(1, money):
            left = dollars(max(0, book.balance - book.held))
            raise WalletEmpty(f"The wallet has {left} left, and this call may cost up to {dollars(money)}; add credit to go on")
        held.take()
        held.warnings = tuple(warnings)
        return held

    async def _read(self, tenant_id: TenantId) -> Book:
        accounts, now = self._store.accounts(tenant_id), self._clock()
        book = Book(wallet=await accounts.ledger.wallet())
        for quota in await accounts.quotas.list():
            counter = _Counter(quota)
            if quota.metric in _SPENT:
                counter.begins = window_of(METRICS[quota.metric], now)[0]
                rows = await accounts.ledger.usage(by=(), since=counter.begins, user_id=quota.user_id)
                counter.used = sum(_amount(quota.metric, row) for row in rows)
            book.counters[quota.metric, quota.user_id] = counter
        return book

    def _forget_some(self) -> None:
        for tenant_id in tuple(self._books):
            if len(self._books) <= MAX_BOOKS:
                return
            book = self._books[tenant_id]
            if not book.held and not any(counter.held for counter in book.counters.values()):
                del self._books[tenant_id]


@dataclass(slots=True, eq=False)
class QuotaHold:
    """What is set aside for one model call."""

    _book: Book
    _clock: Clock
    tokens: int
    money: int
    counters: list[_Counter]
    warnings: tuple[QuotaWarning, ...] = ()

    def amount(self, counter: _Counter) -> int:
        return self.money if counter.quota.metric == _MONEY else self.tokens

    def take(self) -> None:
        for counter in self.counters:
            counter.held += self.amount(counter)
        self._book.held += self.money

    def settle(self, tokens: int, money: int) -> int:
        """What the call really used; returns what is charged for it, which is never more than the wallet has."""
        self.release()
        book = self._book
        if book.wallet.prepaid:
            money = max(0, min(money, book.balance - book.held))
        for counter in self.counters:
            _renew(counter, self._clock())
            counter.used += money if counter.quota.metric == _MONEY else tokens
        book.spent += money
        return money

    def release(self) -> None:
        for counter in self.counters:
            counter.held -= self.amount(counter)
        self._book.held -= self.money


def check_quota(quota: Quota) -> Quota:
    """Refuses a limit that means nothing."""
    if quota.metric not in METRICS:
        raise InvalidInput(f"There is no metric {quota.metric!r}; there are: {', '.join(METRICS)}")
    if quota.hard is None and quota.soft is None:
        raise InvalidInput("A quota needs `hard`, `soft` or both; remove it to have no limit")
    if min(quota.hard or 0, quota.soft or 0) < 0:
        raise InvalidInput("A limit cannot be negative")
    if quota.hard is not None and quota.soft is not None and quota.soft > quota.hard:
        raise InvalidInput("`soft` warns before `hard` refuses, so it must not be larger")
    return quota


def window_of(window: Window | None, now: int) -> tuple[int, int | None]:
    """When the current window began and when the next begins, in UTC; what has no window is never renewed."""
    at = datetime.fromtimestamp(now / 1000, UTC)
    match window:
        case None:
            return 0, None
        case "minute":
            begin = at.replace(second=0, microsecond=0)
            return _ms(begin), _ms(begin) + 60_000
        case "day":
            begin = at.replace(hour=0, minute=0, second=0, microsecond=0)
            return _ms(begin), _ms(begin) + 86_400_000
        case "month":
            begin = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            year, month = (begin.year + 1, 1) if begin.month == 12 else (begin.year, begin.month + 1)
            return _ms(begin), _ms(begin.replace(year=year, month=month))


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _amount(metric: str, row: UsageRow) -> int:
    if metric == _MONEY:
        return row.price
    return row.input_tokens + row.output_tokens + row.cache_read_tokens + row.cache_write_tokens


def _renew(counter: _Counter, now: int) -> None:
    begins = window_of(METRICS[counter.quota.metric], now)[0]
    # A clock that was set back must not renew anything.
    if begins > counter.begins:
        counter.begins, counter.used, counter.warned = begins, 0, False


def _refuse_beyond(counter: _Counter, adding: int, now: int) -> None:
    quota, taken = counter.quota, counter.used + counter.held
    if quota.hard is not None and taken + adding > quota.hard:
        reset_at = window_of(METRICS[quota.metric], now)[1]
        raise QuotaExceeded(quota.metric, limit=quota.hard, used=taken, reset_at=reset_at)


def _warn(counter: _Counter, adding: int, now: int) -> list[QuotaWarning]:
    quota, taken = counter.quota, counter.used + counter.held
    if quota.soft is None or counter.warned or taken + adding <= quota.soft:
        return []
    counter.warned = True
    reset_at = window_of(METRICS[quota.metric], now)[1]
    return [QuotaWarning(metric=quota.metric, limit=quota.soft, used=taken, reset_at=reset_at)]
