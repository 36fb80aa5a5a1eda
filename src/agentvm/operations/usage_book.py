"""Usage book — entries of the ledger for model calls that were made elsewhere: at the edge."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from agentvm.errors import InvalidInput
from agentvm.model.base import Record, record_from
from agentvm.model.ids import check_container_id
from agentvm.model.ledger import LedgerEntry, Planned
from agentvm.model.usage import REPORTED_TOKENS_MAX, Usage
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Request

operation = OperationGroup("usage")

ENTRIES_MAX = 500
KEY_PREFIX = "edge:"
"""No call of this server has a key that begins like this."""

CLOCK_SKEW_MAX_MS = 86_400_000
"""A clock at the edge may be ahead by this much."""

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[!-~]+$")]
Tokens = Annotated[int, Meta(ge=0, le=REPORTED_TOKENS_MAX)]


class CallUsage(Record, forbid_unknown_fields=True):
    """Tokens of a call."""

    input_tokens: Tokens
    output_tokens: Tokens
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    estimated: bool = False


class CallEntry(Record, forbid_unknown_fields=True):
    """One call, or all calls of a turn; `id` names it permanently. `driver` is the kind of the provider, such as anthropic."""

    id: Name
    at: Annotated[int, Meta(ge=0)]
    container_id: str
    image_id: Name
    session_id: Name
    turn_id: Name
    driver: Name
    model: Name
    usage: CallUsage
    provider: Name | None = None


class Booked(Record):
    """`known` entries had been booked before, and were left alone."""

    booked: int
    known: int


class UsageBook(Request[Booked]):
    """At most 500 entries."""

    entries: Annotated[Sequence[CallEntry], Meta(min_length=1, max_length=ENTRIES_MAX)]


@operation("usage.book", needs="usage:write", http=Http("POST", "/v1/usage/entries", id="usage_book"))
async def book(context: Context, request: UsageBook) -> Booked:
    """Book model calls that were made at the edge.

    Each is entered once, at the prices of this server, and counts against quotas and wallet. Sending it again changes nothing.
    """
    now = context.vm.clock()
    for entry in request.entries:
        context.workspace.container_id(check_container_id(entry.container_id))
        if entry.at > now + CLOCK_SKEW_MAX_MS:
            raise InvalidInput(f"The entry {entry.id} is from the future: check the clocks")
    booked = sum([await _enter(context, entry) for entry in request.entries])
    return Booked(booked=booked, known=len(request.entries) - booked)


async def _enter(context: Context, entry: CallEntry) -> bool:
    """Whether the entry was new. It counts against quotas after it is stored, so never twice."""
    tenant_id = context.tenant_id
    planned = Planned(
        tenant_id=tenant_id,
        user_id=None,
        driver=entry.driver,
        model=entry.model,
        most_input=0,
        most_output=0,
        provider=entry.provider or "",
    )
    usage = record_from(Usage, entry.usage)
    hold = await context.tenancy.metering.admit(planned, force=True)
    charge = hold.charge(usage)
    row = record_from(
        LedgerEntry,
        entry,
        charge,
        key=f"{KEY_PREFIX}{entry.id}",
        tenant_id=tenant_id,
        container_id=context.workspace.container_id(entry.container_id),
        usage=usage,
    )
    is_new = False
    try:
        is_new = await context.accounts.ledger.add((row,)) > 0
    finally:
        if is_new:
            hold.settle(usage)
        else:
            hold.release()
    return is_new
