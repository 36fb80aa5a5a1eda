"""Usage — `/v1/usage`: what the model calls of a tenant used, what they cost and what is charged for them, in nano-USD."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from agentvm.errors import InvalidInput
from agentvm.model.base import Record
from agentvm.model.ledger import LedgerEntry, UsageRow
from agentvm.server.http.accept import preferred
from agentvm.server.http.calendar import DAY, HOUR, Step, step_name, steps_between
from agentvm.server.http.route import BIG, Answer, Ask, Given, Limit, Page, Routes, moment, paged

routes = Routes()

ADMIN = "tenants:admin"
LOOKING = ("usage:read", ADMIN)

DIMENSIONS: dict[str, str] = {
    "user": "userId",
    "container": "containerId",
    "image": "imageId",
    "driver": "driver",
    "model": "model",
    "hour": "hour",
    "day": "day",
    "month": "month",
}
"""What usage can be grouped by, and the member that says it."""


class UsageGiven(Given):
    """From `since` on and before `until`. `by` names some of the dimensions, with commas."""

    by: str = ""
    since: str | None = None
    until: str | None = None
    format: Literal["json", "csv"] | None = None


class SeriesGiven(Given):
    """From the step of `since` to that of `until`, which is now if it is not said."""

    by: Step = "day"
    since: str | None = None
    until: str | None = None


class EntriesGiven(Given):
    after: Annotated[int, Meta(ge=0, le=BIG)] = 0
    limit: Limit = 100
    since: str | None = None
    until: str | None = None


class UsageView(UsageRow):
    """`margin` is what is left of the price, and only for the operator."""

    margin: int | None = None


class Point(UsageView):
    """One step; `at` is when it begins."""

    at: int


class Series(Record):
    """Every step from the first to the last, also those in which nothing was used."""

    by: Step
    items: Sequence[Point]


class EntryView(LedgerEntry):
    number: int


class Report(Record):
    items: Sequence[UsageView]


@routes.add("GET", "/v1/usage", needs=LOOKING, takes=UsageGiven, media_type="text/csv")
async def report(ask: Ask[UsageGiven]) -> Report | Answer[bytes]:
    """Sum up usage.

    Who does not administer the tenant sees their own usage, and of a key that is bound to containers, only there.
    """
    given = ask.given
    by = _dimensions(given.by)
    since, until = moment(given.since, "since") or 0, moment(given.until, "until")
    rows = await _rows(ask, by, since, until)
    margin = ask.principal.may("system:admin")
    items = [_shown(row, margin=margin) for row in rows]
    if given.format == "csv" or (
        given.format is None and preferred(ask.accept, ("application/json", "text/csv")) == "text/csv"
    ):
        text = _csv(items, by, margin=margin)
        return Answer(content=text.encode(), media_type="text/csv")
    return Report(items=items)


@routes.add("GET", "/v1/usage/series", needs=LOOKING, takes=SeriesGiven)
async def series(ask: Ask[SeriesGiven]) -> Series:
    """See usage over time.

    One row for each hour, day or month (UTC), without gaps. Whose usage it is, is as in `/v1/usage`.
    """
    given = ask.given
    now = ask.vm.clock()
    until = moment(given.until, "until")
    last = now if until is None else until - 1
    since = moment(given.since, "since")
    starts = steps_between(given.by, _back(given.by, last) if since is None else since, last)
    found = await _rows(ask, (given.by,), starts[0] if starts else 0, last + 1) if starts else ()
    rows = {getattr(row, given.by): row for row in found}
    margin = ask.principal.may("system:admin")
    points = [_point(at, given.by, rows.get(step_name(given.by, at)), margin=margin) for at in starts]
    return Series(by=given.by, items=points)


@routes.add("GET", "/v1/usage/entries", needs=(ADMIN,), takes=EntriesGiven)
async def entries(ask: Ask[EntriesGiven]) -> Page[EntryView]:
    """List the entries of the ledger.

    The ledger itself, in the order it was written.
    """
    given = ask.given
    found = await ask.accounts.ledger.list(
        after=given.after,
        limit=given.limit + 1,
        since=moment(given.since, "since") or 0,
        until=moment(given.until, "until"),
    )
    items = [EntryView(number=number, **_members(entry)) for number, entry in found]
    return paged(items, given.limit, lambda index: str(items[index].number))


def _back(by: Step, last: int) -> int:
    """Where a series begins if nobody says: a day of hours, a month of days, a year of months."""
    return last - {"hour": 23 * HOUR, "day": 29 * DAY, "month": 335 * DAY}[by]


def _point(at: int, by: Step, row: UsageRow | None, *, margin: bool) -> Point:
    shown = _shown(row or _none(by, at), margin=margin)
    return Point(at=at, **_members(shown))


def _none(by: Step, at: int) -> UsageRow:
    """Nothing was used."""
    name = step_name(by, at)
    return UsageRow(
        hour=name if by == "hour" else None,
        day=name if by == "day" else None,
        month=name if by == "month" else None,
        calls=0,
        input_tokens=0,
        output_tokens=0,
        cache_read_tokens=0,
        cache_write_tokens=0,
        thinking_tokens=0,
        estimated_calls=0,
        unpriced_calls=0,
        cost=0,
        price=0,
    )


async def _rows(
    ask: Ask[UsageGiven] | Ask[SeriesGiven], by: Sequence[str], since: int, until: int | None
) -> tuple[UsageRow, ...]:
    ledger, one = ask.accounts.ledger, ask.principal
    if one.may(ADMIN):
        return await ledger.usage(by=by, since=since, until=until)
    containers = None
    if one.containers is not None:
        # A key has patterns, the ledger has names.
        used = await ledger.usage(by=("container",), since=since, until=until, user_id=one.user_id)
        containers = [row.container_id for row in used if row.container_id is not None and one.reaches(row.container_id)]
    return await ledger.usage(by=by, since=since, until=until, user_id=one.user_id, containers=containers)


def _dimensions(text: str) -> tuple[str, ...]:
    by = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if any(name not in DIMENSIONS for name in by):
        raise InvalidInput(f"`by` takes some of {', '.join(DIMENSIONS)}, with commas")
    return by


def _members(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _shown(row: UsageRow, *, margin: bool) -> UsageView:
    view = msgspec.convert(row, UsageView, from_attributes=True)
    return msgspec.structs.replace(view, margin=row.price - row.cost) if margin else view


def _csv(items: Iterable[UsageView], by: Sequence[str], *, margin: bool) -> str:
    sums = [
        "calls", "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "thinkingTokens", "estimatedCalls",
        "unpricedCalls", "cost", "price",
    ]  # fmt: skip
    columns = [DIMENSIONS[name] for name in by] + sums + (["margin"] if margin else [])
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    for item in items:
        members = msgspec.to_builtins(item)
        writer.writerow([_cell(members.get(column, "")) for column in columns])
    return out.getvalue()


def _cell(value: object) -> object:
    """Names are chosen by clients, and a spreadsheet runs what looks like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
