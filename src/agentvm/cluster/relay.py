"""Event relay — events of sessions that other nodes run, for those who follow them here.

Theory of operation. A node stores every event before it sends it: in its journal while the turn runs, in the log of the session
afterwards. For sessions with local subscribers this node keeps a mirror of the end of the log, the same object as for its own
sessions, so that replay and cursors work in the same way. A gap is filled from the database, which has all events; no event is
sent twice, since a mirror only moves forward.

Nodes that are connected to the bus publish their events, and are not polled. A lost event shows as a gap when the next one
comes. The last one shows no gap: so whenever an event may have been lost (`Bus.disturbed`, here or on another node), or a node
begins or ceases to be heard, each mirror is compared with the database once.
"""

from collections import Counter, deque
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile

import anyio
import msgspec

from agentvm.cluster.bus import Hearing
from agentvm.cluster.membership import Membership
from agentvm.errors import AgentVMError, NotFound
from agentvm.events.base import Event
from agentvm.events.message import MessageEvent
from agentvm.events.turn import TurnResponse
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ContainerId, SessionId, TenantId
from agentvm.model.message import Message
from agentvm.runtime.chunk import decode_events, encode_events, first_seq, last_seq, named_messages
from agentvm.runtime.runtime import Runtime
from agentvm.runtime.session_log import JournalPart, SessionLog, unpack
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

POLL_SECONDS, CATCH_UP_SECONDS, CATCH_UP_POLL_SECONDS = 0.25, 2.0, 0.02
"""How long, and how often, events are looked for up to the cursor that a client got from another node."""
UNKNOWN_SECONDS = 30.0
"""How long a client with a later cursor from another node waits for the outcome of a commit of this node."""
SKEW_MS = 2_000
"""Maximum difference of two nodes' clocks at which a client without a cursor receives the turn that starts at that moment."""
PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of a node's journal that are read at a time."""
INBOX_MAX_BYTES = 8 * 1024 * 1024
"""Bytes from the bus that wait to be sent to local channels; further events are dropped, and read from the database."""
TAIL_EVENTS_MAX = 4_000
"""Events of a mirror after which it is compared with the log, which may have them by now."""

Key = tuple[TenantId, SessionId]
Followed = tuple[TenantId, ContainerId, SessionId]


class RelayedEvents(msgspec.Struct, array_like=True, frozen=True):
    """Events of one session, or of a container without one, on the bus. Those that no log holds have no numbers."""

    tenant_id: TenantId
    container_id: ContainerId
    session_id: SessionId | None
    events: bytes
    is_numbered: bool = True


_encoder = msgspec.msgpack.Encoder()
_told = msgspec.msgpack.Decoder(RelayedEvents)


class EventRelay:
    """Receives the events of other nodes, or reads their journals, and publishes those of this node."""

    def __init__(
        self, membership: Membership, runtime: Runtime, store: Store, clock: Clock, hearing: Hearing | None = None
    ) -> None:
        self._clock = clock
        self._looked_at = clock()
        self._membership = membership
        self._runtime = runtime
        self._journal = runtime.journal
        self._broadcaster = runtime.broadcaster
        self._store = store
        self._hearing = hearing
        self._entries: dict[int, int] = {}
        """The last entry that was read of each node."""
        self._mirrors: dict[Key, SessionLog] = {}
        self._dirty: set[Key] = set()
        """Sessions whose mirror may be behind the database."""
        self._ended: set[Key] = set()
        """Sessions whose mirror may contain events that the log already has."""
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        self._arrived = anyio.Event()
        self._wanted: Counter[tuple[TenantId, ContainerId]] = Counter()
        self._disturbed: dict[int, int] = {}
        self._unheard: frozenset[int] = frozenset()
        self.relayed = 0
        """Events of other nodes that were sent to local channels."""
        self._journal.moved = self._catch_up
        if hearing is not None:
            self._broadcaster.interest = self
            self._journal.publish = self.publish

    def gain(self, tenant_id: TenantId, container_id: ContainerId) -> None:
        """A listener of the container has come."""
        self._wanted[tenant_id, container_id] += 1
        if self._wanted[tenant_id, container_id] == 1 and self._hearing is not None:
            self._hearing.bus.listen(_topic(tenant_id, container_id), self._take_packet)

    def lose(self, tenant_id: TenantId, container_id: ContainerId) -> None:
        """A listener of the container has gone."""
        self._wanted[tenant_id, container_id] -= 1
        if self._wanted[tenant_id, container_id] <= 0 and self._hearing is not None:
            del self._wanted[tenant_id, container_id]
            self._hearing.bus.unlisten(_topic(tenant_id, container_id))

    def publish(self, log: SessionLog, events: Sequence[Event]) -> None:
        """Publishes events of this node that are stored and sent. Never waits."""
        if self._hearing is None or not self._hearing.bus.is_up:
            return
        if numbered := [event for event in events if event.seq]:
            packet = RelayedEvents(log.tenant_id, log.container_id, log.session_id, encode_events(numbered))
            self._hearing.bus.publish(_topic(log.tenant_id, log.container_id), _encoder.encode(packet))

    def _take_packet(self, body: bytes) -> None:
        assert self._hearing is not None
        if self._inbox_bytes + len(body) > INBOX_MAX_BYTES:
            self._hearing.bus.disturbed += 1
            return
        self._inbox.append(body)
        self._inbox_bytes += len(body)
        self._arrived.set()

    async def run(self) -> None:
        """Relays, until cancelled."""
        next_look = anyio.current_time() + POLL_SECONDS
        while True:
            with anyio.move_on_after(max(0, next_look - anyio.current_time())):
                await self._arrived.wait()
            self._arrived = anyio.Event()
            try:
                await self._take_in()
                if anyio.current_time() >= next_look:
                    await self._poll()
                    next_look = anyio.current_time() + POLL_SECONDS
            except AgentVMError as error:
                next_look = anyio.current_time() + POLL_SECONDS
                logger.warning("journals_not_read", code=error.code, error=str(error))

    async def _take_in(self) -> None:
        """Sends events that arrived over the bus."""
        while self._inbox:
            body = self._inbox.popleft()
            self._inbox_bytes -= len(body)
            try:
                packet = _told.decode(body)
            except msgspec.DecodeError:
                # Of a newer version.
                continue
            if not packet.is_numbered:
                self._tell_aside(packet)
            elif packet.session_id is not None and self._broadcaster.is_wanted(
                packet.tenant_id, packet.container_id, packet.session_id
            ):
                await self._receive(JournalPart(packet.tenant_id, packet.container_id, packet.session_id, packet.events))

    def _tell_aside(self, batch: RelayedEvents) -> None:
        try:
            events = decode_events(batch.events, batch.tenant_id, {})
        except (msgspec.DecodeError, KeyError, IndexError) as error:
            logger.warning("events_not_relayed", container_id=batch.container_id, error=repr(error))
            return
        self._broadcaster.broadcast(events)

    def announce(self, events: Sequence[Event]) -> None:
        """Publishes events that no log holds; a lost one is lost, as for a client that reconnects."""
        if self._hearing is None or not self._hearing.bus.is_up:
            return
        for event in events:
            place = event.scope.container_id
            if place is not None and event.data.told and not isinstance(event.data, MessageEvent):
                packet = RelayedEvents(
                    event.tenant_id, place, event.scope.session_id, encode_events([event]), is_numbered=False
                )
                self._hearing.bus.publish(_topic(event.tenant_id, place), _encoder.encode(packet))

    async def refresh(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> SessionLog:
        """The log of a session, with all events that another node has stored so far."""
        if self._is_others(log := await self._journal.open(tenant_id, container_id, session_id)):
            await self._repair(log)
        return log

    async def open(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, after: int = 0) -> SessionLog:
        """The log of a session, with the events of another node; at least up to the cursor of a client of that node."""
        log = await self._journal.open(tenant_id, container_id, session_id)
        if self._is_others(log) and (tenant_id, session_id) not in self._mirrors:
            await self._repair(log)
        with anyio.move_on_after(UNKNOWN_SECONDS):
            while after > log.committed and self._journal.is_writing(tenant_id, session_id):
                # Others have read it already, from a commit whose outcome this node does not know yet; or it will be refused.
                await self._journal.commit_of(log)
                log = await self._journal.open(tenant_id, container_id, session_id)
        if after > log.committed and log.claimed:
            # Others have gone on with it, or nobody ever got that cursor.
            await self._membership.confirm()
        until = anyio.current_time() + CATCH_UP_SECONDS
        while after > log.committed and not log.claimed:
            # Never cut short: on a busy machine one look may take longer than all of them should.
            if self._is_others(log):
                await self._repair(log)
            if after <= log.committed or anyio.current_time() > until:
                break
            await anyio.sleep(CATCH_UP_POLL_SECONDS)
            log = await self._journal.open(tenant_id, container_id, session_id)
        return log

    def _is_others(self, log: SessionLog) -> bool:
        return not log.claimed and not self._journal.is_writing(log.tenant_id, log.session_id)

    async def _poll(self) -> None:
        """Polls the nodes that are not connected to the bus, and compares mirrors that may be behind."""
        began = self._clock()
        if not self._broadcaster.listens:
            self._entries.clear()
            self._mirrors.clear()
            self._dirty.clear()
            self._looked_at = began
            return
        others = self._membership.up - {self._membership.node_id}
        unheard = frozenset(node for node in others if self._hearing is None or not self._hearing.is_heard(node))
        if self._hearing is not None and (self._was_disturbed(self._hearing) or unheard != self._unheard):
            self._dirty |= self._mirrors.keys()
        self._unheard = unheard
        for node_id in [*self._entries]:
            if node_id not in unheard:
                del self._entries[node_id]
        for node_id in unheard:
            await self._read(node_id)
        followed = [*self._broadcaster.followed()]
        for key in self._mirrors.keys() - {(tenant_id, session_id) for tenant_id, _, session_id in followed}:
            del self._mirrors[key]
        compared = followed if unheard else [key for key in followed if self._is_to_be_compared((key[0], key[2]))]
        if compared:
            # What was told before the bus knew that it is wanted here is in the database.
            if self._hearing is not None and not unheard:
                await self._hearing.bus.settle()
            await self._compare(compared)
        self._looked_at = began

    def _is_to_be_compared(self, key: Key) -> bool:
        log = self._journal.find(*key)
        if log is not None and log.claimed:
            return False
        mirror = self._mirrors.get(key)
        return mirror is None or key in self._dirty or key in self._ended or len(mirror.tail) > TAIL_EVENTS_MAX

    def _was_disturbed(self, hearing: Hearing) -> bool:
        """Returns whether any node may have lost a message since the last call."""
        disturbed = {row.node_id: row.report.disturbed for row in self._membership.rows if row.state == "up"}
        disturbed[self._membership.node_id] = hearing.bus.disturbed
        before, self._disturbed = self._disturbed, disturbed
        return disturbed != before

    async def _read(self, node_id: int) -> None:
        """Reads the new entries of a node's journal."""
        if node_id not in self._entries:
            # What it has told before is in the mirrors that are made from now on.
            self._entries[node_id] = await self._store.last_entry(node_id)
            return
        while page := await self._store.read_journal(self._entries[node_id], PAGE_BYTES, node_id=node_id):
            for entry, body in page:
                for part in unpack(entry, body):
                    if self._broadcaster.is_wanted(part.tenant_id, part.container_id, part.session_id):
                        await self._receive(part)
            self._entries[node_id] = page[-1][0]

    async def _receive(self, part: JournalPart) -> None:
        """Tells the events of a part that are new here."""
        try:
            log, is_new = await self.open(part.tenant_id, part.container_id, part.session_id), part.key not in self._mirrors
            self._mirrors[part.key] = log
            if not self._is_others(log):
                self._dirty.add(part.key)
                return
            if last_seq(part.events) <= log.committed:
                if is_new:
                    # Read from the database just now: those who have come before have not been told.
                    self._catch_up(log, first_seq(part.events) - 1)
                return
            if first_seq(part.events) > log.committed + 1:
                await self._repair(log)
                return
            events = await self._decode(log, part.events)
        except (NotFound, msgspec.DecodeError, KeyError, IndexError) as error:
            logger.warning("events_not_relayed", session_id=part.session_id, error=repr(error))
            return
        except AgentVMError:
            # It comes over the bus once; the database has it.
            self._dirty.add(part.key)
            raise
        if self._is_others(log) and (new := [event for event in events if event.seq > log.committed]):
            if new[0].seq == log.committed + 1:
                log.mirror(new)
                self._runtime.histories.forget(*part.key)
                self._broadcaster.broadcast(new)
                self.relayed += len(new)
                if any(isinstance(event.data, TurnResponse) for event in new):
                    # The log has it now, and the mirror need not any more.
                    self._ended.add(part.key)
            else:
                self._dirty.add(part.key)

    async def _decode(self, log: SessionLog, body: bytes) -> list[Event]:
        named = named_messages(body)
        stored = self._store.tenant(log.tenant_id).container(log.container_id).log(log.session_id)
        messages: dict[str, Message] = {message.id: message for message in await stored.get_messages(named)} if named else {}
        return decode_events(body, log.tenant_id, messages)

    async def _compare(self, followed: Sequence[Followed]) -> None:
        """Finds sessions whose log has grown: the end of a turn is in no journal."""
        heads = await self._store.read_heads(followed)
        for tenant_id, container_id, session_id in followed:
            key = (tenant_id, session_id)
            log = self._journal.find(tenant_id, session_id)
            self._ended.discard(key)
            if key not in heads or (log is not None and log.claimed):
                self._dirty.discard(key)
                continue
            if log is not None and self._is_others(log):
                log.drop_stored(heads[key])
            is_new = key not in self._mirrors
            if log is None or is_new or heads[key] > log.committed or key in self._dirty:
                self._dirty.discard(key)
                try:
                    log = await self._journal.open(tenant_id, container_id, session_id)
                    await self._repair(log)
                    if is_new:
                        await self._begin(log)
                    self._mirrors[key] = log
                except NotFound:
                    continue
                except AgentVMError:
                    self._dirty.add(key)
                    raise

    def _catch_up(self, log: SessionLog, before: int) -> None:
        self._broadcaster.catch_up(log.tenant_id, log.container_id, log.session_id, before)

    async def _begin(self, log: SessionLog) -> None:
        """Sends events since the last check to the subscribers that have come since then."""
        stored = self._store.tenant(log.tenant_id).container(log.container_id).log(log.session_id)
        before = await stored.last_before(self._looked_at - SKEW_MS)
        if before < log.committed:
            self._catch_up(log, before)

    async def _repair(self, log: SessionLog) -> None:
        """Updates a mirror from the database, and lets its followers continue from there."""
        tenant_id, container_id, session_id = log.tenant_id, log.container_id, log.session_id
        head, parked, teller = await self._store.tenant(tenant_id).container(container_id).log(session_id).standing()
        tail: list[Event] = []
        if teller not in (None, self._membership.node_id):
            tail = await self._read_tail(log, teller, head)
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
            self._catch_up(log, before)

    async def _read_tail(self, log: SessionLog, node_id: int, head: int) -> list[Event]:
        """The events after `head` that are in the journal of a node, without a gap."""
        events: list[Event] = []
        after = 0
        while page := await self._store.read_journal(after, PAGE_BYTES, node_id=node_id):
            for entry, body in page:
                for part in unpack(entry, body):
                    if part.key == (log.tenant_id, log.session_id) and last_seq(part.events) > head:
                        try:
                            events += await self._decode(log, part.events)
                        except (msgspec.DecodeError, KeyError, IndexError) as error:
                            # What it names was deleted meanwhile, as happens with a whole session: as far as can be read.
                            logger.warning("events_not_relayed", session_id=part.session_id, error=repr(error))
                            self._dirty.add(part.key)
            after = page[-1][0]
        return _consecutive([event for event in events if event.seq > head], head)


def _consecutive(events: Sequence[Event], head: int) -> list[Event]:
    return [event for _, event in takewhile(lambda pair: pair[1].seq == pair[0], enumerate(events, head + 1))]


@lru_cache(maxsize=4096)
def _topic(tenant_id: TenantId, container_id: ContainerId) -> str:
    """Digested: names have characters that a topic has not, and are of no concern to a bus."""
    return f"e.{blake2b(f'{tenant_id}/{container_id}'.encode(), digest_size=12).hexdigest()}"
