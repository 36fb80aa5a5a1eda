"""ShareStore — the links by which conversations of one tenant are read. A link goes with its conversation."""

from typing import Any

from agentvm.model.ids import SessionId, ShareId
from agentvm.model.share import Share
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import TenantScope

_ADD = """
INSERT INTO shares (session_key, tenant_id, share_id, created_by, created_at, expires_at)
SELECT session_key, tenant_id, ?, ?, ?, ? FROM sessions
WHERE tenant_id = ? AND session_id = ? AND deleted_at IS NULL
  AND (SELECT count(*) FROM shares AS s WHERE s.session_key = sessions.session_key) < ?
"""
_DROP_EXPIRED = """
DELETE FROM shares WHERE share_id IN (SELECT share_id FROM shares WHERE tenant_id = ? AND expires_at <= ? LIMIT 100)
"""
_SHARES = """
SELECT h.share_id, s.session_id, s.container_id, h.created_by, h.created_at, h.expires_at
FROM shares AS h JOIN sessions AS s USING (session_key)
WHERE h.tenant_id = ? AND s.deleted_at IS NULL
"""
_FIND = f"{_SHARES} AND h.share_id = ?"
_LIST = f"{_SHARES} AND s.session_id = ? ORDER BY h.position DESC"
_DROP = "DELETE FROM shares WHERE tenant_id = ? AND share_id = ?"

SHARES_MAX = 20
"""Links to one conversation."""


class ShareStore(TenantScope):
    """The links of one tenant."""

    async def add(self, share: Share) -> bool:
        """Adds a link; False when there is no such session, or it has as many as it may have. Expired ones go."""
        row = (share.share_id, share.created_by, share.created_at, share.expires_at)

        def write(connection: Connection) -> bool:
            connection.execute(_DROP_EXPIRED, (self._tenant_id, share.created_at))
            return connection.execute(_ADD, (*row, self._tenant_id, share.session_id, SHARES_MAX)) == 1

        return await self._database.write(write)

    async def find(self, share_id: ShareId) -> Share | None:
        """Returns the link; None when there is none, or its conversation was deleted."""
        return await self._first(_decode, _FIND, (self._tenant_id, share_id))

    async def list(self, session_id: SessionId) -> tuple[Share, ...]:
        """Returns the links to a conversation, the newest first."""
        return await self._all(_decode, _LIST, (self._tenant_id, session_id))

    async def drop(self, share_id: ShareId) -> bool:
        """Ends a link; False when there is none."""
        return await self._execute(_DROP, (self._tenant_id, share_id))


def _decode(row: tuple[Any, ...]) -> Share:
    share_id, session_id, container_id, created_by, created_at, expires_at = row
    return Share(
        share_id=share_id,
        session_id=session_id,
        container_id=container_id,
        created_by=created_by,
        created_at=created_at,
        expires_at=expires_at,
    )
