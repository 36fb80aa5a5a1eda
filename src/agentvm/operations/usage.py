"""Usage — tokens, cost and price of a tenant's model calls, in nano-USD."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from agentvm.errors import InvalidInput
from agentvm.model.base import Record
from agentvm.model.ledger import LedgerEntry, UsageRow
from agentvm.operations.accept import preferred
from agentvm.operations.calendar import DAY_MS, HOUR_MS, Step, step_name, steps_between
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, number_of, paged
from agentvm.operations.times import to_ms
from agentvm.protocol.requests import Request

operation = OperationGroup("usage")

ADMIN = "tenants:admin"
READ = ("usage:read", ADMIN)

CSV = "text/csv"
DIMENSIONS: dict[str, str] = {
    "user": "userId",
    "key": "keyId",
    "container": "containerId",
    "image": "imageId",
    "session": "sessionId",
    "driver": "driver",
    "model": "model",
    "hour": "hour",
    "day": "day",
    "month": "month",
}
"""The dimensions that usage can be grouped by, each with its field."""


class UsageView(UsageRow):
    """`margin` is price minus cost, shown to the operator only."""

    margin: int | None = None


class Report(Record):
    items: Sequence[UsageView]


class UsageReport(Request[Report]):
    """Calls from `since` on and before `until`. `by` is a comma-separated list of dimensions."""

    by: str = ""
    since: str | None = None
    until: str | None = None
    format: Literal["json", "csv"] | None = None


@operation("usage.report", needs=READ, http=Http("GET", "/v1/usage", media_type=CSV))
async def report(context: Context, request: UsageReport) -> Report | HttpReply[bytes]:
    """Summarize usage.

    Without `tenants:admin` you see your own usage; with a key for some containers, only the usage there.
    """
    by = _dimensions(request.by)
    rows = await _rows(context, by, to_ms(request.since, "since") or 0, to_ms(request.until, "until"))
    is_operator = context.principal.may("system:admin")
    items = [_view(row, is_operator=is_operator) for row in rows]
    if request.format == "csv" or (request.format is None and preferred(context.http.accept, ("application/json", CSV)) == CSV):
        return HttpReply(content=_csv(items, by, is_operator=is_operator).encode(), media_type=CSV)
    return Report(items=items)


class Point(UsageView):
    """One step; `at` is its beginning."""

    at: int


class Series(Record):
    """Every step from the first to the last, including those without usage."""

    by: Step
    items: Sequence[Point]


class UsageSeries(Request[Series]):
    """Steps from that of `since` to that of `until`, by default now."""

    by: Step = "day"
    since: str | None = None
    until: str | None = None


@operation("usage.series", needs=READ, http=Http("GET", "/v1/usage/series"))
async def series(context: Context, request: UsageSeries) -> Series:
    """Show usage over time.

    One row for each hour, day or month (UTC), without gaps. You see the same usage as in `/v1/usage`.
    """
    by, until, since = request.by, to_ms(request.until, "until"), to_ms(request.since, "since")
    last = context.vm.clock() if until is None else until - 1
    starts = steps_between(by, last - _DEFAULT_SPAN_MS[by] if since is None else since, last)
    rows = await _rows(context, (by,), starts[0], last + 1) if starts else ()
    by_step = {getattr(row, by): row for row in rows}
    is_operator = context.principal.may("system:admin")
    points = [_point(at, by, by_step.get(step_name(by, at)), is_operator=is_operator) for at in starts]
    return Series(by=by, items=points)


_DEFAULT_SPAN_MS: dict[Step, int] = {"hour": 23 * HOUR_MS, "day": 29 * DAY_MS, "month": 335 * DAY_MS}
"""A series covers a day of hours, a month of days or a year of months by default."""


class EntryView(LedgerEntry):
    number: int


class UsageEntries(PageRequest):
    """Entries from `since` on and before `until`."""

    order: Literal["oldest", "newest"] = "oldest"
    since: str | None = None
    until: str | None = None


@operation("usage.entries", needs=ADMIN, http=Http("GET", "/v1/usage/entries"))
async def entries(context: Context, request: UsageEntries) -> Page[EntryView]:
    """List the entries of the ledger, in the order they were written, or the newest first."""
    numbered = await context.accounts.ledger.list(
        after=number_of(request.cursor) or 0,
        limit=request.limit + 1,
        since=to_ms(request.since, "since") or 0,
        until=to_ms(request.until, "until"),
        newest=request.order == "newest",
    )
    items = [EntryView(number=number, **_fields(entry)) for number, entry in numbered]
    return paged(items, request.limit, lambda index: str(items[index].number))


def _point(at: int, by: Step, row: UsageRow | None, *, is_operator: bool) -> Point:
    return Point(at=at, **_fields(_view(row or _unused(by, at), is_operator=is_operator)))


def _unused(by: Step, at: int) -> UsageRow:
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


async def _rows(context: Context, by: Sequence[str], since: int, until: int | None) -> tuple[UsageRow, ...]:
    """Returns the usage that the principal may see."""
    ledger, principal = context.accounts.ledger, context.principal
    if principal.may(ADMIN):
        return await ledger.usage(by=by, since=since, until=until)
    containers = None
    if principal.containers is not None:
        # A key has patterns, the ledger has names.
        used = await ledger.usage(by=("container",), since=since, until=until, user_id=principal.user_id)
        containers = [row.container_id for row in used if row.container_id is not None and principal.reaches(row.container_id)]
    return await ledger.usage(by=by, since=since, until=until, user_id=principal.user_id, containers=containers)


def _dimensions(text: str) -> tuple[str, ...]:
    by = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if any(name not in DIMENSIONS for name in by):
        raise InvalidInput(f"`by` takes some of {', '.join(DIMENSIONS)}, separated by commas")
    return by


def _fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _view(row: UsageRow, *, is_operator: bool) -> UsageView:
    view = msgspec.convert(row, UsageView, from_attributes=True)
    return msgspec.structs.replace(view, margin=row.price - row.cost) if is_operator else view


def _csv(items: Iterable[UsageView], by: Sequence[str], *, is_operator: bool) -> str:
    sums = [
        "calls", "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "thinkingTokens", "webSearches",
        "estimatedCalls", "unpricedCalls", "cost", "price",
    ]  # fmt: skip
    columns = [DIMENSIONS[name] for name in by] + sums + (["margin"] if is_operator else [])
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    for item in items:
        fields = msgspec.to_builtins(item)
        writer.writerow([_cell(fields.get(column, "")) for column in columns])
    return out.getvalue()


def _cell(value: object) -> object:
    """Escapes a cell: names are chosen by clients, and a spreadsheet runs a text that looks like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
