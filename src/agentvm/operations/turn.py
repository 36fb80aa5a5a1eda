"""Turns — the time and the money that a turn has spent, and its events as they were sent."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from agentvm.errors import ContainerForbidden, NotFound, not_found, shorten
from agentvm.events.base import Event
from agentvm.model.base import record_from
from agentvm.model.ids import SessionId, TurnId
from agentvm.model.ledger import TurnCharge
from agentvm.model.tier import TierName
from agentvm.model.turn import Turn
from agentvm.observability.timeline import Timeline, draw
from agentvm.operations.http_reply import HttpReply, Streamed
from agentvm.operations.numbers import Amount
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Limit, Page, PageRequest, number_of
from agentvm.operations.times import to_ms
from agentvm.operations.turn_stream import stream_turn
from agentvm.protocol.dialect_v1 import encode_stored_events
from agentvm.protocol.requests import Reply, Request
from agentvm.runtime.turn_log import TurnLog
from agentvm.storage.sessions import TurnQuery

operation = OperationGroup("turns")

READ = "sessions:read"
DAY_MS = 86_400_000
TIMELINE_EVENTS_MAX = 500_000
"""A timeline is drawn of this many events, about a second's work; one of a longer turn is not complete."""

_ONE = "/v1/turns/{turn_id}"


class TurnList(PageRequest):
    """Every field narrows the list. Without `since` and `session`, turns of the last day are listed."""

    session_id: SessionId | None = None
    container_id: str | None = None
    order: Literal["newest", "slowest"] = "newest"
    outcome: Literal["completed", "interrupted", "failed", "running", "parked"] | None = None
    since: str | None = None
    until: str | None = None


class TurnRow(Turn):
    """A turn in a list. `price` is the tenant's price with sub-agents, in nano-USD; `model` answered last.

    `node_id` is the node of a cluster that runs it.
    """

    price: int | None = None
    model: str | None = None
    node_id: int | None = None


@operation("turn.list", needs=READ, http=Http("GET", "/v1/turns", id="turns_list_some"), raises=(ContainerForbidden,))
async def list_all(context: Context, request: TurnList) -> Page[TurnRow]:
    """List turns.

    Of a session, a container, or all that you may use: the newest first, or the slowest. A turn without an outcome is running,
    or parked: its calls wait for an answer.
    """
    now = context.vm.clock()
    since = to_ms(request.since, "since")
    if request.session_id is not None:
        if await context.store.find_session(request.session_id) is None:
            raise not_found("Session", request.session_id)
    elif since is None:
        since = now - DAY_MS
    until = to_ms(request.until, "until")
    query = record_from(TurnQuery, request, since=since, until=until, now=now, after=request.cursor)
    page = await (await context.sessions.within(request.container_id)).turns(query)
    return Page(items=await turn_rows(context, page.items, page.nodes), next_cursor=page.next)


async def turn_rows(
    context: Context, turns: Sequence[Turn], nodes: Mapping[TurnId, int] = MappingProxyType({})
) -> tuple[TurnRow, ...]:
    """Returns turns with their prices, and the nodes that run them."""
    charges = await context.accounts.ledger.charges([turn.turn_id for turn in turns])
    return tuple(
        record_from(TurnRow, turn, price=charge.price, model=charge.model, node_id=nodes.get(turn.turn_id))
        for turn in turns
        for charge in (charges.get(turn.turn_id, TurnCharge()),)
    )


class TurnShow(Request[Timeline]):
    turn_id: TurnId


@operation("turn.show", needs=READ, http=Http("GET", _ONE))
async def show(context: Context, request: TurnShow) -> Timeline:
    """Show the timeline of a turn: its time, usage and cost.

    Also while it runs. Usage and cost are known even when its events are no longer kept.
    """
    turn = await _turn(context, request.turn_id)
    events, complete = await _log(context, turn).read_all(TIMELINE_EVENTS_MAX, words=False)
    ledger = await context.accounts.ledger.of_turn(turn.turn_id)
    placed = await context.tenancy.store.tenant(context.tenant_id).placed_calls().list_turn(turn.session_id, turn.turn_id)
    charges = await context.accounts.ledger.charges([turn.turn_id])
    price = charges.get(turn.turn_id, TurnCharge()).price
    return draw(turn, events, ledger, now=context.vm.clock(), complete=complete, placed=placed, price=price)


class ToolExplanation(Reply):
    """`policy` is the rule that decided about the call, `why` the verdict on each tier."""

    turn_id: TurnId
    call_id: str
    tool: str
    policy: str
    tier: TierName | None = None
    price: int = 0
    start_ms: float = 0.0
    why: tuple[tuple[str, ...], ...] = ()
    session_id: SessionId | None = None
    """The session of the sub-agent that has worked on the call."""


class ToolExplain(Request[ToolExplanation]):
    turn_id: TurnId
    call_id: str


@operation(
    "tool.explain",
    needs="agent:use",
    command=True,
    http=Http("GET", f"{_ONE}/calls/{{call_id}}", id="turns_explain_call"),
)
async def explain(context: Context, request: ToolExplain) -> ToolExplanation:
    """Explain a tool call: the rule that decided about it, and the verdict on each tier.

    Fails with `not_found` until the call has its result, and for calls of older releases.
    """
    turn = await _turn(context, request.turn_id)
    placed = await context.tenancy.store.tenant(context.tenant_id).placed_calls().list_turn(turn.session_id, turn.turn_id)
    call = next((call for call in placed if call.call_id == request.call_id), None)
    if call is None:
        raise NotFound(f"There is no record of the tool call {shorten(request.call_id)}")
    return record_from(ToolExplanation, call)


class TurnEvents(PageRequest):
    """With `follow`, the header `Last-Event-ID` or `after` is the cursor of the last event that was received."""

    turn_id: TurnId
    limit: Limit = 1_000
    follow: bool = False
    after: Amount | None = None


@operation("turn.events", needs=READ, discloses=True, http=Http("GET", f"{_ONE}/events", id="turns_events"))
async def list_events(context: Context, request: TurnEvents) -> Page[msgspec.Raw] | HttpReply[Streamed]:
    """List the events of a turn, or follow it.

    As they were sent, in their order, with the same text. No model is called. With `follow=true` the response is server-sent
    events that continue until the turn has ended; each event's `id` is its cursor.
    """
    turn = await _turn(context, request.turn_id)
    log = _log(context, turn)
    if request.follow:
        after_id = number_of(context.http.last_event_id) if context.http.last_event_id else request.after
        return stream_turn(context, turn, max(after_id or 0, await log.before()))
    after: int | None = max(number_of(request.cursor) or 0, await log.before())
    events: list[Event] = []
    while after is not None and len(events) < request.limit:
        more, after = await log.read(after)
        events += more
    if not events and not number_of(request.cursor):
        raise NotFound("The events of this turn are no longer kept; see limits.logDays")
    if len(events) > request.limit:
        events = events[: request.limit]
        after = events[-1].seq
    frames = [msgspec.Raw(encode_stored_events(event).bare.encode()) for event in events]
    return Page(items=frames, next_cursor=None if after is None else str(after))


async def _turn(context: Context, turn_id: TurnId) -> Turn:
    turn = await context.store.find_turn(turn_id)
    if turn is None:
        raise not_found("Turn", turn_id)
    return turn


def _log(context: Context, turn: Turn) -> TurnLog:
    return TurnLog(context.tenancy.store, context.vm.runtime.replay, context.tenant_id, turn)
