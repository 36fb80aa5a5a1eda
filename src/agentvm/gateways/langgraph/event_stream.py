"""Event stream — the events of a thread on chosen channels, over its runs, from a number on or from the run of now."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentvm.errors import NotFound, SessionNotFound
from agentvm.events.base import Event
from agentvm.gateways.client_calls import turn_waits
from agentvm.gateways.langgraph.history import list_turns, read_before
from agentvm.gateways.langgraph.thread_events import ThreadEvents
from agentvm.gateways.langgraph.threads import NAMES, get_thread
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, Lenient
from agentvm.gateways.sse import HEARTBEAT, MEDIA_TYPE
from agentvm.gateways.talk import Talk
from agentvm.gateways.turn_parts import PartReader, TurnEnded, TurnPart, TurnWaits
from agentvm.model.ids import TurnId
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.operations.http_reply import Streamed, StreamSource

TURNS_MAX = 20
"""The newest turns, among which a stream finds the one that its number lies in."""


class EventStreamBody(Lenient, frozen=True):
    """`since` is the number of the last event that the client has."""

    channels: tuple[str, ...] = ()
    namespaces: tuple[tuple[str, ...], ...] | None = None
    since: int | None = None

    @property
    def shown(self) -> frozenset[str]:
        """The channels; an agent has no subgraphs, and so nothing in any namespace but the first."""
        return frozenset(self.channels) if self.namespaces is None or () in self.namespaces else frozenset()


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The cursor that a stream reads from, and turns before it, whose last events come after that cursor."""

    cursor: int
    after: int = 0
    earlier: frozenset[TurnId] = frozenset()


async def stream_events(ask: Ask[EventStreamBody], talk: Talk) -> GatewayReply:
    """Streams a thread until the client leaves, or the thread is deleted."""
    session = (await get_thread(ask, talk)).session
    start = await _find_start(talk, session, ask.body.since)
    source = _ThreadSource(talk, session, start, ThreadEvents(ask.body.shown, start.after))

    @contextmanager
    def opened() -> Iterator[StreamSource]:
        with source.follower:
            yield source

    return GatewayReply(content=Streamed(opened, HEARTBEAT, follows=True), media_type=MEDIA_TYPE)


async def _find_start(talk: Talk, session: Session, since: int | None) -> StreamStart:
    """Returns the beginning of the turn that `since` lies in; without one, of that which runs or ran last.

    Clients skip events that they have by their ids, and expect a run from its beginning when they connect again.
    """
    turns = await list_turns(talk, session, limit=TURNS_MAX)
    if since is None:
        waiting = [turn for turn in turns if turn.outcome is None]
        chosen = waiting[-1] if waiting else turns[0] if turns else None
        return StreamStart(await talk.cursor(session)) if chosen is None else await _at_turn(talk, turns, chosen, 0)
    for turn in turns:
        start = await _at_turn(talk, turns, turn, since)
        if start.cursor <= since:
            return start
    return StreamStart(max(0, since), max(0, since))


async def _at_turn(talk: Talk, turns: tuple[Turn, ...], turn: Turn, after: int) -> StreamStart:
    earlier = frozenset(other.turn_id for other in turns[turns.index(turn) + 1 :])
    return StreamStart((await talk.sent(turn)).cursor, after, earlier)


class _ThreadSource:
    """The source of the stream. `take` may be cancelled: parts that were read and not returned are kept."""

    def __init__(self, talk: Talk, session: Session, start: StreamStart, events: ThreadEvents) -> None:
        self._talk, self._session, self._earlier, self._events = talk, session, start.earlier, events
        place = (talk.principal.tenant_id, session.container_id, session.session_id)
        self.follower = talk.vm.runtime.follow_session(place, start.cursor)
        self._unwritten: deque[Event] = deque()
        self._pieces: list[bytes] = []
        self._readers: dict[TurnId, PartReader] = {}
        self._turn_id: TurnId | None = None
        self._is_done = False

    async def take(self) -> bytes:
        while not self._is_done and not any(self._pieces):
            await self._read()
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    async def _read(self) -> None:
        try:
            await self._receive()
            while self._unwritten:
                self._pieces.append(await self._write(self._unwritten[0]))
                self._unwritten.popleft()
        except NotFound:
            # The session was deleted: there is nothing more to tell.
            self._is_done = True

    async def _receive(self) -> None:
        """Waits for events, unless some are left."""
        try:
            if not self._unwritten:
                self._unwritten.extend(await self.follower.take())
        except SessionNotFound:
            raise
        except NotFound:
            # The log does not reach back that far: the stream continues with what happens now.
            self.follower.cursor = await self._talk.cursor(self._session)

    async def _write(self, event: Event) -> bytes:
        turn_id = event.scope.turn_id
        if turn_id is None or turn_id in self._earlier:
            return b""
        parts = self._readers.setdefault(turn_id, PartReader()).read(event)
        if not parts:
            return b""
        if turn_id != self._turn_id:
            turn = await self._talk.turn(turn_id)
            self._events.begin(turn_id, await read_before(self._talk, turn) if self._events.needs_history else ())
            self._turn_id = turn_id
        if isinstance(parts[-1], TurnEnded):
            del self._readers[turn_id]
        is_settled = await self._is_settled(turn_id, parts[-1])
        pieces = b"".join(self._events.write(part, event.seq, event.timestamp) for part in parts)
        # The events of later parts have the same ids on a stream that has told the wait.
        return b"" if is_settled else pieces

    async def _is_settled(self, turn_id: TurnId, part: TurnPart) -> bool:
        """Returns whether a turn waits for the rest of earlier waits, of which one is answered by now: it continues.

        The answers of one request are stored one after the other, and clients take each wait for the end of the run.
        """
        if not isinstance(part, TurnWaits) or not self._events.has_announced(part.waits):
            return False
        await self._talk.vm.answering.settle(part.waits)
        waits = await turn_waits(self._talk, self._session.session_id, turn_id)
        return any(wait.answered_at is not None and wait.wait_id in part.waits for wait in waits)


EVENT_ROUTES = (
    GatewayRoute(
        method="POST",
        path="/threads/{thread}/stream/events",
        handler=stream_events,
        body=EventStreamBody,
        names=NAMES,
        streams=True,
    ),
)
