"""Store — the door to the database: a tenant first, then one of its containers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from agentvm.errors import WritesRefused
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.ledger import SentCall
from agentvm.model.node import DatabaseState
from agentvm.model.schedule import Schedule, Trigger
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.storage.base import Committed, ReaderPlace, SessionWrite
from agentvm.storage.settings import Change
from agentvm.storage.sql.accounts import Accounts
from agentvm.storage.sql.accounts.directory import Directory
from agentvm.storage.sql.accounts.sent_calls import read_left, read_left_by_ended
from agentvm.storage.sql.attachments import collect_attachments, drop_released
from agentvm.storage.sql.carry import Carrier
from agentvm.storage.sql.collection_indexes import CollectionIndexes, UnfinishedIndex, read_unfinished_indexes
from agentvm.storage.sql.collections import CollectionStore, tidy_slice
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.container_names import ContainerNames, container_id_of
from agentvm.storage.sql.definitions import DefinitionStore
from agentvm.storage.sql.dialect import ROWS_MAX
from agentvm.storage.sql.erasing import Erasing
from agentvm.storage.sql.file_changes import collect_files
from agentvm.storage.sql.journal_entries import add_entry, forget_entries, last_entry, read_entries
from agentvm.storage.sql.knowledge import KnowledgeStore
from agentvm.storage.sql.log import LOG_RANGE
from agentvm.storage.sql.nodes import Claim, release_claims, take, with_closed
from agentvm.storage.sql.placed_calls import PlacedCallStore
from agentvm.storage.sql.records import Scope
from agentvm.storage.sql.resources import ResourceStore
from agentvm.storage.sql.resources.collect import collect
from agentvm.storage.sql.rows import (
    IS_SHOWN,
    SHOWN_SESSION,
    TURN,
    decode_turn,
    read_homes,
    read_quarantined,
    read_unfinished,
)
from agentvm.storage.sql.schedules import DueSchedules, SourceStore, schedule_store, trigger_store
from agentvm.storage.sql.session_write import PreparedWrite, add_at_once, add_each, add_together, prepare
from agentvm.storage.sql.sessions import SessionStore
from agentvm.storage.sql.sessions.drafts import DraftStore
from agentvm.storage.sql.sessions.dropping import SessionRow, purge_slice
from agentvm.storage.sql.sessions.index import tend
from agentvm.storage.sql.sessions.pending import index_pending
from agentvm.storage.sql.sessions.retention import RetentionStore
from agentvm.storage.sql.sessions.rewound_ranges import settle_ranges
from agentvm.storage.sql.settings import SettingsStore, read_all
from agentvm.storage.sql.tickets import TicketStore
from agentvm.storage.sql.trimming import trim_log
from agentvm.storage.sql.wait_links import WaitLinks
from agentvm.storage.sql.waits import DueWaits, WaitStore
from agentvm.storage.sql.webhooks import DueDeliveries, WebhookStore

logger = get_logger(__name__)


_FORGET_READER = "DELETE FROM readers WHERE tenant_id = ? AND client_id = ?"
_SAVE_PLACE = """
INSERT INTO readers (tenant_id, client_id, session_key, seq, saved_at)
SELECT tenant_id, ?1, session_key,
       coalesce(?2, (SELECT max(last_seq) FROM log WHERE log.session_key = sessions.session_key), 0), ?3
FROM sessions
WHERE tenant_id = ?4 AND session_id = ?5
"""
# The names of readers are their own choice; who came back to a session last stays.
_DROP_READERS = f"""
DELETE FROM readers WHERE (tenant_id, client_id, session_key) IN (
    SELECT readers.tenant_id, client_id, session_key FROM readers JOIN sessions USING (session_key)
    WHERE sessions.tenant_id = ? AND session_id = ? ORDER BY saved_at DESC, client_id LIMIT {ROWS_MAX} OFFSET ?
)
"""
READERS_MAX = 1_000
"""Readers of one session whose places are stored."""

_PLACES = """
SELECT session_id, seq, saved_at
FROM readers JOIN sessions USING (session_key)
WHERE readers.tenant_id = ? AND client_id = ?
ORDER BY session_key
"""


class TenantStore(ContainerNames):
    """One tenant: finds in which of its containers a thing lives, and remembers how far its readers have read."""

    __slots__ = ()

    def container(self, container_id: ContainerId) -> ContainerStore:
        return ContainerStore(self._database, self._tenant_id, container_id)

    async def find_image(self, image_id: ImageId) -> ContainerId | None:
        query = f"SELECT container_id FROM images WHERE tenant_id = ? AND image_id = ? AND {IS_SHOWN}"
        return await self._first(container_id_of, query, (self._tenant_id, image_id))

    async def find_session(self, session_id: SessionId) -> ContainerId | None:
        return await self._first(container_id_of, SHOWN_SESSION, (self._tenant_id, session_id))

    def sessions(self, containers: Sequence[ContainerId] | None) -> SessionStore:
        """The sessions of these containers; None for all of the tenant's."""
        return SessionStore(self._database, self._tenant_id, containers)

    def waits(self, containers: Sequence[ContainerId] | None) -> WaitStore:
        """The tool calls of these containers that wait for an answer; None for all of the tenant's."""
        return WaitStore(self._database, self._tenant_id, containers)

    def schedules(self, containers: Sequence[ContainerId] | None) -> SourceStore[Schedule]:
        """The schedules of these containers; None for all of the tenant's."""
        return schedule_store(self._database, self._tenant_id, containers)

    def triggers(self, containers: Sequence[ContainerId] | None) -> SourceStore[Trigger]:
        """The triggers of these containers; None for all of the tenant's."""
        return trigger_store(self._database, self._tenant_id, containers)

    def placed_calls(self) -> PlacedCallStore:
        """The reasons of tool calls."""
        return PlacedCallStore(self._database, self._tenant_id)

    def drafts(self, author: str, containers: Sequence[ContainerId] | None) -> DraftStore:
        """The drafts of an author in these containers; None for all of the tenant's. '' is the anonymous author."""
        return DraftStore(self._database, self._tenant_id, author, containers)

    def retention(self) -> RetentionStore:
        """The retention of all its containers."""
        return RetentionStore(self._database, self._tenant_id)

    async def find_turn(self, turn_id: TurnId) -> Turn | None:
        return await self._first(decode_turn, TURN, (turn_id, self._tenant_id))

    async def find_turns(self, turn_ids: Sequence[TurnId]) -> tuple[Turn, ...]:
        """Returns those of the turns that are known."""

        def read(connection: Connection) -> tuple[Turn, ...]:
            return tuple(decode_turn(row) for turn_id in turn_ids for row in connection.fetch(TURN, (turn_id, self._tenant_id)))

        return await self._database.read(read)

    async def save_reader(self, client_id: str, places: Mapping[SessionId, ReaderPlace]) -> None:
        """Replaces the places of a reader. Deleted sessions are passed over."""
        rows = [(client_id, place.seq, place.saved_at, self._tenant_id, session_id) for session_id, place in places.items()]

        def work(connection: Connection) -> None:
            connection.execute(_FORGET_READER, (self._tenant_id, client_id))
            connection.many(_SAVE_PLACE, rows)
            for *_, tenant_id, session_id in rows:
                connection.execute(_DROP_READERS, (tenant_id, session_id, READERS_MAX))

        await self._database.write(work)

    async def take_reader(self, client_id: str) -> dict[SessionId, ReaderPlace]:
        """Returns and deletes the places of the reader in one commit; every `seq` is known."""

        # By the writer, like `save_reader`: what was saved just before is seen, though it may not be committed yet.
        def work(connection: Connection) -> dict[SessionId, ReaderPlace]:
            rows = connection.fetch(_PLACES, (self._tenant_id, client_id))
            connection.execute(_FORGET_READER, (self._tenant_id, client_id))
            return {SessionId(session_id): ReaderPlace(seq, saved_at) for session_id, seq, saved_at in rows}

        return await self._database.write(work)


class Store(Scope):
    """A whole database. Opened at start-up, closed at shutdown."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.node_id = database.node_id
        """The number of this node; 0 for a server that has its database alone."""
        self.directory: Directory = Directory(database)
        self.erasing: Erasing = Erasing(database)
        self.waiting: Callable[[], int] = lambda: database.waiting
        self._forgotten = 0
        """The journal entry before which some are still to be dropped; 0 for none."""
        self.due_waits = DueWaits(database)
        self.wait_links = WaitLinks(database)
        self.due_schedules = DueSchedules(database)
        self.hooked: set[TenantId] = set()
        """Tenants that may have webhooks: the commits of all others pay nothing for them."""
        self.due_deliveries = DueDeliveries(database)
        self.tickets = TicketStore(database)
        self.describe_database: Callable[[], Awaitable[DatabaseState]] = database.describe
        self.size_bytes: Callable[[], Awaitable[int]] = database.size_bytes

    def tenant(self, tenant_id: TenantId) -> TenantStore:
        return TenantStore(self._database, tenant_id)

    def accounts(self, tenant_id: TenantId) -> Accounts:
        return Accounts(self._database, tenant_id)

    def knowledge(self, tenant_id: TenantId) -> KnowledgeStore:
        """The indexes of the knowledge bases and collections that belong to a tenant, also if others may search them."""
        return KnowledgeStore(self._database, tenant_id)

    def collection_indexes(self, tenant_id: TenantId) -> CollectionIndexes:
        return CollectionIndexes(self._database, tenant_id, self.node_id)

    async def list_unfinished_indexes(self, after: int, limit: int) -> tuple[UnfinishedIndex, ...]:
        """Indexes of collections that lack documents, of all tenants, by their keys."""
        return await self._database.read(partial(read_unfinished_indexes, after=after, limit=limit))

    def collections(self, tenant_id: TenantId) -> CollectionStore:
        return CollectionStore(self._database, tenant_id)

    def resources(self, tenant_id: TenantId) -> ResourceStore:
        return ResourceStore(self._database, tenant_id)

    def definitions(self, tenant_id: TenantId) -> DefinitionStore:
        return DefinitionStore(self._database, tenant_id)

    def webhooks(self, tenant_id: TenantId) -> WebhookStore:
        return WebhookStore(self._database, tenant_id, self.hooked)

    def carrier(self, tenant_id: TenantId) -> Carrier:
        return Carrier(self._database, tenant_id)

    def settings(self, tenant_id: TenantId | None) -> SettingsStore:
        """The changes of a tenant's settings; None for those of the server itself."""
        return SettingsStore(self._database, tenant_id)

    async def read_settings(self) -> tuple[tuple[TenantId | None, Change], ...]:
        """Every change of every scope but deleted tenants', each scope's in order. For the start."""
        return await self._database.read(read_all)

    async def commit(
        self,
        writes: Sequence[SessionWrite],
        *,
        entry: bytes | None = None,
        forget: int = 0,
        claims: Sequence[Claim] = (),
    ) -> Committed:
        """Commits all writes in one transaction, each session by itself: one that is gone takes nothing and harms no other.

        `WritesRefused` names the sessions whose writes contradict the stored state; then nothing was stored, and the other
        writes can be retried without them.

        Only its ledger entries are stored, and its `answered` calls deleted: usage is billed, even if the image was deleted in
        the meantime. `entry` is appended to the journal; entries before `forget` are dropped.

        `claims` are sessions that this node takes or needs no longer. `SessionsMoved` names those that it cannot have, also
        because another node has closed a wait or a turn that this commit closes; then nothing was stored, as above.
        """
        # Deltas are in the entry: of their session nothing is asked but whether it is there.
        carried: list[SessionWrite] = []
        prepared: list[PreparedWrite] = []
        for write in writes:
            if write.is_empty:
                carried.append(write)
            else:
                prepared.append(prepare(write, node_id=self.node_id))
        claims = with_closed(claims, writes) if claims else claims

        def work(connection: Connection, add: Callable[..., set[SessionId]] = add_at_once) -> Committed:
            def claim(connection: Connection) -> None:
                take(connection, self.node_id, claims)

            claim(connection)
            number, gone, left = add_together(connection, carried, prepared, (entry, self.node_id), claim)
            if left:
                gone |= add(connection, left)
            if forget:
                # Never the new entry: in an empty journal SQLite begins to number anew.
                self._forget(connection, forget if entry is None else min(forget, number))
            return Committed(number, frozenset(gone), release_claims(connection, self.node_id, claims))

        try:
            return await self._database.write(work)
        except WritesRefused:
            return await self._database.write(lambda connection: work(connection, add_each))

    async def probe(self) -> None:
        """Commits a row and deletes it again, to try the disk; raises as a commit would."""

        def work(connection: Connection) -> None:
            number = add_entry(connection, b"\0", self.node_id)
            connection.execute("DELETE FROM journal WHERE entry = ?", (number,))

        await self._database.write(work)

    async def read_journal(
        self, after: int = 0, max_bytes: int | None = None, *, node_id: int | None = None
    ) -> tuple[tuple[int, bytes], ...]:
        """The entries of the journal after that one, in order: events that were sent and are in no chunk yet.

        With `max_bytes` the next entries that have no more together; at least one, if there is one. With `node_id` those of
        one node.
        """
        return await self._database.read(lambda connection: read_entries(connection, after, max_bytes, node_id))

    async def last_entry(self, node_id: int) -> int:
        """The number of the last entry in the journal of a node; 0 if it has none."""
        return await self._database.read(lambda connection: last_entry(connection, node_id))

    async def list_unfinished(self, sessions: Sequence[int] | None = None) -> tuple[tuple[TenantId, Turn], ...]:
        """Turns that were accepted and have no end, in the order they were accepted; of the sessions with these keys."""
        return await self._database.read(lambda connection: read_unfinished(connection, sessions))

    async def read_homes(self, turns: Sequence[tuple[TenantId, Turn]]) -> tuple[tuple[Image | None, bool], ...]:
        """The image of each turn, and whether its session can be found: for the start, which has many of them."""
        return await self._database.read(lambda connection: read_homes(connection, turns))

    async def read_heads(
        self, sessions: Sequence[tuple[TenantId, ContainerId, SessionId]]
    ) -> dict[tuple[TenantId, SessionId], int]:
        """The last seq in the log of each session, 0 where it is empty; sessions that are gone are left out."""

        def read(connection: Connection) -> dict[tuple[TenantId, SessionId], int]:
            return {
                (tenant_id, session_id): last or 0
                for tenant_id, container_id, session_id in sessions
                for _, last in connection.fetch(LOG_RANGE, (tenant_id, container_id, session_id))
            }

        return await self._database.read(read)

    async def list_sent_calls(self) -> tuple[SentCall, ...]:
        """Calls that were asked, are in no ledger, and of no open turn; in a cluster, of nodes that have ended."""
        return await self._database.read(read_left_by_ended if self.node_id else read_left)

    async def list_quarantined(self) -> tuple[tuple[TenantId, Session], ...]:
        """Sessions that are set aside."""
        return await self._database.read(read_quarantined)

    async def collect(self, now: int, *, grace: int, attachment_grace: int | None = None) -> int:
        """Drops unreferenced data: versions of deleted resources, binary parts, attachments, bytes of files.

        In two steps, so that a concurrent reference is not lost: an item is marked when nothing refers to it, and deleted by a
        call at least `grace` ms later if it is still unreferenced. Says how many were dropped: some at a time, so there may be
        more as long as it is not 0. Attachments have a grace of their own, `attachment_grace`: an upload that is yet to be
        sent survives it.
        """
        waits = grace if attachment_grace is None else attachment_grace

        def work(connection: Connection) -> int:
            dropped = collect(connection, now, grace) + collect_attachments(connection, max(now, 1), waits)
            return dropped + collect_files(connection, now, waits)

        dropped = await self._database.write(work)
        # Deleting a document does this at once; a crash may have come between.
        while await self._database.write(tidy_slice):
            pass
        await drop_released(self._database)
        return dropped

    async def purge_sessions(self, deleted_before: int, *, limit: int = 100) -> tuple[tuple[TenantId, SessionId], ...]:
        """Purges sessions that were deleted before then, with their messages. Returns the purged ones, at most `limit`."""
        gone: list[SessionRow] = []
        more = True
        while more and len(gone) < limit:
            left = limit - len(gone)
            purged, more = await self._database.write(partial(purge_slice, deleted_before=deleted_before, limit=left))
            gone += purged
        return tuple((session.tenant_id, session.session_id) for session in gone)

    def _forget(self, connection: Connection, before: int) -> bool:
        """Drops some entries of the journal; whether there may be more. Those go with later commits, or with `tend_search`."""
        left = forget_entries(connection, before, self.node_id)
        self._forgotten = before if left else 0
        return left

    async def tend_search(self, *, limit: int = 200) -> bool:
        """Maintains the search index and settles large rewinds, a slice of it. Whether there may be more to do.

        Called after a start until nothing is left, and periodically while messages are stored.
        """
        if before := self._forgotten:
            return await self._database.write(lambda connection: self._forget(connection, before)) or True
        # What was said meanwhile can wait for the next time, or each few messages would be a commit.
        if (piece := await index_pending(self._database)) is not None and piece.more:
            return True
        return await self._database.write(lambda connection: settle_ranges(connection) or tend(connection, limit))

    async def trim_log(self, made_before: int, most_bytes: int) -> int:
        """Drops older chunks, and the oldest beyond this many bytes, but never a session's newest; says how many.

        Places of readers that are as old go too.
        """
        return await trim_log(self._database, made_before, most_bytes)
