"""DraftStore — the drafts of one author in some containers of one tenant."""

from collections.abc import Sequence
from typing import Any

from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.model.session import Draft, Drafted
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import ORDERED_JOIN, ROWS_MAX
from agentvm.storage.sql.sessions.listing import scope

DEVICES_MAX = 20
"""Drafts of one author in one session; the oldest is deleted when there is one more."""

_SESSION = "SELECT s.session_key, s.container_id, s.image_id FROM sessions AS s"
_DRAFTS = f"""
SELECT s.session_id, s.container_id, s.image_id, d.device, d.text, d.updated_at
FROM drafts AS d {ORDERED_JOIN} sessions AS s ON s.session_key = d.session_key
WHERE d.author = :author AND {{where}}
ORDER BY d.updated_at DESC, s.session_key DESC, d.device LIMIT :limit
"""
_FIND = "SELECT text, updated_at FROM drafts WHERE session_key = ? AND author = ? AND device = ?"
_PUT = """
INSERT INTO drafts (session_key, author, device, text, updated_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (session_key, author, device) DO UPDATE SET text = excluded.text, updated_at = excluded.updated_at
"""
_REMOVE = "DELETE FROM drafts WHERE session_key = ? AND author = ? AND device = ?"
_DROP_OLDEST = f"""
DELETE FROM drafts WHERE session_key = ?1 AND author = ?2 AND device IN (
    SELECT device FROM drafts WHERE session_key = ?1 AND author = ?2 ORDER BY updated_at DESC, device LIMIT {ROWS_MAX} OFFSET ?3
)
"""


class DraftStore:
    """The drafts of one author. `device` is '' for drafts without a device."""

    def __init__(self, database: Database, tenant_id: TenantId, author: str, containers: Sequence[ContainerId] | None) -> None:
        self._database = database.of(tenant_id)
        self._scope = (tenant_id, None if containers is None else tuple(containers))
        self._author = author

    async def save(
        self, session_id: SessionId, device: str, text: str, now: int, *, if_updated_at: int | None = None
    ) -> Drafted | None:
        """Replaces the device's draft by the text; an empty one removes it. None when there is no such session.

        With `if_updated_at` only if the draft is still of that moment; 0 for only if there is none. Each change has a moment of
        its own.
        """

        def work(connection: Connection) -> Drafted | None:
            session = self._find(connection, session_id)
            if session is None:
                return None
            key, container_id, image_id = session
            place = (key, self._author, device)
            before = connection.fetch(_FIND, place)
            updated_at = before[0][1] if before else 0
            # Two changes within one millisecond can be told apart.
            at = max(now, updated_at + 1)
            saved = if_updated_at is None or if_updated_at == updated_at
            if saved and text:
                connection.execute(_PUT, (*place, text, at))
                connection.execute(_DROP_OLDEST, (key, self._author, DEVICES_MAX))
            elif saved:
                connection.execute(_REMOVE, place)
            drafts = [_decode((session_id, container_id, image_id, device, *row)) for row in connection.fetch(_FIND, place)]
            freed = len(before[0][0].encode()) if saved and before else 0
            changed = saved and bool(text or before)
            return Drafted(container_id, image_id, at, saved, changed, drafts[0] if drafts else None, freed)

        return await self._database.write(work)

    async def list(self, session_id: SessionId) -> tuple[Draft, ...] | None:
        """The drafts in one session, the newest first; None when there is no such session."""

        def read(connection: Connection) -> tuple[Draft, ...] | None:
            if self._find(connection, session_id) is None:
                return None
            return self._read(connection, " AND s.session_id = :session", DEVICES_MAX, {"session": session_id})

        return await self._database.read(read)

    async def list_all(self, *, limit: int = 50) -> tuple[Draft, ...]:
        """The drafts in all sessions, the newest first."""
        return await self._database.read(lambda connection: self._read(connection, "", limit, {}))

    def _read(self, connection: Connection, narrow: str, limit: int, values: dict[str, Any]) -> tuple[Draft, ...]:
        args: dict[str, Any] = {"author": self._author, "limit": limit, **values}
        where = scope(*self._scope, args) + narrow
        return tuple(map(_decode, connection.fetch(_DRAFTS.format(where=where), args)))

    def _find(self, connection: Connection, session_id: SessionId) -> tuple[int, Any, Any] | None:
        values: dict[str, Any] = {"session": session_id}
        where = scope(*self._scope, values)
        for key, container_id, image_id in connection.fetch(f"{_SESSION} WHERE {where} AND s.session_id = :session", values):
            return key, container_id, image_id
        return None


def _decode(row: Sequence[Any]) -> Draft:
    session_id, container_id, image_id, device, text, updated_at = row
    return Draft(
        session_id=session_id,
        container_id=container_id,
        image_id=image_id,
        device=device or None,
        text=text,
        updated_at=updated_at,
    )
