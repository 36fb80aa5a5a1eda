"""Turns — `/v1/turns`: what one turn spent its time and money on, and what was told of it, word for word."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agentvm.errors import ContainerForbidden, NotFound
from agentvm.events.base import Event
from agentvm.model.ids import SessionId, TurnId
from agentvm.model.turn import Turn
from agentvm.observability.timeline import Timeline, draw
from agentvm.protocol.dialect_v1 import encode_told
from agentvm.runtime.turn_log import TurnLog
from agentvm.server.http.adapter import context_of
from agentvm.server.http.route import BIG, Ask, Given, Limit, Nothing, Page, Routes, moment
from agentvm.storage.sessions import TurnQuery
from agentvm.tenants.scoped_store import ScopedStore

routes = Routes()

READ = ("sessions:read",)
DAY = 86_400_000
MOST_EVENTS = 500_000
"""Of one turn that are looked at for its timeline, a second's work: one that said more is told as far as that."""


class ListGiven(Given):
    """Every member narrows the list. `cursor` is the `next` of the page before.

    `since` is a day ago where neither it nor a `session` is given.
    """

    session: str | None = None
    container: str | None = None
    order: Literal["newest", "slowest"] = "newest"
    outcome: Literal["completed", "interrupted", "failed", "running"] | None = None
    since: str | None = None
    until: str | None = None
    cursor: str | None = None
    limit: Limit = 100


class EventsGiven(Given):
    """`cursor` is the `next` of the page before."""

    cursor: Annotated[int, Meta(ge=0, le=BIG)] = 0
    limit: Limit = 1_000


@routes.add("GET", "/v1/turns", needs=READ, takes=ListGiven, raises=(ContainerForbidden,))
async def list_some(ask: Ask[ListGiven]) -> Page[Turn]:
    """List turns.

    Of a session, a container, or all that you may reach: the newest first, or those that took longest. A turn without an
    outcome runs.
    """
    given, now = ask.given, ask.vm.clock()
    since = moment(given.since, "since")
    if given.session is not None:
        if await _reach(ask).find_session(SessionId(given.session)) is None:
            raise NotFound("There is no such session")
    elif since is None:
        since = now - DAY
    wanted = TurnQuery(
        session_id=None if given.session is None else SessionId(given.session),
        since=since,
        until=moment(given.until, "until"),
        outcome=given.outcome,
        order=given.order,
        now=now,
        after=given.cursor,
        limit=given.limit,
    )
    page = await (await context_of(ask).sessions.within(given.container)).turns(wanted)
    return Page(items=page.items, next=page.next)


@routes.add("GET", "/v1/turns/{turn_id:str}", needs=READ, takes=Nothing)
async def show(ask: Ask[Nothing]) -> Timeline:
    """See what a turn spent its time and money on.

    Also while it runs. When what was told of it is no longer kept, what it used and cost still is.
    """
    row = await _find(ask)
    events, complete = await _log(ask, row).read_all(MOST_EVENTS, words=False)
    ledger = await ask.accounts.ledger.of_turn(row.turn_id)
    return draw(row, events, ledger, now=ask.vm.clock(), complete=complete)


@routes.add("GET", "/v1/turns/{turn_id:str}/events", needs=READ, takes=EventsGiven)
async def events(ask: Ask[EventsGiven]) -> Page[msgspec.Raw]:
    """Hear a turn again.

    The events as they were told, in their order, with the same text. Nothing is asked of a model.
    """
    row = await _find(ask)
    log = _log(ask, row)
    after: int | None = max(ask.given.cursor, await log.before())
    items: list[Event] = []
    while after is not None and len(items) < ask.given.limit:
        found, after = await log.read(after)
        items += found
    if not items and not ask.given.cursor:
        raise NotFound("What was told of this turn is no longer kept; see limits.logDays")
    following: int | None = after
    if len(items) > ask.given.limit:
        items = items[: ask.given.limit]
        following = items[-1].seq
    shown = [msgspec.Raw(encode_told(event).bare.encode()) for event in items]
    return Page(items=shown, next=None if following is None else str(following))


def _reach(ask: Ask[ListGiven] | Ask[EventsGiven] | Ask[Nothing]) -> ScopedStore:
    return ScopedStore(ask.tenancy.store.tenant(ask.tenant_id), ask.principal)


async def _find(ask: Ask[EventsGiven] | Ask[Nothing]) -> Turn:
    found = await _reach(ask).find_turn(TurnId(ask.path["turn_id"]))
    if found is None:
        raise NotFound("There is no such turn")
    return found


def _log(ask: Ask[EventsGiven] | Ask[Nothing], row: Turn) -> TurnLog:
    return TurnLog(ask.tenancy.store, ask.vm.runtime.replay, ask.tenant_id, row)
