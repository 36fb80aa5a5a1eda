"""SessionStore — the sessions of some containers of one tenant."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from agentvm.model.ids import ContainerId, MessageId, SessionId, TenantId
from agentvm.model.message import Message
from agentvm.model.session import Rewind, Session, Summary
from agentvm.storage.sessions import (
    ANYBODY,
    FoundPage,
    Listed,
    MessagePage,
    MessageQuery,
    MessageSearch,
    SessionPage,
    SessionQuery,
    SessionReader,
    TurnPage,
    TurnQuery,
)
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.rows import IS_LISTED, IS_SHOWN, SESSION_COLUMNS, decode_session, is_present
from agentvm.storage.sql.sessions.dropping import SessionRow, drop_session_slice
from agentvm.storage.sql.sessions.listing import list_sessions, read_listed, scope
from agentvm.storage.sql.sessions.pending import index_all_pending
from agentvm.storage.sql.sessions.reading import mark, read_messages
from agentvm.storage.sql.sessions.rewinding import list_rewinds, read_as_it_stood
from agentvm.storage.sql.sessions.search import search_messages
from agentvm.storage.sql.sessions.summaries import list_summaries
from agentvm.storage.sql.sessions.turns import list_turns

T = TypeVar("T")

# The oldest that is left takes the place of an image's default session; without one the image is not shown any more.
_SUCCEED = f"""
UPDATE images SET session_id = coalesce((
    SELECT s.session_id FROM sessions AS s
    WHERE s.tenant_id = images.tenant_id AND s.image_id = images.image_id AND s.deleted_at IS NULL
      AND {is_present("s")} AND {IS_LISTED}
    ORDER BY s.created_at, s.session_key LIMIT 1
), session_id)
WHERE tenant_id = ? AND image_id = ? AND session_id = ?
"""
_LEAD = f"UPDATE images SET session_id = ? WHERE tenant_id = ? AND image_id = ? AND NOT {IS_SHOWN}"
_BEGUN = "SELECT 1 FROM turns WHERE session_key = ? LIMIT 1"
_SESSION = f"SELECT s.session_key, {SESSION_COLUMNS} FROM sessions AS s"


class SessionStore:
    """The sessions of some containers."""

    def __init__(self, database: Database, tenant_id: TenantId, containers: Sequence[ContainerId] | None) -> None:
        self._database = database.of(tenant_id)
        self._scope = (tenant_id, None if containers is None else tuple(containers))

    async def list(self, query: SessionQuery, reader: SessionReader = ANYBODY) -> SessionPage:
        """Pinned ones first, then by the last message. A session that does not move in the meantime is on exactly one page.

        `InvalidInput` for an `after` that is no `next`.
        """
        # A title is looked for in every session, and several containers' sessions are sorted together.
        heavy = query.title is not None or self._scope[1] is None or len(self._scope[1]) > 1
        return await self._database.read(lambda connection: list_sessions(connection, *self._scope, query, reader), heavy=heavy)

    async def get(self, session_id: SessionId, reader: SessionReader = ANYBODY) -> Listed | None:
        return await self._database.read(lambda connection: read_listed(connection, *self._scope, session_id, reader))

    async def keep(
        self, session_id: SessionId, *, pinned: bool | None = None, archived: bool | None = None, now: int
    ) -> Session | None:
        """Pins or archives a session; returns it, None without such a session. One that is so already keeps its time."""
        columns = (("pinned_at", pinned), ("archived_at", archived))
        changes = [
            f"{column} = coalesce({column}, {int(now)})" if is_set else f"{column} = NULL"
            for column, is_set in columns
            if is_set is not None
        ]

        def work(connection: Connection) -> Session | None:
            key, session = self._find(connection, session_id)
            if session is None or not changes:
                return session
            connection.execute(f"UPDATE sessions SET {', '.join(changes)}, updated_at = ? WHERE session_key = ?", (now, key))
            return self._find(connection, session_id)[1]

        return await self._database.write(work)

    async def name(self, session_id: SessionId, title: str, now: int) -> Session | None:
        """Gives a session a title that has none; None when it has one, or is gone."""

        def work(connection: Connection) -> Session | None:
            key, session = self._find(connection, session_id)
            if session is None or session.title is not None:
                return None
            connection.execute("UPDATE sessions SET title = ?, updated_at = ? WHERE session_key = ?", (title, now, key))
            return self._find(connection, session_id)[1]

        return await self._database.write(work)

    async def delete(self, session_id: SessionId, now: int, *, unless_begun: bool = False) -> Session | None:
        """Out of every list and search, until it is restored or purged. With `unless_begun` only one without any turn.

        The oldest that is left takes the place of an image's default session. An image without sessions is deleted with its
        last one: hidden until one of its sessions is restored, and permanently when the last of them is purged.
        """

        def work(connection: Connection) -> Session | None:
            key, session = self._find(connection, session_id)
            if session is None or (unless_begun and connection.fetch(_BEGUN, (key,))):
                return None
            connection.execute("UPDATE sessions SET deleted_at = ?, updated_at = ? WHERE session_key = ?", (now, now, key))
            connection.execute(_SUCCEED, (self._scope[0], session.image_id, session_id))
            return self._find(connection, session_id, deleted=True)[1]

        return await self._database.write(work)

    async def drop(self, session_id: SessionId) -> None:
        """Permanently deletes a session that is already hidden from every list, in small commits."""

        def work(connection: Connection) -> bool:
            key, session = self._find(connection, session_id, deleted=True)
            if session is None:
                return False
            row = SessionRow(key, self._scope[0], session.container_id, session_id, session.image_id)
            return drop_session_slice(connection, row)

        while await self._database.write(work):
            pass

    async def restore(self, session_id: SessionId, now: int, *, deleted_after: int) -> Session | None:
        """Brings back one that was deleted after then; one that was not deleted is returned as it is."""

        def work(connection: Connection) -> Session | None:
            key, session = self._find(connection, session_id, deleted=True)
            if session is None or session.deleted_at is None:
                return self._find(connection, session_id)[1]
            if session.deleted_at <= deleted_after:
                return None
            connection.execute("UPDATE sessions SET deleted_at = NULL, updated_at = ? WHERE session_key = ?", (now, key))
            connection.execute(_LEAD, (session_id, self._scope[0], session.image_id))
            return self._find(connection, session_id)[1]

        return await self._database.write(work)

    async def mark_read(
        self,
        session_id: SessionId,
        reader: SessionReader,
        now: int,
        *,
        cursor: str | None = None,
        message_id: MessageId | None = None,
    ) -> Listed | None:
        """Read up to that place or message, by default to the end; never less than before. None when there is none.

        A message that was read on one device is read on all. `NotFound` for a message that is not there.
        """

        def work(connection: Connection) -> Listed | None:
            key, session = self._find(connection, session_id)
            if session is None:
                return None
            mark(connection, key, reader, now, cursor=cursor, message_id=message_id)
            return read_listed(connection, *self._scope, session_id, reader)

        return await self._database.write(work)

    async def messages(self, session_id: SessionId, query: MessageQuery) -> MessagePage | None:
        """None when there is no such session. `NotFound` for an `around` or a `rewind` that is not there."""

        return await self._read(session_id, lambda connection, key: read_messages(connection, key, query))

    async def rewinds(self, session_id: SessionId) -> tuple[Rewind, ...] | None:
        """The rewinds of a session, the latest first, at most 200; None when there is no such session."""

        return await self._read(session_id, lambda connection, key: list_rewinds(connection, key))

    async def summaries(self, session_id: SessionId) -> tuple[Summary, ...] | None:
        """The valid summaries, the newest first, at most 200; None when there is no such session."""

        return await self._read(session_id, lambda connection, key: list_summaries(connection, key))

    async def history(self, session_id: SessionId, message_id: MessageId, max_bytes: int) -> tuple[Message, ...] | None:
        """Returns the history when that message was last a part of it, also if it was rewound since: up to it, and following
        messages as far as `max_bytes` allow. `HistoryTooLarge` when they do not reach it; then nothing was read.

        None when there is no such session or message.
        """

        return await self._read(
            session_id, lambda connection, key: read_as_it_stood(connection, key, message_id, max_bytes), heavy=True
        )

    async def turns(self, query: TurnQuery) -> TurnPage:
        """The newest turns first, or the slowest. `InvalidInput` for an `after` that is no `next`."""
        return await self._database.read(lambda connection: list_turns(connection, *self._scope, query))

    async def search(self, query: MessageSearch) -> FoundPage:
        """Best first: rare words, short messages and recent ones rank higher. A text without words finds nothing."""
        await index_all_pending(self._database, *self._scope)
        return await self._database.read(lambda connection: search_messages(connection, *self._scope, query), heavy=True)

    async def _read(self, session_id: SessionId, read: Callable[[Connection, int], T], *, heavy: bool = False) -> T | None:
        """The result of a read in a session; None when there is no such session."""

        def work(connection: Connection) -> T | None:
            key, session = self._find(connection, session_id)
            return None if session is None else read(connection, key)

        return await self._database.read(work, heavy=heavy)

    def _find(self, connection: Connection, session_id: SessionId, *, deleted: bool = False) -> tuple[int, Session | None]:
        values: dict[str, Any] = {"session": session_id}
        where = scope(*self._scope, values, deleted=deleted)
        for key, *row in connection.fetch(f"{_SESSION} WHERE {where} AND s.session_id = :session", values):
            return key, decode_session(row)
        return 0, None
