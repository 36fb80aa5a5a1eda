"""Book — one tenant's limits and the amounts used, reserved by model calls and settled after them. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio

from agentvm.errors import QuotaExceeded
from agentvm.events.lifecycle import QuotaWarning
from agentvm.model.account import METRICS, Quota, QuotaWindow
from agentvm.model.ids import Clock, UserId
from agentvm.model.ledger import UsageRow, Wallet

LEDGER_LAG_MS = 60_000
"""Time after which every settled amount is in the ledger; a book stays in memory at least as long."""

TOKENS = ("tokens_per_day", "tokens_per_month")
MONEY = "budget_per_month"
SPENT = (*TOKENS, MONEY)
"""Metrics that are reserved before a call and settled after it."""


@dataclass(slots=True)
class Counter:
    """One limit, and the amount used in the current window."""

    quota: Quota
    begins: int = 0
    used: int = 0
    held: int = 0
    warned: bool = False
    took: int = 0
    """Time for which the count is reused, because counting takes long."""
    is_upper: bool = False
    """Whether `used` is more than was counted: the size of the whole database, beside which there is room."""
    counted: anyio.Event | None = None
    """Set when the count in the background has ended; None without one."""
    rest_ms: int = 0
    """Time of jobs in sandboxes that is not yet a whole second."""
    past: dict[int, int] = field(default_factory=dict)
    """The amounts used in other windows, by the start of each: a clock may be set back, and forward again."""
    part: int | None = None
    """In a cluster: how much of the limit this node may use, which counts only its own use; None for all of it."""
    elsewhere: int = 0
    """In a cluster: how much of the limit was used or taken by other nodes, when the part was taken."""
    is_shared: bool = False
    """In a cluster: whether the part is that of the current window."""

    @property
    def limit(self) -> int | None:
        """The most that may be used here; None without a limit."""
        hard = self.quota.hard
        return hard if hard is None or self.part is None else min(hard, self.part)

    @property
    def room(self) -> int | None:
        """How much more may be used, perhaps below zero; None without a limit."""
        limit = self.limit
        return None if limit is None else limit - self.used - self.held


@dataclass(slots=True)
class _Settled:
    """The amount of one metric settled in its current window since the book was read."""

    begins: int = 0
    used: int = 0
    past: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuotaRemaining:
    """The amounts that may still be reserved: the least that any limit leaves, perhaps below zero; None without a limit."""

    tokens: int | None = None
    money: int | None = None


@dataclass(slots=True, eq=False)
class QuotaBook:
    """One tenant's limits and the amounts used."""

    read_at: int = 0
    """Ledger entries from before this time were settled before it; later ones are in `settled`."""
    counters: dict[tuple[str, UserId | None], Counter] = field(default_factory=dict)
    each: dict[str, Quota] = field(default_factory=dict)
    """The limits that hold for each user without an own one, by metric."""
    users: dict[UserId, None] = field(default_factory=dict)
    """Users who have counters."""
    settled: dict[tuple[str, UserId | None], _Settled] = field(default_factory=dict)
    """Settled amounts of the tenant, and of each user who has called a model since: a limit may be set for any user at any
    time."""
    holds: "set[QuotaHold]" = field(default_factory=set)
    wallet: Wallet = field(default_factory=Wallet)
    """The wallet, as of the time the book was read."""
    spent: int = 0
    """Settled since then."""
    held: int = 0
    """Money set aside."""
    settled_at: int | None = None
    purse: Counter | None = None
    """In a cluster: the part of the wallet that this node may spend."""

    @property
    def limited(self) -> bool:
        return bool(self.counters or self.each) or self.wallet.prepaid

    @property
    def balance(self) -> int:
        return self.wallet.balance - self.spent

    @property
    def money_left(self) -> int:
        """The money of the wallet that is neither spent nor set aside; in a cluster, that of this node."""
        purse = self.purse
        return self.balance - self.held if purse is None else (purse.part or 0) - purse.used - purse.held

    def shared(self) -> list[Counter]:
        """In a cluster: the limits of which this node has a part."""
        counters = [counter for counter in self.counters.values() if counter.part is not None]
        return counters if self.purse is None else [*counters, self.purse]

    def set_aside(self, money: int) -> None:
        """Sets money of the wallet aside, or no longer if negative."""
        self.held += money
        if self.purse is not None:
            self.purse.held += money

    def applying(self, user_id: UserId | None, metrics: Iterable[str]) -> list[Counter]:
        """The tenant's own limits, and the user's."""
        counters = self.counters
        if not counters:
            return []
        if user_id is None:
            return [counters[metric, None] for metric in metrics if (metric, None) in counters]
        return [counters[metric, user] for metric in metrics for user in (None, user_id) if (metric, user) in counters]

    def reserve(self, user_id: UserId | None, counts: Mapping[str, int], now: int, *, own: int | None = None) -> list[Counter]:
        """Reserves one more of each metric, of which there are so many, until `release`; `own` are those of the user.

        For metrics that are counted in memory: a request need not wait for another that is about to add one.
        """
        counters = self.applying(user_id, counts)
        for counter in counters:
            quota = counter.quota
            counter.used = counts[quota.metric] if own is None or quota.user_id is None else own
            refuse_beyond(counter, 1, now)
        for counter in counters:
            counter.held += 1
        return counters

    def remaining(self, user_id: UserId | None, now: int) -> QuotaRemaining:
        """Returns how much a call of the user may reserve."""
        tokens: list[int] = []
        money = [self.money_left] if self.wallet.prepaid else []
        for counter in self.applying(user_id, SPENT):
            renew(counter, now)
            if (left := counter.room) is not None:
                (money if counter.quota.metric == MONEY else tokens).append(left)
        return QuotaRemaining(min(tokens, default=None), min(money, default=None))

    def is_needed(self, now: int) -> bool:
        """Whether the book holds amounts that the database may not have yet."""
        if any(counter.held for counter in self.counters.values()):
            return True
        return bool(self.held or self.holds) or (self.settled_at is not None and abs(now - self.settled_at) < LEDGER_LAG_MS)

    def settle(self, user_id: UserId | None, tokens: int, money: int, now: int) -> None:
        self.spent += money
        if self.purse is not None:
            self.purse.used += money
        self.settled_at = now
        for metric in SPENT:
            begins, amount = window_of(METRICS[metric], now)[0], money if metric == MONEY else tokens
            for user in _payers(user_id):
                settled = self.settled.setdefault((metric, user), _Settled(begins))
                _turn_to(settled, begins)
                settled.used += amount
        # Limits that are newer than the call count, too.
        for counter in self.applying(user_id, SPENT):
            renew(counter, now)
            counter.used += money if counter.quota.metric == MONEY else tokens

    def add(self, counter: Counter) -> None:
        """Adds a limit, starting with the ledger's amount from when the book was read."""
        key = (counter.quota.metric, counter.quota.user_id)
        settled = self.settled.get(key)
        if settled is not None and settled.begins >= counter.begins:
            # A window may have ended while the ledger was read.
            before = counter.used if settled.begins == counter.begins else 0
            counter.begins, counter.used = settled.begins, before + settled.used
        self.counters[key] = counter
        for hold in self.holds if counter.quota.metric in SPENT else ():
            if counter.quota.user_id in _payers(hold.user_id):
                hold.counters.append(counter)
                counter.held += hold.amount(counter)


@dataclass(slots=True, eq=False)
class QuotaHold:
    """The amounts reserved for one model call."""

    _book: QuotaBook
    _clock: Clock
    user_id: UserId | None
    tokens: int
    money: int
    counters: list[Counter]
    warnings: tuple[QuotaWarning, ...] = ()

    def amount(self, counter: Counter) -> int:
        return self.money if counter.quota.metric == MONEY else self.tokens

    def take(self) -> None:
        for counter in self.counters:
            counter.held += self.amount(counter)
        self._book.set_aside(self.money)
        self._book.holds.add(self)

    def settle(self, tokens: int, money: int) -> None:
        """Books the actual use, also beyond the reserved amount: a balance below zero prevents the next call."""
        self.release()
        self._book.settle(self.user_id, tokens, money, self._clock())

    def release(self) -> None:
        for counter in self.counters:
            counter.held -= self.amount(counter)
        self._book.set_aside(-self.money)
        self._book.holds.discard(self)


_latest: dict[QuotaWindow, tuple[int, int]] = {}
"""The window of each kind that was computed last: it is asked for several times in each turn."""


def window_of(window: QuotaWindow | None, now: int) -> tuple[int, int | None]:
    """Returns the start of the current window and of the next one, in UTC; a metric without a window is never renewed."""
    if window is None:
        return 0, None
    begins, ends = _latest.get(window, (0, 0))
    if not begins <= now < ends:
        begins, ends = _latest[window] = _window_at(window, now)
    return begins, ends


def _window_at(window: QuotaWindow, now: int) -> tuple[int, int]:
    at = datetime.fromtimestamp(now / 1000, UTC)
    match window:
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


def _payers(user_id: UserId | None) -> tuple[UserId | None, ...]:
    """The limits that a user's call counts for: the tenant's, and the user's own."""
    return (None,) if user_id is None else (None, user_id)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def release(reserved: Iterable[Counter]) -> None:
    """Ends a reservation of `QuotaBook.reserve`: the added amount is counted by now, or was not added."""
    for counter in reserved:
        counter.held -= 1


def renew(counter: Counter, now: int) -> None:
    before = counter.begins
    if _turn_to(counter, window_of(METRICS[counter.quota.metric], now)[0]):
        counter.warned = False
    if counter.part is not None and counter.begins != before:
        counter.part, counter.elsewhere, counter.is_shared = 0, 0, False


def amount_of(metric: str, row: UsageRow) -> int:
    """Returns the amount of a spent metric in a row of the ledger."""
    if metric == MONEY:
        return row.price
    return row.input_tokens + row.output_tokens + row.cache_read_tokens + row.cache_write_tokens


WINDOWS_MAX = 4
"""Windows of one limit that are remembered besides the current one."""


def _turn_to(count: Counter | _Settled, begins: int) -> bool:
    """Switches to the window that starts at `begins`; returns whether it is later than the previous one.

    A clock that was set back renews nothing: an unknown window starts with the amount of the later one. Nor does a clock that
    was set forward for a while prevent the renewal when that day comes.
    """
    if begins == count.begins:
        return False
    later, before = begins > count.begins, count.past.pop(begins, None)
    count.past[count.begins] = count.used
    while len(count.past) > WINDOWS_MAX:
        del count.past[next(iter(count.past))]
    count.begins = begins
    if before is not None or later:
        count.used = before or 0
    return later


def refuse_beyond(counter: Counter, adding: int, now: int) -> None:
    quota, room = counter.quota, counter.room
    if quota.hard is not None and room is not None and adding > room:
        total = counter.used + counter.held + counter.elsewhere
        reset_at = window_of(METRICS[quota.metric], now)[1]
        raise QuotaExceeded(quota.metric, limit=quota.hard, used=total, adding=adding, reset_at=reset_at)


def warn(counter: Counter, adding: int, now: int) -> list[QuotaWarning]:
    quota, total = counter.quota, counter.used + counter.held + counter.elsewhere
    if quota.soft is None or counter.warned or total + adding <= quota.soft:
        return []
    counter.warned = True
    reset_at = window_of(METRICS[quota.metric], now)[1]
    return [QuotaWarning(metric=quota.metric, limit=quota.soft, used=total, reset_at=reset_at)]
