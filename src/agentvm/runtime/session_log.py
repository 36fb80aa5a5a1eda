"""Session log — the end of one session's log in memory, and how the journal carries it until the turn is over."""

from collections.abc import Sequence

import msgspec

from agentvm.errors import AgentVMError
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.file import FilesChanged
from agentvm.events.lifecycle import Interrupted, SessionRewound
from agentvm.events.message import MessageEvent
from agentvm.events.schedule import RunStarted
from agentvm.events.tool import ProgramChanged, ToolCharged, ToolPlaced, WaitChanged
from agentvm.events.turn import (
    ModelAsked,
    ModelCalled,
    ModelUnasked,
    TurnParked,
    TurnRequest,
    TurnResponse,
    TurnResumed,
    TurnSuspended,
)
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId
from agentvm.model.ledger import LedgerEntry, SentCall
from agentvm.model.message import Message, rough_size
from agentvm.model.turn import Turn
from agentvm.model.wait import WaitChange
from agentvm.runtime.chunk import encode_chunk, encode_events
from agentvm.storage.base import LogChunk, Rewinding, SessionWrite

logger = get_logger(__name__)

TAIL_MAX_BYTES = 1024 * 1024
"""Bytes of messages in one session's tail; then it is folded, and they are read on request."""


class SessionLog:
    """The end of one session's log. Obtained from the journal, which has at most one for each session."""

    __slots__ = (
        "__weakref__",
        "claimed",
        "committed",
        "container_id",
        "entry",
        "failed",
        "head",
        "open_turns",
        "parked",
        "session_id",
        "stale",
        "stopped",
        "suspended",
        "tail",
        "tenant_id",
        "weight",
    )

    def __init__(
        self,
        tenant_id: TenantId,
        container_id: ContainerId,
        session_id: SessionId,
        head: int,
        parked: TurnId | None = None,
    ) -> None:
        self.tenant_id = tenant_id
        self.container_id = container_id
        self.session_id = session_id
        self.head = head
        """The last seq given out."""
        self.committed = head
        """The last seq that is stored and sent."""
        self.tail: list[Event] = []
        """Events since the last chunk."""
        self.weight = 0
        """About how many bytes the messages in it have."""
        self.open_turns: dict[TurnId, None] = {}
        """Turns accepted and not ended, in order."""
        self.parked = parked
        """The parked turn; it is not open."""
        self.stopped: set[TurnId] = set()
        """Turns with a stop request in the tail; they are not resumed after a crash."""
        self.suspended: set[TurnId] = set()
        """Open turns that were put off by a restart and did not die."""
        self.entry = 0
        """The first journal entry that still holds events of the tail; 0 for none."""
        self.claimed = False
        """In a cluster: whether this node runs a turn of the session, so that no other writes to it."""
        self.stale = False
        """In a cluster: whether another node has written to the session since; then it is read again."""
        self.failed: dict[TurnId | None, AgentVMError] = {}
        """Why events that were posted and not waited for were withdrawn; raised at their turn's next post."""

    def number(self, contents: Sequence[EventData], scope: EventScope, at: int) -> list[Event]:
        events = []
        for data in contents:
            if not data.told:
                events.append(Event(data=data, scope=scope, timestamp=at, tenant_id=self.tenant_id))
                continue
            self.head += 1
            event = Event(data=data, scope=scope, timestamp=at, tenant_id=self.tenant_id, seq=self.head)
            events.append(event)
            self.tail.append(event)
            # Nearly all are deltas, which neither hold a message nor begin or end a turn.
            if data.category != "stream":
                self.weight += _weight(event)
                self.follow(data)
        return events

    def restore(self, events: Sequence[Event], entry: int) -> None:
        """Events that were committed and sent before the process ended; at least one."""
        if self.tail and events[0].seq != self.tail[-1].seq + 1:
            # Something in between cannot be read: whoever asks for it must start afresh.
            self.tail.clear()
        self.tail += events
        self.head = self.committed = events[-1].seq
        self.entry = self.entry or entry
        for event in events:
            self.follow(event.data)

    def restart(self, head: int, parked: TurnId | None) -> None:
        """The log ends there now: another node has written to it. Only for one of which nothing is uncommitted."""
        self.head = self.committed = head
        self.parked, self.stale = parked, False
        self.tail.clear()
        self.open_turns.clear()
        self.stopped.clear()
        self.suspended.clear()
        self.weight = self.entry = 0

    def mirror(self, events: Sequence[Event]) -> None:
        """Adds events that another node has committed and sent; they follow the last one."""
        if events:
            self.tail += events
            self.head = self.committed = events[-1].seq
            # Whoever writes here next has to end the parked turn; which turns are open is known to the node that runs them.
            for event in events:
                self._follow_parked(event.data)

    def drop_stored(self, head: int) -> None:
        """Drops events of a mirror that the log has by now."""
        del self.tail[: sum(event.seq <= head for event in self.tail)]

    def skip(self, last: int, entry: int) -> None:
        """Events up to this one were sent and are no longer stored: clients that request them must start over."""
        self.tail.clear()
        self.head = self.committed = last
        self.entry = self.entry or entry

    def foldable(self, longest: int) -> bool:
        """Whether the tail need not wait any longer. One with a stop does: recovery learns of it only from the journal."""
        is_long = len(self.tail) > longest or self.weight > TAIL_MAX_BYTES
        return not self.open_turns or (is_long and self.stopped.isdisjoint(self.open_turns))

    def fold(self, count: int) -> None:
        """So many events of the tail are in a chunk."""
        del self.tail[:count]
        self.weight = sum(map(_weight, self.tail))
        self.entry = 0
        self.stopped.intersection_update(self.open_turns)

    def drop_uncommitted(self) -> None:
        """Drops uncommitted events: their numbers are used again."""
        stored_count = sum(event.seq <= self.committed for event in self.tail)
        for event in reversed(self.tail[stored_count:]):
            match event.data:
                case TurnRequest(turn_id=turn_id):
                    self.open_turns.pop(turn_id, None)
                case TurnResponse(turn_id=turn_id):
                    self.open_turns[turn_id] = None
                case TurnParked(turn_id=turn_id):
                    self.parked, self.open_turns[turn_id] = None, None
                case Interrupted(turn_id=turn_id) if turn_id is not None:
                    self.stopped.discard(turn_id)
                    if turn_id == self.parked:
                        self.open_turns.pop(turn_id, None)
                case _:
                    pass
        del self.tail[stored_count:]
        self.weight = sum(map(_weight, self.tail))
        self.head = self.committed

    def follow(self, data: EventData) -> None:
        """Updates the open, stopped and suspended turns after these events."""
        match data:
            case TurnRequest(turn_id=turn_id) | TurnResumed(turn_id=turn_id):
                self.open_turns[turn_id] = None
                self.suspended.discard(turn_id)
            case TurnParked(turn_id=turn_id) | TurnResponse(turn_id=turn_id):
                self.open_turns.pop(turn_id, None)
            case TurnSuspended(turn_id=turn_id):
                self.suspended.add(turn_id)
            case Interrupted(turn_id=turn_id) if turn_id is not None:
                self.stopped.add(turn_id)
                if turn_id == self.parked:
                    # Only its end is missing: until that is stored, the journal keeps the stop.
                    self.open_turns[turn_id] = None
            case _:
                pass
        self._follow_parked(data)

    def _follow_parked(self, data: EventData) -> None:
        match data:
            case TurnParked(turn_id=turn_id):
                self.parked = turn_id
            case TurnRequest(turn_id=turn_id) | TurnResumed(turn_id=turn_id) | TurnResponse(turn_id=turn_id):
                self.parked = None if self.parked == turn_id else self.parked
            case _:
                pass


def _weight(event: Event) -> int:
    return rough_size(event.data.message) if isinstance(event.data, MessageEvent) else 0


class JournalPart(msgspec.Struct, array_like=True):
    """One session's part of a journal entry."""

    tenant_id: TenantId
    container_id: ContainerId
    session_id: SessionId
    events: bytes

    @property
    def key(self) -> tuple[TenantId, SessionId]:
        return self.tenant_id, self.session_id


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[JournalPart])


def pack(carried: dict[SessionLog, list[Event]]) -> bytes:
    """One journal entry: the events of all sessions that one commit carries."""
    return _encoder.encode(
        [JournalPart(log.tenant_id, log.container_id, log.session_id, encode_events(events)) for log, events in carried.items()]
    )


def unpack(entry: int, body: bytes) -> list[JournalPart]:
    """The parts of a journal entry. An unreadable one has none, so that it does not stop the turns of others."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as problem:
        logger.error("journal_entry_unreadable", entry=entry, problem=repr(problem))
        return []


_IN_JOURNAL_ONLY = frozenset({"stream", "state"})
"""Categories of events that are in no row but the journal's, until they are folded."""


def write_of(log: SessionLog, events: Sequence[Event], now: int, fold: Sequence[Event] | None) -> SessionWrite:
    """The rows of a session that these events change; `fold` is the part of its log that is complete."""
    rest = [event for event in events if event.data.category not in _IN_JOURNAL_ONLY]
    if fold is None and not rest:
        return SessionWrite(tenant_id=log.tenant_id, container_id=log.container_id, session_id=log.session_id, now=now)
    messages, turns, waits = list[Message](), list[Turn](), list[WaitChange]()
    ledger, others = list[LedgerEntry](), list[EventData]()
    asked_calls, answered = list[SentCall](), list[str]()
    rewind: Rewinding | None = None
    for event in rest:
        match event.data:
            case MessageEvent(message=message):
                messages.append(message)
            case TurnRequest() | TurnResumed() | TurnParked() | TurnResponse() as data:
                turns.append(_turn(event, data))
            case WaitChanged(change=change):
                waits.append(change)
            case ModelAsked(call=call):
                asked_calls.append(call)
            case ModelUnasked(asked=key):
                answered.append(key)
            case ModelCalled(entry=entry, asked=asked_key):
                ledger += [] if entry is None else [entry]
                answered += [] if asked_key is None else [asked_key]
            case ToolCharged(entry=charged):
                ledger.append(charged)
            case SessionRewound(rewind_id=rewind_id, message_ids=taken, rewound_at=at):
                rewind = Rewinding(rewind_id, taken, at)
            case _:
                others.append(event.data)
    return SessionWrite(
        tenant_id=log.tenant_id,
        container_id=log.container_id,
        session_id=log.session_id,
        now=now,
        messages=messages,
        turns=turns,
        ledger=ledger,
        asked=asked_calls,
        answered=answered,
        chunk=_chunk(fold, now) if fold else None,
        rewind=rewind,
        waits=waits,
        files=[data.delta for data in others if isinstance(data, FilesChanged)],
        programs=[data.change for data in others if isinstance(data, ProgramChanged)],
        placed=[data.call for data in others if isinstance(data, ToolPlaced)],
        runs=[data.run for data in others if isinstance(data, RunStarted)],
    )


def _chunk(fold: Sequence[Event], now: int) -> LogChunk:
    return LogChunk(first_seq=fold[0].seq, last_seq=fold[-1].seq, made_at=now, body=encode_chunk(fold))


def _turn(event: Event, data: TurnRequest | TurnResumed | TurnParked | TurnResponse) -> Turn:
    scope = event.scope
    if scope.container_id is None or scope.image_id is None or scope.session_id is None:
        raise ValueError(f"{data.turn_id} belongs to no session")
    turn = Turn(
        turn_id=data.turn_id,
        container_id=scope.container_id,
        image_id=scope.image_id,
        session_id=scope.session_id,
        message_id=data.message_id,
        accepted_at=data.timestamp,
    )
    match data:
        case TurnRequest(client_key=key, user_id=user_id, key_id=key_id, on_parked=on_parked, options=options, origin=origin):
            return msgspec.structs.replace(
                turn, client_key=key, user_id=user_id, key_id=key_id, on_parked=on_parked, options=options, origin=origin
            )
        case TurnResumed(attempt=attempt):
            return msgspec.structs.replace(turn, attempts=attempt)
        case TurnParked(timestamp=at, active=active):
            return msgspec.structs.replace(turn, parked_at=at, active_ms=active)
        case TurnResponse(timestamp=at, duration=duration, outcome=outcome, usage=usage):
            return msgspec.structs.replace(turn, accepted_at=at - duration, outcome=outcome, usage=usage, ended_at=at)
