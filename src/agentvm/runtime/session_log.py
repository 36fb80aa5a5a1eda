"""Session log — the end of one session's log in memory, and how the journal carries it until the turn is over."""

from collections.abc import Sequence

import msgspec

from agentvm.errors import AgentVMError, RecordUnreadable, SessionNotFound
from agentvm.events.base import Event, EventData, Scope
from agentvm.events.lifecycle import Interrupted
from agentvm.events.turn import TurnRequest, TurnResponse, TurnResumed, TurnSuspended
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId
from agentvm.model.message import Message
from agentvm.runtime.chunk import decode_events, encode_events, last_seq, named_messages
from agentvm.storage.base import Store

logger = get_logger(__name__)


class SessionLog:
    """The end of one session's log. Obtained from the journal, which has at most one for each session."""

    __slots__ = (
        "__weakref__",
        "committed",
        "container_id",
        "entry",
        "failed",
        "head",
        "open_turns",
        "session_id",
        "stopped",
        "suspended",
        "tail",
        "tenant_id",
    )

    def __init__(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, head: int) -> None:
        self.tenant_id = tenant_id
        self.container_id = container_id
        self.session_id = session_id
        self.head = head
        """The last seq given out."""
        self.committed = head
        """The last seq that is stored and told."""
        self.tail: list[Event] = []
        """Events since the last chunk."""
        self.open_turns: dict[TurnId, None] = {}
        """Turns accepted and not ended, in order."""
        self.stopped: set[TurnId] = set()
        """Turns somebody has asked to stop, as far as the tail tells; after a crash they are not taken up again."""
        self.suspended: set[TurnId] = set()
        """Open turns that were put off by a restart and did not die."""
        self.entry = 0
        """The first journal entry that still holds events of the tail; 0 for none."""
        self.failed: dict[TurnId | None, AgentVMError] = {}
        """Why events that were posted and not waited for were taken back; raised at their turn's next post."""

    def number(self, told: Sequence[EventData], scope: Scope, at: int) -> list[Event]:
        events = []
        for data in told:
            if not data.told:
                events.append(Event(data=data, scope=scope, timestamp=at, tenant_id=self.tenant_id))
                continue
            self.head += 1
            event = Event(data=data, scope=scope, timestamp=at, tenant_id=self.tenant_id, seq=self.head)
            events.append(event)
            self.tail.append(event)
            self._follow(data)
        return events

    def restore(self, events: Sequence[Event], entry: int) -> None:
        """Events that were committed and told before the process died; at least one."""
        if self.tail and events[0].seq != self.tail[-1].seq + 1:
            # Something in between cannot be read: whoever asks for it must start afresh.
            self.tail.clear()
        self.tail += events
        self.head = self.committed = events[-1].seq
        self.entry = self.entry or entry
        for event in events:
            self._follow(event.data)

    def skip(self, last: int, entry: int) -> None:
        """Events up to this one were told and cannot be read any more: whoever asks for them must start afresh."""
        self.tail.clear()
        self.head = self.committed = last
        self.entry = self.entry or entry

    def foldable(self, longest: int) -> bool:
        """Whether the tail need not wait any longer. One with a stop does: recovery learns of it only from the journal."""
        return not self.open_turns or (len(self.tail) > longest and self.stopped.isdisjoint(self.open_turns))

    def take_back(self) -> None:
        """Forgets what is not committed: the numbers are given out again."""
        kept = sum(event.seq <= self.committed for event in self.tail)
        for event in reversed(self.tail[kept:]):
            match event.data:
                case TurnRequest(turn_id=turn_id):
                    self.open_turns.pop(turn_id, None)
                case TurnResponse(turn_id=turn_id):
                    self.open_turns[turn_id] = None
                case Interrupted(turn_id=turn_id) if turn_id is not None:
                    self.stopped.discard(turn_id)
                case _:
                    pass
        del self.tail[kept:]
        self.head = self.committed

    def _follow(self, data: EventData) -> None:
        match data:
            case TurnRequest(turn_id=turn_id) | TurnResumed(turn_id=turn_id):
                self.open_turns[turn_id] = None
                self.suspended.discard(turn_id)
            case TurnSuspended(turn_id=turn_id):
                self.suspended.add(turn_id)
            case TurnResponse(turn_id=turn_id):
                self.open_turns.pop(turn_id, None)
            case Interrupted(turn_id=turn_id) if turn_id is not None:
                self.stopped.add(turn_id)
            case _:
                pass


class _Carried(msgspec.Struct, array_like=True):
    """One session's part of a journal entry."""

    tenant_id: TenantId
    container_id: ContainerId
    session_id: SessionId
    events: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[_Carried])


def pack(carried: dict[SessionLog, list[Event]]) -> bytes:
    """One journal entry: the events of all sessions that one commit carries."""
    return _encoder.encode(
        [_Carried(log.tenant_id, log.container_id, log.session_id, encode_events(events)) for log, events in carried.items()]
    )


async def read_tails(store: Store) -> list[SessionLog]:
    """The logs of sessions whose turns had not ended when the process did, in the order they were first written."""
    logs: dict[tuple[TenantId, SessionId], SessionLog] = {}
    for entry, body in await store.read_journal():
        try:
            for part in _decoder.decode(body):
                await _restore(store, logs, entry, part)
        except (msgspec.DecodeError, KeyError, IndexError) as problem:
            # One entry that cannot be read must not keep everybody else's turns from going on.
            logger.error("journal_entry_unreadable", entry=entry, problem=repr(problem))
    return [log for log in logs.values() if log.entry]


async def _restore(store: Store, logs: dict[tuple[TenantId, SessionId], SessionLog], entry: int, part: "_Carried") -> None:
    stored = store.tenant(part.tenant_id).container(part.container_id).log(part.session_id)
    log = logs.get((part.tenant_id, part.session_id))
    if log is None:
        try:
            _, head = await stored.range()
        except SessionNotFound:
            return
        log = SessionLog(part.tenant_id, part.container_id, part.session_id, head)
        logs[part.tenant_id, part.session_id] = log
    last = last_seq(part.events)
    if last <= log.head:
        # It was folded meanwhile and is in the log; the entry is there for its neighbours.
        return
    try:
        named = named_messages(part.events)
        found: dict[str, Message] = {message.id: message for message in await stored.get_messages(named)} if named else {}
        events = decode_events(part.events, part.tenant_id, found)
    except (msgspec.DecodeError, KeyError, IndexError, RecordUnreadable) as problem:
        logger.error("events_unreadable", session_id=part.session_id, until=last, problem=repr(problem))
        log.skip(last, entry)
        return
    log.restore([event for event in events if event.seq > log.head], entry)
