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
    "day": "day",
}
"""What usage can be grouped by, and the member that says it."""


class UsageGiven(Given):
    """From `since` on and before `until`. `by` names some of the dimensions, with commas."""

    by: str = ""
    since: str | None = None
    until: str | None = None
    format: Literal["json", "csv"] | None = None


class EntriesGiven(Given):
    after: Annotated[int, Meta(ge=0, le=BIG)] = 0
    limit: Limit = 100
    since: str | None = None
    until: str | None = None


class UsageView(UsageRow):
    """`margin` is what is left of the price, and only for the operator."""

    margin: int | None = None


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
    if given.format == "csv" or (given.format is None and "text/csv" in ask.accept):
        text = _csv(items, by, margin=margin)
        return Answer(content=text.encode(), media_type="text/csv")
    return Report(items=items)


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


async def _rows(ask: Ask[UsageGiven], by: Sequence[str], since: int, until: int | None) -> tuple[UsageRow, ...]:
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
