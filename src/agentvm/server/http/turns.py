"""Turns — `/v1/turns`: what one turn spent its time and money on, and what was told of it, word for word."""

from typing import Annotated

import msgspec
from msgspec import Meta

from agentvm.commands.reach import Reach
from agentvm.errors import InvalidInput, NotFound
from agentvm.events.base import Event
from agentvm.events.lifecycle import Interrupted
from agentvm.events.turn import TurnRequest, TurnResponse
from agentvm.model.ids import SessionId, TurnId
from agentvm.model.turn import Turn
from agentvm.observability.timeline import Timeline, draw
from agentvm.protocol.dialect_v1 import encode_told
from agentvm.server.http.route import BIG, Ask, Given, Limit, Nothing, Page, Routes

routes = Routes()

READ = ("sessions:read",)
MOST_EVENTS = 20_000
"""Of one turn that are looked at for its timeline: one that said more is told as far as that."""


class ListGiven(Given):
    """The turns of `session`, newest first; `cursor` is the `next` of the page before."""

    session: str
    cursor: str | None = None
    limit: Limit = 100


class EventsGiven(Given):
    """`cursor` is the `next` of the page before."""

    cursor: Annotated[int, Meta(ge=0, le=BIG)] = 0
    limit: Limit = 1_000


@routes.add("GET", "/v1/turns", needs=READ, takes=ListGiven)
async def list_some(ask: Ask[ListGiven]) -> Page[Turn]:
    """List the turns of a session.

    Newest first. A turn without an outcome runs.
    """
    given, reach = ask.given, _reach(ask)
    session_id = SessionId(given.session)
    container_id = await reach.find_session(session_id)
    if container_id is None:
        raise NotFound("There is no such session")
    found = tuple(reversed(await reach.container(container_id).list_turns(session_id)))
    start = 0
    if given.cursor is not None:
        named = [turn.turn_id for turn in found]
        if given.cursor not in named:
            raise InvalidInput("`cursor` must be the `next` of another page of this list")
        start = named.index(TurnId(given.cursor)) + 1
    items = found[start : start + given.limit]
    return Page(items=items, next=items[-1].turn_id if start + given.limit < len(found) else None)


@routes.add("GET", "/v1/turns/{turn_id:str}", needs=READ, takes=Nothing)
async def show(ask: Ask[Nothing]) -> Timeline:
    """See what a turn spent its time and money on.

    Also while it runs. When what was told of it is no longer kept, what it used and cost still is.
    """
    row = await _find(ask)
    events, after = list[Event](), await _before(ask, row)
    while len(events) < MOST_EVENTS:
        found, further = await _read(ask, row, after)
        events += found
        if further is None:
            break
        after = further
    begun = any(isinstance(event.data, TurnRequest) for event in events)
    complete = begun and (row.outcome is None or _ends(events[-1]))
    ledger = await ask.accounts.ledger.of_turn(row.turn_id)
    return draw(row, events, ledger, now=ask.vm.clock(), complete=complete)


@routes.add("GET", "/v1/turns/{turn_id:str}/events", needs=READ, takes=EventsGiven)
async def events(ask: Ask[EventsGiven]) -> Page[msgspec.Raw]:
    """Hear a turn again.

    The events as they were told, in their order, with the same text. Nothing is asked of a model.
    """
    row = await _find(ask)
    after: int | None = max(ask.given.cursor, await _before(ask, row))
    items: list[Event] = []
    while after is not None and len(items) < ask.given.limit:
        found, after = await _read(ask, row, after)
        items += found
    if not items and not ask.given.cursor:
        raise NotFound("What was told of this turn is no longer kept; see limits.logDays")
    following: int | None = after
    if len(items) > ask.given.limit:
        items = items[: ask.given.limit]
        following = items[-1].seq
    shown = [msgspec.Raw(encode_told(event).bare.encode()) for event in items]
    return Page(items=shown, next=None if following is None else str(following))


def _reach(ask: Ask[ListGiven] | Ask[EventsGiven] | Ask[Nothing]) -> Reach:
    return Reach(ask.office.store.tenant(ask.tenant_id), ask.principal)


async def _find(ask: Ask[EventsGiven] | Ask[Nothing]) -> Turn:
    found = await _reach(ask).find_turn(TurnId(ask.path["turn_id"]))
    if found is None:
        raise NotFound("There is no such turn")
    return found


async def _before(ask: Ask[EventsGiven] | Ask[Nothing], row: Turn) -> int:
    """A seq that all of the turn comes after, and little else."""
    log = ask.office.store.tenant(ask.tenant_id).container(row.container_id).log(row.session_id)
    first, _ = await log.range()
    return max(first - 1, await log.last_before(row.accepted_at))


async def _read(ask: Ask[EventsGiven] | Ask[Nothing], row: Turn, after: int) -> tuple[list[Event], int | None]:
    """The turn's events on the next page of the log, and where to go on; None at the turn's end, or at the log's."""
    missed = await ask.vm.runtime.replay.read(ask.tenant_id, row.container_id, row.session_id, after)
    found: list[Event] = []
    for event in missed.events:
        if _belongs(event, row.turn_id):
            found.append(event)
            if _ends(event):
                return found, None
    if not missed.events or missed.events[-1].seq >= missed.last:
        return found, None
    return found, missed.events[-1].seq


def _belongs(event: Event, turn_id: TurnId) -> bool:
    if event.scope.turn_id is not None:
        return event.scope.turn_id == turn_id
    return isinstance(event.data, Interrupted) and event.data.turn_id == turn_id


def _ends(event: Event) -> bool:
    return isinstance(event.data, TurnResponse)
