"""Reconcile — compares the ledger with a provider's usage export, and explains every difference. Pure.

Providers export sums, so days and models are compared. A difference is explained when entries of the ledger can account for
all of it:

- calls whose usage is an estimate, because the provider did not report it: cut off, or ended by a crash;
- calls within five minutes of midnight, which the provider's clock may have put into the next day or the one before;
- calls that cost nothing here: made with a tenant's own key, they are on the tenant's bill; by a local model, on none.

Anything beyond that on the provider's side was used without AgentVM: calls that died before they were recorded, or calls made
elsewhere with the same key. The ledger cannot tell which, so it stays unexplained.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Literal

import msgspec

from agentvm.model.base import Record
from agentvm.model.ledger import LedgerEntry
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.tenants.exports import Exported

CLOCK_DIFFERENCE_MAX_MS = 5 * 60 * 1000
"""Largest difference between the provider's clock, or the end of a long call, and ours."""
_DAY_MS = 24 * 3600 * 1000
_DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$")

Verdict = Literal["equal", "provider has more", "ledger has more", "both differ", "only in export", "only in ledger"]


class ReconciledGroup(Record):
    """One model on one day."""

    day: str
    model: str
    verdict: Verdict
    explained: bool
    provider: Usage
    ledger: Usage
    calls: int = 0
    estimated_calls: int = 0
    edge_calls: int = 0
    free_calls: int = 0
    reasons: tuple[str, ...] = ()


class ReconcileReport(Record):
    """Every group, by day and model. `left_out` counts the ledger's calls, by driver, that are not this provider's."""

    groups: tuple[ReconciledGroup, ...]
    provider: Usage
    ledger: Usage
    left_out: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def explained(self) -> bool:
        return all(group.explained for group in self.groups)


@dataclass(slots=True)
class _Side:
    """The ledger's calls of one model on one day."""

    usage: Usage = NO_USAGE
    calls: int = 0
    estimated: list[int] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    early: list[int] = field(default_factory=list)
    """Tokens of each call in the first minutes of the day."""
    late: list[int] = field(default_factory=list)

    def add(self, entry: LedgerEntry) -> None:
        tokens = entry.usage.total
        self.usage += entry.usage
        self.calls += 1
        if entry.usage.estimated:
            self.estimated.append(tokens)
        if entry.cost == 0 and tokens:
            self.free.append(tokens)
        since_midnight = entry.at % _DAY_MS
        if since_midnight < CLOCK_DIFFERENCE_MAX_MS:
            self.early.append(tokens)
        elif since_midnight >= _DAY_MS - CLOCK_DIFFERENCE_MAX_MS:
            self.late.append(tokens)


@dataclass(slots=True)
class _Books:
    """Both sides, by day and model. The ledger may reach a little beyond the export's days, which then only explains."""

    first: str
    last: str
    billed: dict[tuple[str, str], Usage] = field(default_factory=dict)
    ledger: dict[tuple[str, str], _Side] = field(default_factory=dict)

    def bill(self, row: Exported) -> None:
        key = (row.day, base_model(row.model))
        self.billed[key] = self.billed.get(key, NO_USAGE) + row.usage

    def enter(self, day: str, entry: LedgerEntry) -> None:
        self.ledger.setdefault((day, base_model(entry.model)), _Side()).add(entry)

    def keys(self) -> list[tuple[str, str]]:
        return sorted({*self.billed, *(key for key in self.ledger if self.covers(key[0]))})

    def covers(self, day: str) -> bool:
        return self.first <= day <= self.last

    def side(self, day: str, model: str) -> _Side:
        return self.ledger.get((day, model)) or _Side()

    def excess(self, day: str, model: str) -> tuple[int, int]:
        """Tokens that only the ledger has, and that only the provider has: kind by kind."""
        ours, provider = _kinds(self.side(day, model).usage), _kinds(self.billed.get((day, model), NO_USAGE))
        pairs = list(zip(ours, provider, strict=True))
        return sum(max(0, our - their) for our, their in pairs), sum(max(0, their - our) for our, their in pairs)

    def could_take(self, day: str, model: str) -> bool:
        """Whether the provider may have counted calls of a neighbouring day in this one."""
        return not self.covers(day) or self.excess(day, model)[1] > 0

    def could_give(self, day: str, model: str) -> bool:
        """Whether calls of this day may have been counted on a neighbouring day, so that they are not missing here."""
        return not self.covers(day) or self.excess(day, model)[0] > 0


def base_model(name: str) -> str:
    """Removes the date: `claude-sonnet-5-20260915` on the bill is the `claude-sonnet-5` that was requested."""
    return _DATED.sub("", name.strip().lower())


def days_of(exported: Iterable[Exported]) -> tuple[int, int]:
    """Returns the range of the ledger that is needed, in ms: the export's days, and the minutes around them."""
    days = [row.day for row in exported]
    return _start_of(min(days)) - CLOCK_DIFFERENCE_MAX_MS, _start_of(max(days)) + _DAY_MS + CLOCK_DIFFERENCE_MAX_MS


def reconcile(exported: Sequence[Exported], entries: Iterable[LedgerEntry], *, driver: str | None = None) -> ReconcileReport:
    """Compares. `driver` selects the calls that the export is about; without it, calls with a model of the export."""
    entries = list(entries)
    drivers = {driver} if driver is not None else _drivers(exported, entries)
    left_out: dict[str, int] = defaultdict(int)
    books = _Books(min(row.day for row in exported), max(row.day for row in exported))
    for row in exported:
        books.bill(row)
    for entry in entries:
        day = datetime.fromtimestamp(entry.at / 1000, UTC).date().isoformat()
        if entry.driver in drivers:
            books.enter(day, entry)
        elif books.covers(day):
            left_out[entry.driver] += 1
    groups = tuple(_compare(books, *key) for key in books.keys())
    return ReconcileReport(
        groups=groups,
        provider=sum((group.provider for group in groups), NO_USAGE),
        ledger=sum((group.ledger for group in groups), NO_USAGE),
        left_out=dict(left_out),
    )


def _drivers(exported: Sequence[Exported], entries: Sequence[LedgerEntry]) -> set[str]:
    billed = {base_model(row.model) for row in exported}
    drivers = {entry.driver for entry in entries if base_model(entry.model) in billed}
    return drivers or {entry.driver for entry in entries}


def _compare(books: _Books, day: str, model: str) -> ReconciledGroup:
    side, billed = books.side(day, model), books.billed.get((day, model))
    ledger_more, provider_more = books.excess(day, model)
    reasons: list[str] = []
    explained = True
    if ledger_more:
        explained &= _explain_ledger(ledger_more, books, day, model, reasons)
    if provider_more:
        explained &= _explain_provider(provider_more, books, day, model, reasons)
    return ReconciledGroup(
        day=day,
        model=model,
        verdict=_verdict(billed, side, ledger_more, provider_more),
        explained=explained,
        provider=billed or NO_USAGE,
        ledger=side.usage,
        calls=side.calls,
        estimated_calls=len(side.estimated),
        edge_calls=len(side.early) + len(side.late),
        free_calls=len(side.free),
        reasons=tuple(reasons),
    )


def _explain_ledger(excess: int, books: _Books, day: str, model: str, reasons: list[str]) -> bool:
    """Whether estimates, calls at the day's edges and calls on another bill can account for the ledger's excess."""
    side = books.side(day, model)
    # A call that moved to another day is missing there, or that day is not on this bill.
    moved = [
        *(side.early if books.could_take(_shifted(day, -1), model) else ()),
        *(side.late if books.could_take(_shifted(day, 1), model) else ()),
    ]
    accounted = _use(
        reasons,
        ("estimated", side.estimated, "because the provider did not report their usage"),
        ("within 5 minutes of midnight", moved, "so the provider may count them in another day"),
        ("free here", side.free, "made with a tenant's own key or by a local model, so they are not on this bill"),
    )
    if excess <= accounted:
        return True
    missing = excess - accounted
    if (day, model) not in books.billed:
        reasons.append(
            f"{missing:,} tokens unexplained: the export has no such model that day; is it of another account or key?"
        )
    else:
        reasons.append(f"{missing:,} tokens unexplained: is the export complete, and of the account whose key the server has?")
    return False


def _explain_provider(excess: int, books: _Books, day: str, model: str, reasons: list[str]) -> bool:
    """An estimate may also be too low; by as much as it says is taken to be the most."""
    before, after = _shifted(day, -1), _shifted(day, 1)
    moved = [
        *(books.side(before, model).late if books.could_give(before, model) else ()),
        *(books.side(after, model).early if books.could_give(after, model) else ()),
    ]
    accounted = _use(
        reasons,
        ("estimated", books.side(day, model).estimated, "because the provider did not report their usage"),
        ("of a neighbouring day within 5 minutes of midnight", moved, "which the provider may count in this one"),
    )
    if excess <= accounted:
        return True
    reasons.append(
        f"{excess - accounted:,} tokens unexplained: calls that died before they were recorded, "
        "or calls made outside AgentVM with the same key"
    )
    return False


def _use(reasons: list[str], *causes: tuple[str, list[int], str]) -> int:
    """Adds a sentence for each cause that there is; the tokens they can account for together."""
    for cause, tokens, why in causes:
        if tokens:
            calls = "1 call is" if len(tokens) == 1 else f"{len(tokens)} calls are"
            sentence = f"{calls} {cause} ({sum(tokens):,} tokens), {why}"
            if sentence not in reasons:
                reasons.append(sentence)
    return sum(sum(tokens) for _, tokens, _ in causes)


def _verdict(billed: Usage | None, side: _Side, ledger_more: int, provider_more: int) -> Verdict:
    if not ledger_more and not provider_more:
        return "equal"
    if billed is None:
        return "only in ledger"
    if not side.calls:
        return "only in export"
    if ledger_more and provider_more:
        return "both differ"
    return "ledger has more" if ledger_more else "provider has more"


def _kinds(usage: Usage) -> tuple[int, int, int, int]:
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


def _start_of(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)


def _shifted(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()
