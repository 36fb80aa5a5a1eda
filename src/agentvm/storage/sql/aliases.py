"""Aliases — names that clients of other protocols give to sessions: each means one session of a container."""

from agentvm.errors import Conflict, SessionNotFound
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.model.session import Alias
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.records import Scope
from agentvm.storage.sql.rows import is_here

_LIVES = f"s.deleted_at IS NULL AND {is_here('s')}"
_SESSION = "SELECT session_key FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?"
_FIND = f"""
SELECT s.session_id FROM aliases AS a JOIN sessions AS s USING (session_key)
WHERE a.tenant_id = ? AND a.container_id = ? AND a.gateway = ? AND a.external = ? AND {_LIVES}
"""
_OF_SESSION = """
SELECT a.external FROM aliases AS a JOIN sessions AS s USING (session_key)
WHERE a.tenant_id = ? AND a.container_id = ? AND a.gateway = ? AND s.session_id = ? ORDER BY a.alias_key
"""
_PUT = """
INSERT INTO aliases (tenant_id, container_id, gateway, external, session_key, created_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, container_id, gateway, external) DO UPDATE
SET session_key = excluded.session_key, created_at = excluded.created_at
"""
_DELETE = "DELETE FROM aliases WHERE tenant_id = ? AND container_id = ? AND gateway = ? AND external = ?"


class AliasStore(Scope):
    """The aliases of one container."""

    __slots__ = ("_key",)

    def __init__(self, database: Database, key: tuple[TenantId, ContainerId]) -> None:
        super().__init__(database)
        self._key = key

    async def find(self, alias: Alias) -> SessionId | None:
        return await self._first(_session_id, _FIND, (*self._key, *alias))

    async def of_session(self, gateway: str, session_id: SessionId) -> tuple[str, ...]:
        """Returns the names of a session, the oldest first."""
        return await self._all(lambda row: str(row[0]), _OF_SESSION, (*self._key, gateway, session_id))

    async def take(self, alias: Alias) -> SessionId | None:
        """Returns the session of the name, which means nothing from then on: of two takers one has it."""

        def write(connection: Connection) -> SessionId | None:
            rows = connection.fetch(_FIND, (*self._key, *alias))
            connection.execute(_DELETE, (*self._key, *alias))
            return _session_id(rows[0]) if rows else None

        return await self._database.write(write)

    async def put(self, alias: Alias, session_id: SessionId, now: int) -> None:
        """Gives the name to the session, whichever had it; `SessionNotFound` when the session is gone."""
        await self._database.write(lambda connection: _put(connection, self._key, alias, session_id, now))


def insert_alias(
    connection: Connection, key: tuple[TenantId, ContainerId], alias: Alias, session_id: SessionId, now: int
) -> None:
    """Gives a name to a session; `Conflict` when it means another that can be used."""
    if connection.fetch(_FIND, (*key, *alias)):
        raise Conflict("Another session has this name already")
    _put(connection, key, alias, session_id, now)


def _put(connection: Connection, key: tuple[TenantId, ContainerId], alias: Alias, session_id: SessionId, now: int) -> None:
    rows = connection.fetch(_SESSION, (*key, session_id))
    if not rows:
        raise SessionNotFound(session_id)
    connection.execute(_PUT, (*key, *alias, rows[0][0], now))


def _session_id(row: tuple[str, ...]) -> SessionId:
    return SessionId(row[0])
