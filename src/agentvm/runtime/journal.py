"""Journal — every event of a session gets its number, is committed, and only then sent.

Theory of operation. An agent posts events; each gets the next `seq` of its session. A single flusher takes everything that was
posted, of all sessions together, commits it in one transaction and sends it in order. So a peer never receives an event that a
crash could revert, numbers have no gaps, and the disk syncs at most once per `COMMIT_INTERVAL_SECONDS`, however many sessions
are active.

A token costs no row. In each commit all sessions share one journal entry, which carries their events until the turn is over;
then the session's events are folded into one compact chunk of its log, in the commit that ends the turn, and unneeded journal
entries are dropped. Messages and turns are rows of their own from the beginning.

When the commit fails, nothing of the batch was stored or sent: the numbers are reused, and every poster gets the error.

In a cluster the commit that opens a turn takes the session for this node, and the one that ends the last turn lets it go; see
`agentvm.storage.sql.nodes`. A session that another node runs, or has run since its log was read, is refused like a
contradiction: its posters hear `SessionMoved`, and the log is read again.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import anyio
import msgspec

from agentvm.errors import AgentVMError, SessionNotFound, ShuttingDown, StoreFailed, WritesRefused
from agentvm.errors.cluster import SessionMoved, SessionsMoved
from agentvm.events.base import Event, EventData, EventScope
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ContainerId, SessionId, TenantId, TurnId
from agentvm.runtime.batch import Batch, BatchPart, wait_for
from agentvm.runtime.commit_pace import CommitPace
from agentvm.runtime.notices import notices_of
from agentvm.runtime.session_log import SessionLog, pack, write_of
from agentvm.runtime.tasks import open_tasks
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.sql.nodes import Claim
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

PROBE_SECONDS = 1.0
"""Time between two attempts while the store refuses writes."""

CROWDED_MIN = 10_000
"""Uncommitted events beyond which callers wait."""

TAIL_EVENTS_MAX = 4_000
"""Events of one session in the journal; more are folded before the turn ends."""

Publish = Callable[[SessionLog, Sequence[Event]], None]


class Journal:
    """Commits posted events, then sends them."""

    def __init__(
        self,
        store: Store,
        broadcast: Callable[[Sequence[Event]], None],
        clock: Clock,
        changed: Callable[[TenantId, SessionId], None] = lambda tenant_id, session_id: None,
    ) -> None:
        """`changed` is called when another node has written to a session that is known here."""
        self._store = store
        self._changed = changed
        self._broadcast = broadcast
        self._clock = clock
        self._batch = Batch()
        self._flushing = Batch()
        self._flushing.done.set()
        self._wakeup = anyio.Event()
        self._closing = self._closed = False
        self.pace = CommitPace()
        self.failing = False
        """Whether the last commit was refused."""
        # Weak: a log is forgotten with the last agent that writes to it, unless the journal still carries its events.
        self._logs: WeakValueDictionary[tuple[TenantId, SessionId], SessionLog] = WeakValueDictionary()
        self._unfolded: dict[SessionLog, None] = {}
        self._claimed: dict[SessionLog, None] = {}
        self._pruning = False
        self.publish: Publish | None = None
        """In a cluster: forwards sent events to followers on other nodes."""
        self.moved: Callable[[SessionLog, int], None] | None = None
        """In a cluster: called with a log that another node has continued, and the last event of it that was sent here."""

    async def open(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> SessionLog:
        """The session's log, shared by all of its users. `SessionNotFound` if the session is gone."""
        key = (tenant_id, session_id)
        log = self._logs.get(key)
        if log is None or log.stale:
            head, parked = await self._store.tenant(tenant_id).container(container_id).log(session_id).opening()
            # Another asker may have been quicker: a session has one log.
            log = self._logs.setdefault(key, SessionLog(tenant_id, container_id, session_id, head, parked))
            if log.stale and not self._is_posted(log):
                log.stale, log.parked = False, parked
                # What a mirror has beyond that is in the journal of the node that runs the session.
                if head > log.committed:
                    self._move(log, head, parked)
                self._changed(tenant_id, session_id)
        return log

    def _move(self, log: SessionLog, head: int, parked: TurnId | None) -> None:
        before = log.committed
        log.restart(head, parked)
        if self.moved is not None and head > before:
            self.moved(log, before)

    def _is_posted(self, log: SessionLog) -> bool:
        """Whether events of the log are being committed, or wait for it."""
        return log in self._batch.parts or (log in self._flushing.parts and not self._flushing.done.is_set())

    def is_writing(self, tenant_id: TenantId, session_id: SessionId) -> bool:
        """Whether events of the session are being committed, or wait for it."""
        log = self._logs.get((tenant_id, session_id))
        return log is not None and self._is_posted(log)

    async def take_over(self, log: SessionLog, head: int, open_turns: Iterable[TurnId]) -> SessionLog:
        """Makes this node the writer of a session that another node has run up to `head`; returns the log to write to."""
        log = self._logs.setdefault((log.tenant_id, log.session_id), log)
        while self._is_posted(log):
            # It will be refused, since it was numbered from an older head.
            await self.commit_of(log)
        self._move(log, head, None)
        self._changed(log.tenant_id, log.session_id)
        log.open_turns.update(dict.fromkeys(open_turns))
        log.claimed = True
        self._claimed[log] = None
        return log

    async def commit_of(self, log: SessionLog) -> None:
        """Returns after the commit that holds the queued events of the log."""
        await self._wait_for(self._batch if log in self._batch.parts else self._flushing)

    def claimed(self) -> tuple[SessionLog, ...]:
        """The logs of the sessions that this node runs."""
        return tuple(self._claimed)

    def release(self, log: SessionLog) -> None:
        """The session was let go: others may change it from now on, by a turn, by retention, by a summary."""
        log.claimed = False
        self._claimed.pop(log, None)
        self._changed(log.tenant_id, log.session_id)

    def find(self, tenant_id: TenantId, session_id: SessionId) -> SessionLog | None:
        """The session's log, if it is being written."""
        return self._logs.get((tenant_id, session_id))

    def adopt(self, log: SessionLog) -> None:
        """A log from before the process started; its journal entries are kept until it is folded."""
        self._logs[log.tenant_id, log.session_id] = log
        self._unfolded[log] = None

    def forget(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """The session was deleted: its log need not be kept until it is folded, which will never be."""
        log = self._logs.pop((tenant_id, session_id), None)
        if log is not None:
            self._give_up(log)

    @property
    def waiting(self) -> int:
        """Events that are not committed yet."""
        return self._batch.count + (0 if self._flushing.done.is_set() else self._flushing.count)

    @property
    def crowded(self) -> bool:
        return self._batch.count > CROWDED_MIN

    def post(self, log: SessionLog, contents: Sequence[EventData], scope: EventScope) -> Batch:
        """Numbers the events and lets them be committed and sent soon. Never waits.

        Raises when an earlier post of the same turn was taken back.
        """
        if log.failed:
            self.check(log, scope)
        if self._closed:
            raise ShuttingDown("The server is shutting down; reconnect and try again")
        batch = self._batch
        if not batch.parts:
            self._wakeup.set()
        batch.add(log, scope.turn_id, log.number(contents, scope, self._clock()))
        return batch

    def check(self, log: SessionLog, scope: EventScope) -> None:
        """Raises once when events of this turn were withdrawn."""
        error = log.failed.pop(scope.turn_id, None)
        if error is not None:
            raise error

    async def emit(self, log: SessionLog, contents: Sequence[EventData], scope: EventScope, *, is_urgent: bool = False) -> None:
        """Returns when the events are committed and sent; raises when they are not. Urgent ones are not put off."""
        batch = self.post(log, contents, scope)
        if is_urgent:
            # After they were posted: before, another commit might use up the hurry.
            self.pace.hurry()
        await self.confirm(batch, log, scope)

    async def confirm(self, batch: Batch | None, log: SessionLog, scope: EventScope) -> None:
        """Returns when the events of that batch are committed and sent; raises when the commit fails."""
        if batch is None:
            return
        await self._wait_for(batch)
        log.failed.pop(scope.turn_id, None)
        error = batch.errors.get((log, scope.turn_id))
        if error is not None:
            raise error

    async def settle(self, log: SessionLog, scope: EventScope) -> None:
        """Waits until everything posted so far is committed and sent; raises when an event of this turn is refused."""
        await self._wait_for(self._batch if self._batch.parts else self._flushing)
        self.check(log, scope)

    async def _wait_for(self, batch: Batch) -> None:
        if batch is self._batch:
            self.pace.expect()
        await wait_for(batch)

    async def run(self) -> None:
        """Flushes until closed. Cannot be cancelled: posters wait for it, also those that clean up after a cancellation."""
        with anyio.CancelScope(shield=True):
            while not self._closing or self._batch.parts:
                await self._wakeup.wait()
                if not self._closing:
                    await self.pace.wait(len(self._flushing.parts))
                await self.flush()
        self._closed = True

    async def probe(self) -> None:
        """While the store refuses, tries it again every second: other callers may not, as long as a server is not ready."""
        while True:
            await anyio.sleep(PROBE_SECONDS)
            if self.failing:
                try:
                    await self._store.probe()
                except AgentVMError as error:
                    logger.info("store_still_failing", code=error.code)
                else:
                    logger.info("store_recovered")
                    self.failing = False

    def close(self) -> None:
        """`run` commits the posted events, and ends; later posts are refused."""
        self._closing = True
        self._wakeup.set()
        self.pace.hurry()

    async def flush(self) -> None:
        """Commits the posted events. For `run`: two at a time would commit out of order."""
        batch, self._batch, self._wakeup = self._batch, Batch(), anyio.Event()
        if self._closing:
            self._wakeup.set()
        self._flushing = batch
        try:
            await self._commit(batch)
        except Exception as problem:  # Protects every poster: a bug fails what was posted, not the server.
            logger.exception("commit_crashed")
            error = StoreFailed("The events could not be stored because of an internal error")
            error.__cause__ = problem
            self._fail(batch, dict.fromkeys(batch.parts, error))
        finally:
            batch.done.set()

    async def _commit(self, batch: Batch) -> None:
        """A session whose writes cannot be stored does not prevent the writes of others."""
        while True:
            try:
                await self._commit_all(batch)
            except WritesRefused as error:
                at_fault = {log: error for log in batch.parts if log.session_id in error.sessions}
                if at_fault:
                    self._fail(batch, at_fault)
                    continue
                raise
            except SessionsMoved as error:
                named = [log for log in batch.parts if log.session_id in error.runners]
                moved = {log: SessionMoved(log.session_id, error.runners[log.session_id]) for log in named}
                for log in moved:
                    log.stale = True
                self._fail(batch, moved)
                if not moved:
                    raise
                continue
            return

    async def _commit_all(self, batch: Batch) -> None:
        parts = batch.parts
        if not parts and not self._pruning:
            return
        now = self._clock()
        folded = {log: len(log.tail) for log in parts if log.foldable(TAIL_EVENTS_MAX) and log not in self._batch.parts}
        claims = self._claims(parts) if self._store.node_id else ()
        writes = [
            write_of(log, part.events, now, log.tail[: folded[log]] if log in folded else None) for log, part in parts.items()
        ]
        writes = self._add_notices(writes, parts.values()) if self._store.hooked else writes
        carried = {
            log: numbered
            for log, part in parts.items()
            if log not in folded and (numbered := [event for event in part.events if event.seq])
        }
        forget, self._pruning = self._forgettable(folded), False
        try:
            entry = pack(carried) if carried else None
            committed = await self._store.commit(writes, entry=entry, forget=forget, claims=claims)
        except (WritesRefused, SessionsMoved):
            self._pruning = self._pruning or bool(forget)
            raise
        except AgentVMError as error:
            self.failing = True
            logger.error("commit_failed", code=error.code, error=str(error), sessions=len(parts))
            self._fail(batch, dict.fromkeys(parts, error))
            return
        self.failing = False
        self._note_claims(parts, committed)
        gone = {log: SessionNotFound(log.session_id) for log in parts if log.session_id in committed.gone}
        for log, part in parts.items():
            if log in gone:
                continue
            log.committed = max(log.committed, part.last)
            if log in carried:
                self._unfolded[log] = None
                log.entry = log.entry or committed.entry
            elif log in folded:
                log.fold(folded[log])
                self._unfolded.pop(log, None)
        if gone:
            self._fail(batch, gone)
        for log, part in parts.items():
            try:
                self._broadcast(part.events)
            except Exception:  # Protects every other listener.
                logger.exception("telling_crashed", session_id=log.session_id)
            if self.publish is not None:
                self.publish(log, part.events)

    def _claims(self, parts: Mapping[SessionLog, BatchPart]) -> list[Claim]:
        """The sessions that this commit takes, and those that it may let go."""
        return [
            Claim(log.tenant_id, log.session_id, None if log.claimed else log.committed, ends)
            for log in parts
            if (ends := not (log.open_turns or log in self._batch.parts)) or not log.claimed
        ]

    def _note_claims(self, parts: Iterable[SessionLog], committed: Committed) -> None:
        for log in parts if self._store.node_id else ():
            if log.session_id in committed.free or log.session_id in committed.gone:
                self.release(log)
            else:
                log.claimed = True
                self._claimed[log] = None

    def _add_notices(self, writes: Sequence[SessionWrite], parts: Iterable[BatchPart]) -> list[SessionWrite]:
        """Adds the notices of webhooks, for tenants that may have some."""
        return [
            msgspec.structs.replace(write, notices=notices_of(part.events)) if write.tenant_id in self._store.hooked else write
            for write, part in zip(writes, parts, strict=True)
        ]

    def _forgettable(self, folded: dict[SessionLog, int]) -> int:
        """Returns the number below which journal entries are unneeded once the folded logs need none."""
        if not self._pruning and not any(log.entry for log in folded):
            return 0
        return min((log.entry for log in self._unfolded if log not in folded), default=_ENTRY_MAX)

    def _give_up(self, log: SessionLog) -> None:
        """Drops the entries of a session soon, although no turn of it ends."""
        if log in self._unfolded:
            del self._unfolded[log]
            self._pruning = True
            self._wakeup.set()

    def _fail(self, batch: Batch, errors: Mapping[SessionLog, AgentVMError]) -> None:
        """Reverts logs of which nothing was stored, with the events that were posted in the meantime on top."""
        for log, error in errors.items():
            log.drop_uncommitted()
            if isinstance(error, SessionNotFound):
                self._give_up(log)
        batch.fail(errors)
        self._batch.fail(errors)


@asynccontextmanager
async def open_journal(
    store: Store,
    broadcast: Callable[[Sequence[Event]], None],
    clock: Clock,
    changed: Callable[[TenantId, SessionId], None] = lambda tenant_id, session_id: None,
) -> AsyncIterator[Journal]:
    """A journal that flushes by itself; leaving flushes the rest. Its callers must have ended by then."""
    journal = Journal(store, broadcast, clock, changed)
    async with open_tasks() as tasks:
        tasks.start_soon(journal.run)
        try:
            yield journal
        finally:
            journal.close()


_ENTRY_MAX = 2**62
