"""Event relay — events of sessions that other nodes run, for those who follow them here.

Theory of operation. What a node tells is in the database before: in its journal while the turn runs, in the log of the session
afterwards. This node reads on where somebody here listens, and keeps a mirror of the end of each such log: the same object in
which its own sessions are, so that replay and cursors work as everywhere. A gap is repaired from the database, which has
everything; nothing is told twice, since a mirror only moves forward.
"""

from collections.abc import Sequence

import anyio
import msgspec

from agentvm.cluster.membership import Membership
from agentvm.errors import AgentVMError, NotFound
from agentvm.events.base import Event
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ContainerId, SessionId, TenantId
from agentvm.model.message import Message
from agentvm.runtime.chunk import decode_events, first_seq, last_seq, named_messages
from agentvm.runtime.runtime import Runtime
from agentvm.runtime.session_log import JournalPart, SessionLog, unpack
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

LOOK_SECONDS = 0.25
SKEW_MS = 2_000
"""How far the clocks of two nodes may be apart for whoever comes without a cursor to hear the turn that begins then."""
PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of a node's journal that are read at a time."""

Key = tuple[TenantId, SessionId]


class EventRelay:
    """Reads the journals of the other nodes."""

    def __init__(self, membership: Membership, runtime: Runtime, store: Store, clock: Clock) -> None:
        self._clock = clock
        self._looked_at = clock()
        self._membership = membership
        self._runtime = runtime
        self._journal = runtime.journal
        self._broadcaster = runtime.broadcaster
        self._store = store
        self._entries: dict[int, int] = {}
        """The last entry that was read of each node."""
        self._mirrors: dict[Key, SessionLog] = {}
        self._dirty: set[Key] = set()
        """Sessions whose mirror could not be moved because something of them was being written here."""

    async def run(self) -> None:
        """Relays, until cancelled."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            began = self._clock()
            if not self._broadcaster.listens:
                self._entries.clear()
                self._mirrors.clear()
                self._looked_at = began
                continue
            try:
                await self._look()
            except AgentVMError as error:
                logger.warning("journals_not_read", code=error.code, error=str(error))
            else:
                self._looked_at = began

    async def open(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> SessionLog:
        """The log of a session, with what another node has told of it so far."""
        log = await self._journal.open(tenant_id, container_id, session_id)
        if self._is_others(log) and (tenant_id, session_id) not in self._mirrors:
            await self._repair(log)
        return log

    def _is_others(self, log: SessionLog) -> bool:
        return not log.claimed and not self._journal.is_writing(log.tenant_id, log.session_id)

    async def _look(self) -> None:
        others = self._membership.up - {self._membership.node_id}
        for node_id in [*self._entries]:
            if node_id not in others:
                del self._entries[node_id]
        for node_id in others:
            if node_id not in self._entries:
                # What it has told before is in the mirrors that are made from now on.
                self._entries[node_id] = await self._store.last_entry(node_id)
                continue
            while page := await self._store.read_journal(self._entries[node_id], PAGE_BYTES, node_id=node_id):
                for entry, body in page:
                    for part in unpack(entry, body):
                        if self._broadcaster.is_wanted(part.tenant_id, part.container_id, part.session_id):
                            await self._receive(part)
                self._entries[node_id] = page[-1][0]
        await self._compare()

    async def _receive(self, part: JournalPart) -> None:
        """Tells the events of a part that are new here."""
        try:
            log = await self.open(part.tenant_id, part.container_id, part.session_id)
            self._mirrors[part.key] = log
            if not self._is_others(log):
                self._dirty.add(part.key)
                return
            if last_seq(part.events) <= log.committed:
                return
            if first_seq(part.events) > log.committed + 1:
                await self._repair(log)
                return
            events = await self._decode(log, part.events)
        except (NotFound, msgspec.DecodeError, KeyError, IndexError) as error:
            logger.warning("events_not_relayed", session_id=part.session_id, error=repr(error))
            return
        if self._is_others(log) and (new := [event for event in events if event.seq > log.committed]):
            if new[0].seq == log.committed + 1:
                log.mirror(new)
                self._runtime.histories.forget(*part.key)
                self._broadcaster.tell(new)
            else:
                self._dirty.add(part.key)

    async def _decode(self, log: SessionLog, body: bytes) -> list[Event]:
        named = named_messages(body)
        stored = self._store.tenant(log.tenant_id).container(log.container_id).log(log.session_id)
        messages: dict[str, Message] = {one.id: one for one in await stored.get_messages(named)} if named else {}
        return decode_events(body, log.tenant_id, messages)

    async def _compare(self) -> None:
        """Finds followed sessions whose log has grown: the end of a turn is in no journal."""
        followed = [*self._broadcaster.followed()]
        wanted = {(tenant_id, session_id) for tenant_id, _, session_id in followed}
        for key in self._mirrors.keys() - wanted:
            del self._mirrors[key]
        heads = await self._store.read_heads(followed)
        for tenant_id, container_id, session_id in followed:
            key = (tenant_id, session_id)
            log = self._journal.find(tenant_id, session_id)
            if key not in heads or (log is not None and log.claimed):
                continue
            if log is not None and self._is_others(log):
                log.drop_stored(heads[key])
            is_new = key not in self._mirrors
            if log is None or is_new or heads[key] > log.committed or key in self._dirty:
                self._dirty.discard(key)
                try:
                    log = await self._journal.open(tenant_id, container_id, session_id)
                    self._mirrors[key] = log
                    await self._repair(log)
                    if is_new:
                        await self._begin(log)
                except NotFound:
                    continue

    async def _begin(self, log: SessionLog) -> None:
        """Tells those who have come since the last look what has happened since then."""
        stored = self._store.tenant(log.tenant_id).container(log.container_id).log(log.session_id)
        before = await stored.last_before(self._looked_at - SKEW_MS)
        if before < log.committed:
            self._broadcaster.catch_up(log.tenant_id, log.container_id, log.session_id, before)

    async def _repair(self, log: SessionLog) -> None:
        """Brings a mirror up to what the database has, and lets those who follow it read on from there."""
        tenant_id, container_id, session_id = log.tenant_id, log.container_id, log.session_id
        head, parked, runner = await self._store.tenant(tenant_id).container(container_id).log(session_id).standing()
        tail: list[Event] = []
        if runner not in (None, self._membership.node_id):
            tail = await self._read_tail(log, runner, head)
        last = tail[-1].seq if tail else head
        if not self._is_others(log):
            self._dirty.add((tenant_id, session_id))
            return
        before = log.committed
        if last < before:
            return
        log.restart(head, parked)
        log.mirror(tail)
        if last > before:
            self._runtime.histories.forget(tenant_id, session_id)
            self._broadcaster.catch_up(tenant_id, container_id, session_id, before)

    async def _read_tail(self, log: SessionLog, node_id: int, head: int) -> list[Event]:
        """The events after `head` that are in the journal of a node, without a gap."""
        events: list[Event] = []
        after = 0
        while page := await self._store.read_journal(after, PAGE_BYTES, node_id=node_id):
            for entry, body in page:
                for part in unpack(entry, body):
                    if part.key == (log.tenant_id, log.session_id) and last_seq(part.events) > head:
                        events += await self._decode(log, part.events)
            after = page[-1][0]
        return _consecutive([event for event in events if event.seq > head], head)


def _consecutive(events: Sequence[Event], head: int) -> list[Event]:
    kept: list[Event] = []
    for event in events:
        if event.seq != head + 1 + len(kept):
            break
        kept.append(event)
    return kept
