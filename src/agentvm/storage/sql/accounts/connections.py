"""ConnectionStore — the consents of a tenant's users to act for them on MCP servers. The content is sealed."""

from typing import NamedTuple

from agentvm.errors import Conflict, not_found
from agentvm.model.ids import UserId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import TenantScope
from agentvm.storage.sql.rows import refuse_deleted

CONNECTIONS_MAX = 200
"""Servers of one user."""
CONSENTS_MAX = 20
"""Consents of one user that are waited for; the oldest are forgotten."""

_PUT = """
INSERT INTO mcp_connections (tenant_id, user_id, server, state, sealed, connected, changed_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, user_id, server, state) DO UPDATE
SET sealed = excluded.sealed, connected = excluded.connected, changed_at = excluded.changed_at
"""
_GET = "SELECT sealed FROM mcp_connections WHERE tenant_id = ? AND user_id = ? AND server = ? AND state = ''"
_LIST = """
SELECT server, changed_at FROM mcp_connections
WHERE tenant_id = ? AND user_id = ? AND state = '' AND connected = 1 ORDER BY server LIMIT ?
"""
_COUNT = "SELECT count(*) FROM mcp_connections WHERE tenant_id = ? AND user_id = ? AND state = ''"
_REMOVE = "DELETE FROM mcp_connections WHERE tenant_id = ? AND user_id = ? AND server = ?"
_CONSENT = """
SELECT user_id, server, sealed FROM mcp_connections WHERE tenant_id = ? AND state = ? AND state <> '' AND expires_at > ?
"""
_STATES = "SELECT state FROM mcp_connections WHERE tenant_id = ? AND user_id = ? AND server = ? AND state <> ''"
_DROP = "DELETE FROM mcp_connections WHERE tenant_id = ? AND user_id = ? AND server = ? AND state <> ''"
_TAKE = "DELETE FROM mcp_connections WHERE tenant_id = ? AND state = ? AND state <> ''"
_TRIM = """
DELETE FROM mcp_connections WHERE tenant_id = ?1 AND user_id = ?2 AND state <> '' AND (expires_at <= ?3 OR position NOT IN (
    SELECT position FROM mcp_connections WHERE tenant_id = ?1 AND user_id = ?2 AND state <> '' ORDER BY position DESC LIMIT ?4
))
"""
_USER = "SELECT 1 FROM users WHERE tenant_id = ? AND user_id = ? AND deleted_at IS NULL"


class Consent(NamedTuple):
    """A consent that is waited for."""

    user_id: str
    server: str
    sealed: bytes


class ConnectionStore(TenantScope):
    """Connections to MCP servers, by user and server. An empty user stands for all users of a server without authentication."""

    async def put(self, user_id: str, server: str, sealed: bytes, now: int, *, connected: bool = True) -> None:
        """Replaces the one of the same user and server; `Conflict` when the user has too many."""

        def write(connection: Connection) -> None:
            self._check_user(connection, user_id)
            connection.execute(_PUT, (self._tenant_id, user_id, server, "", sealed, int(connected), now, None))
            if connection.fetch(_COUNT, (self._tenant_id, user_id))[0][0] > CONNECTIONS_MAX:
                raise Conflict(f"A user is connected to at most {CONNECTIONS_MAX} MCP servers: disconnect some first")

        await self._database.write(write)

    def _check_user(self, connection: Connection, user_id: str) -> None:
        """Refuses a user that is gone: an answer on its way must not bring anything of him back."""
        refuse_deleted(connection, self._tenant_id)
        if user_id and not connection.fetch(_USER, (self._tenant_id, user_id)):
            raise not_found("User", user_id)

    async def get(self, user_id: str, server: str) -> bytes | None:
        return await self._first(lambda row: bytes(row[0]), _GET, (self._tenant_id, user_id, server))

    async def list(self, user_id: UserId | str) -> tuple[tuple[str, int], ...]:
        """Servers that a user is connected to, and since when."""
        return await self._all(tuple[str, int], _LIST, (self._tenant_id, user_id, CONNECTIONS_MAX))

    async def remove(self, user_id: str, server: str) -> bool:
        """Removes a connection, and the consents that are waited for."""
        return await self._execute(_REMOVE, (self._tenant_id, user_id, server))

    async def put_consent(self, state: str, consent: Consent, now: int, expires_at: int) -> None:
        """Stores a consent that is waited for, under the digest of its state."""

        def write(connection: Connection) -> None:
            self._check_user(connection, consent.user_id)
            about = (consent.user_id, consent.server, state, consent.sealed)
            connection.execute(_PUT, (self._tenant_id, *about, 0, now, expires_at))
            connection.execute(_TRIM, (self._tenant_id, consent.user_id, now, CONSENTS_MAX))

        await self._database.write(write)

    async def find_consent(self, state: str, now: int) -> Consent | None:
        return await self._first(lambda row: Consent(row[0], row[1], bytes(row[2])), _CONSENT, (self._tenant_id, state, now))

    async def take_consent(self, state: str, now: int) -> Consent | None:
        """Returns a consent and removes it: of two requests with the same state one gets it."""

        def write(connection: Connection) -> Consent | None:
            rows = connection.fetch(_CONSENT, (self._tenant_id, state, now))
            was_taken = connection.execute(_TAKE, (self._tenant_id, state)) > 0
            return Consent(rows[0][0], rows[0][1], bytes(rows[0][2])) if rows and was_taken else None

        return await self._database.write(write)

    async def drop_consents(self, user_id: str, server: str) -> None:
        """Forgets the consents of a user to a server that are waited for."""
        await self._execute(_DROP, (self._tenant_id, user_id, server))

    async def states(self, user_id: str, server: str) -> frozenset[str]:
        """Digests of the states of all consents of a user to a server that are waited for."""
        rows = await self._all(lambda row: str(row[0]), _STATES, (self._tenant_id, user_id, server))
        return frozenset(rows)
