"""BrowserSessionStore — the browsers that are signed in to one tenant. Of a cookie only its digest is here."""

from collections.abc import Sequence

from agentvm.model.account import BrowserSession
from agentvm.model.ids import BrowserSessionId, KeyId, UserId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ROWS_MAX, greater
from agentvm.storage.sql.records import Columns, TenantScope
from agentvm.storage.sql.rows import refuse_deleted

BROWSER_SESSIONS_MAX = 50
"""Sessions of one key; the ones used longest ago end for new ones."""
IDLE_DROPPED_MAX = 100
"""Sessions not used for long that go with one new session."""

_SESSION, _STORED = Columns(BrowserSession, without=("tenant_id",)), Columns(BrowserSession)
# Over all tenants: the cookie is all that a browser has, and the row names the tenant.
FIND_BROWSER_SESSION = f"SELECT {_STORED.text} FROM browser_sessions WHERE digest = ?"
decode_browser_session = _STORED.decode
_ADD = f"INSERT INTO browser_sessions (tenant_id, digest, {_SESSION.text}) VALUES (?, ?, {_SESSION.marks})"
_OWN = "CASE WHEN CAST(?2 AS TEXT) IS NULL THEN user_id IS NULL AND key_id = ?3 ELSE user_id = ?2 END"
_LIST = f"""
SELECT {_STORED.text} FROM browser_sessions
WHERE tenant_id = ?1 AND {_OWN} AND last_used_at > ?4 AND EXISTS (
    SELECT 1 FROM api_keys AS k
    WHERE k.key_id = browser_sessions.key_id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > ?5)
)
ORDER BY last_used_at DESC, position DESC
"""
_DROP = f"DELETE FROM browser_sessions WHERE tenant_id = ?1 AND browser_session_id = ?4 AND {_OWN}"
_DROP_IDLE = f"""
DELETE FROM browser_sessions WHERE position IN (
    SELECT position FROM browser_sessions WHERE tenant_id = ? AND last_used_at <= ? LIMIT {IDLE_DROPPED_MAX}
)
"""
_DROP_SURPLUS = f"""
DELETE FROM browser_sessions WHERE position IN (
    SELECT position FROM browser_sessions WHERE tenant_id = ? AND key_id = ?
    ORDER BY last_used_at DESC, position DESC LIMIT {ROWS_MAX} OFFSET {BROWSER_SESSIONS_MAX}
) RETURNING browser_session_id
"""
_TOUCH = f"""
UPDATE browser_sessions SET last_used_at = {greater("last_used_at", "?1")} WHERE tenant_id = ?2 AND browser_session_id = ?3
"""


class BrowserSessionStore(TenantScope):
    """The sessions of one tenant. Those of a user are the user's; those of a key without a user are the key's."""

    async def add(self, session: BrowserSession, digest: bytes, idle_since: int) -> tuple[BrowserSessionId, ...]:
        """Adds a session and drops those not used since `idle_since`; returns the sessions of the key that end for it."""

        def write(connection: Connection) -> tuple[BrowserSessionId, ...]:
            refuse_deleted(connection, self._tenant_id)
            connection.execute(_DROP_IDLE, (self._tenant_id, idle_since))
            connection.execute(_ADD, (self._tenant_id, digest, *_SESSION.encode(session)))
            surplus = connection.fetch(_DROP_SURPLUS, (self._tenant_id, session.key_id))
            return tuple(BrowserSessionId(name) for (name,) in surplus)

        return await self._database.write(write)

    async def list(
        self, user_id: UserId | None, key_id: KeyId | None, *, idle_since: int, now: int
    ) -> tuple[BrowserSession, ...]:
        """Returns the sessions of a user, or of a key without a user, that can still be used; the last used first."""
        return await self._all(_STORED.decode, _LIST, (self._tenant_id, user_id, key_id, idle_since, now))

    async def drop(self, user_id: UserId | None, key_id: KeyId | None, session_id: BrowserSessionId) -> bool:
        """Ends a session of a user, or of a key without a user; False when there is no such session."""
        return await self._execute(_DROP, (self._tenant_id, user_id, key_id, session_id))

    async def touch(self, used: Sequence[tuple[BrowserSessionId, int]]) -> None:
        """Stores when sessions were last used; many at once, because it is not worth a commit each."""
        rows = [(at, self._tenant_id, session_id) for session_id, at in used]
        await self._database.write(lambda connection: connection.many(_TOUCH, rows))
