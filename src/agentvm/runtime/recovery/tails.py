"""Tails — journal entries of sessions whose turns had not ended when the process did.

Theory of operation. A start folds it into the logs of the sessions, page by page, as it is written: by reference to messages,
none of which is read. So a start needs little memory and no history, however large the messages are that the events tell of.
The journal is dropped afterwards, but for entries that tell of a stop: that a turn was stopped must be known until it has
ended, also to the process after the next crash.

Where nothing can be written, and for readers of the data, `read_tails` holds the events in memory instead.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from agentvm.errors import RecordUnreadable, SessionNotFound
from agentvm.events.lifecycle import Interrupted
from agentvm.events.turn import TurnParked, TurnRequest, TurnResponse, TurnResumed, TurnSuspended
from agentvm.log import get_logger
from agentvm.model.ids import SessionId, TenantId, TurnId
from agentvm.model.message import Message
from agentvm.model.turn import Turn
from agentvm.runtime.chunk import (
    close_chunk,
    decode_events,
    decode_some,
    first_seq,
    join_events,
    last_seq,
    named_messages,
)
from agentvm.runtime.session_log import JournalPart, SessionLog, unpack
from agentvm.storage.base import LogChunk, SessionWrite
from agentvm.storage.sql.nodes import Orphan
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of the journal that are read at a time."""

WRITES_MAX = 500
"""Sessions whose events one commit of a start folds."""

TAILS_MAX_BYTES = 64 * 1024 * 1024
"""Maximum of events and their messages that `read_tails` holds; more are left out of the tails."""

_FOLLOWED = (TurnRequest, TurnResumed, TurnSuspended, TurnParked, TurnResponse, Interrupted)
_UNREADABLE = (msgspec.DecodeError, KeyError, IndexError)


@dataclass(slots=True)
class PreviousRun:
    """The state that a start needs of the previous process."""

    stopped: set[TurnId] = field(default_factory=set)
    """Turns whose stop was requested."""
    suspended: set[TurnId] = field(default_factory=set)
    """Turns that were put off by a restart and did not die."""
    logs: list[SessionLog] = field(default_factory=list)
    """Logs whose journal entries are needed until their turns have ended."""
    parked: list[tuple[TenantId, Turn]] = field(default_factory=list)
    """Parked turns that were stopped: they have to be ended, and their waits can no longer be answered."""

    async def find_parked(self, store: Store, log: SessionLog) -> bool:
        """Notes the turn of the session that waits for an answer, if it was stopped; whether there is one."""
        if not log.stopped:
            return False
        turn = await store.tenant(log.tenant_id).container(log.container_id).log(log.session_id).find_parked()
        if turn is None or turn.turn_id not in log.stopped:
            return False
        log.open_turns[turn.turn_id] = None
        self.parked.append((log.tenant_id, turn))
        self.stopped.add(turn.turn_id)
        # It did not run, so it is not to blame for the end of its process.
        self.suspended.add(turn.turn_id)
        return True


async def fold_tails(store: Store, open_turns: Collection[TurnId], now: int) -> PreviousRun:
    """Folds the journal into the logs; raises when the store refuses, and may be tried again then."""
    folding = _Folding(store, now)
    after = await folding.fold_all()
    left = PreviousRun(suspended=folding.suspended)
    for log in folding.logs.values():
        if await left.find_parked(store, log) or not log.stopped.isdisjoint(open_turns):
            left.logs.append(log)
            left.stopped |= log.stopped
    if after:
        await store.commit((), forget=min((log.entry for log in left.logs), default=after + 1))
    return left


async def fold_orphans(store: Store, orphans: Sequence[Orphan], now: int) -> PreviousRun:
    """Folds the journal entries of ended nodes about these sessions. Their journals stay: others take over other sessions."""
    left = PreviousRun()
    for node_id in {orphan.tail_of for orphan in orphans}:
        folding = _Folding(store, now, frozenset(orphan.key for orphan in orphans if orphan.tail_of == node_id))
        await folding.fold_all(node_id)
        left.suspended |= folding.suspended
        for log in folding.logs.values():
            left.stopped |= log.stopped
            await left.find_parked(store, log)
    return left


class _Folding:
    """One pass over the journal, or over one node's part of it. With `only` for these sessions."""

    def __init__(self, store: Store, now: int, only: Collection[tuple[TenantId, SessionId]] | None = None) -> None:
        self._store = store
        self._now = now
        self._only = only
        self._gone: set[tuple[TenantId, SessionId]] = set()
        self.logs: dict[tuple[TenantId, SessionId], SessionLog] = {}
        self.suspended: set[TurnId] = set()

    async def fold_all(self, node_id: int | None = None) -> int:
        """Returns the number of the last entry."""
        after = 0
        while page := await self._store.read_journal(after, PAGE_BYTES, node_id=node_id):
            await self.fold(page)
            after = page[-1][0]
        return after

    async def fold(self, page: Sequence[tuple[int, bytes]]) -> None:
        carried = [
            (entry, part)
            for entry, body in page
            for part in unpack(entry, body)
            if self._only is None or part.key in self._only
        ]
        await self._open_logs(carried)
        parts: dict[tuple[TenantId, SessionId], list[JournalPart]] = {}
        for _, part in carried:
            log = self.logs.get(part.key)
            if log is not None and self._follow(log, part):
                parts.setdefault(part.key, []).append(part)
        writes = [self._write(self.logs[key], some) for key, some in parts.items()]
        for start in range(0, len(writes), WRITES_MAX):
            await self._store.commit(writes[start : start + WRITES_MAX])

    async def _open_logs(self, carried: Sequence[tuple[int, JournalPart]]) -> None:
        """Finds where the logs of sessions end that come up for the first time, all in one read."""
        new: dict[tuple[TenantId, SessionId], tuple[int, JournalPart]] = {}
        for entry, part in carried:
            if part.key not in self.logs and part.key not in self._gone:
                new.setdefault(part.key, (entry, part))
        heads = await self._store.read_heads([(part.tenant_id, part.container_id, part.session_id) for _, part in new.values()])
        for key, (entry, part) in new.items():
            if key not in heads:
                self._gone.add(key)
                continue
            log = self.logs[key] = SessionLog(part.tenant_id, part.container_id, part.session_id, heads[key])
            log.entry = entry

    def _follow(self, log: SessionLog, part: JournalPart) -> bool:
        """Whether the part is still to be folded; one that was is there for its neighbours, or for a stop that it tells of."""
        try:
            last = last_seq(part.events)
            events = decode_some(part.events, part.tenant_id, _FOLLOWED)
        except _UNREADABLE as problem:
            logger.error("events_unreadable", session_id=part.session_id, problem=repr(problem))
            return False
        for event in events:
            log.follow(event.data)
        if last <= log.head:
            return False
        # What was folded before says nothing of the process that has just ended.
        self.suspended |= log.suspended
        for event in events:
            if isinstance(event.data, TurnResumed):
                self.suspended.discard(event.data.turn_id)
        return True

    def _write(self, log: SessionLog, parts: list[JournalPart]) -> SessionWrite:
        for number in range(len(parts) - 1, 0, -1):
            if first_seq(parts[number].events) != last_seq(parts[number - 1].events) + 1:
                # Something in between cannot be read: whoever asks for it must start afresh.
                del parts[:number]
                break
        body = join_events([part.events for part in parts])
        log.head = log.committed = last_seq(body)
        chunk = LogChunk(first_seq=first_seq(body), last_seq=log.head, made_at=self._now, body=close_chunk(body))
        return SessionWrite(
            tenant_id=log.tenant_id, container_id=log.container_id, session_id=log.session_id, now=self._now, chunk=chunk
        )


async def read_tails(store: Store) -> list[SessionLog]:
    """The logs of sessions whose turns had not ended when the process did, in the order they were first written."""
    logs: dict[tuple[TenantId, SessionId], SessionLog] = {}
    after, room = 0, TAILS_MAX_BYTES
    while page := await store.read_journal(after, PAGE_BYTES):
        for entry, body in page:
            for part in unpack(entry, body):
                room -= await _restore(store, logs, entry, part, room)
        after = page[-1][0]
    return [log for log in logs.values() if log.entry]


async def _restore(
    store: Store, logs: dict[tuple[TenantId, SessionId], SessionLog], entry: int, part: JournalPart, room: int
) -> int:
    """How many bytes of the room it takes."""
    stored = store.tenant(part.tenant_id).container(part.container_id).log(part.session_id)
    log = logs.get(part.key)
    try:
        last = last_seq(part.events)
        if log is None:
            _, head = await stored.range()
            log = logs[part.key] = SessionLog(part.tenant_id, part.container_id, part.session_id, head)
    except SessionNotFound:
        return 0
    except _UNREADABLE as problem:
        logger.error("events_unreadable", session_id=part.session_id, problem=repr(problem))
        return 0
    if last <= log.head:
        # It was folded meanwhile and is in the log; the entry is there for its neighbours.
        return 0
    try:
        named = named_messages(part.events)
        size = len(part.events) + sum((await stored.message_sizes(named)).values())
        if size > room:
            log.skip(last, entry)
            return 0
        messages: dict[str, Message] = {message.id: message for message in await stored.get_messages(named)} if named else {}
        events = decode_events(part.events, part.tenant_id, messages)
    except (*_UNREADABLE, RecordUnreadable) as problem:
        logger.error("events_unreadable", session_id=part.session_id, until=last, problem=repr(problem))
        log.skip(last, entry)
        return 0
    log.restore([event for event in events if event.seq > log.head], entry)
    return size
