"""Aliases — names that clients of other protocols give to sessions: each means one session of a container."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from agentvm.errors import Conflict, SessionNotFound
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.model.session import Alias
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.records import Scope
from agentvm.storage.sql.rows import is_present

_LIVES = f"s.deleted_at IS NULL AND {is_present('s')}"
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
_STATE = """
coalesce((
    SELECT CASE WHEN t.outcome = 'failed' THEN 'failed' WHEN t.outcome IS NOT NULL THEN 'idle'
                WHEN t.parked_at IS NOT NULL THEN 'parked' ELSE 'running' END
    FROM turns AS t WHERE t.session_key = s.session_key ORDER BY t.position DESC LIMIT 1
), 'idle')
"""
"""How the newest turn of the session is."""
_NAMED = f"""
FROM aliases AS a JOIN sessions AS s USING (session_key)
WHERE a.tenant_id = ? AND a.container_id = ? AND a.gateway = ? AND {_LIVES}
"""
_HAS_MEMBER = "EXISTS (SELECT 1 FROM alias_members AS m WHERE m.alias_key = a.alias_key AND m.name = ? AND m.value = ?)"
_LIST = f"SELECT a.external, s.session_id, a.metadata, {_STATE} {_NAMED}"
_SET_METADATA = """
UPDATE aliases SET metadata = ? WHERE tenant_id = ? AND container_id = ? AND gateway = ? AND external = ?
"""
_ALIAS_KEY = "SELECT alias_key FROM aliases WHERE tenant_id = ? AND container_id = ? AND gateway = ? AND external = ?"
_DELETE_MEMBERS = "DELETE FROM alias_members WHERE alias_key = ?"
_ADD_MEMBER = "INSERT INTO alias_members (alias_key, name, value) VALUES (?, ?, ?)"

NamedState = Literal["idle", "running", "parked", "failed"]
NamedOrder = Literal["active", "created"]
_COLUMNS: dict[NamedOrder, str] = {"active": "s.active_at", "created": "a.alias_key"}


@dataclass(frozen=True, slots=True)
class NamedSession:
    """A session under a client's name for it, with the client's metadata about it."""

    external: str
    session_id: SessionId
    metadata: dict[str, Any]
    state: NamedState
    """How its newest turn is; `idle` without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedQuery:
    """A list of named sessions; every field that is not None narrows it."""

    external: str | None = None
    metadata: Mapping[str, Any] | None = None
    """Members that the metadata has, with these values."""
    state: NamedState | None = None
    order: NamedOrder = "active"
    is_ascending: bool = False
    limit: int = 1
    offset: int = 0


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

    async def list(self, gateway: str, query: NamedQuery) -> tuple[NamedSession, ...]:
        """Returns the named sessions of a gateway."""
        direction = "ASC" if query.is_ascending else "DESC"
        order = f"ORDER BY {_COLUMNS[query.order]} {direction}, a.alias_key {direction} LIMIT ? OFFSET ?"
        where, args = _narrowed(query)
        return await self._all(_named, f"{_LIST} {where} {order}", (*self._key, gateway, *args, query.limit, query.offset))

    async def count(self, gateway: str, query: NamedQuery) -> int:
        where, args = _narrowed(query)
        counted = await self._first(lambda row: int(row[0]), f"SELECT count(*) {_NAMED} {where}", (*self._key, gateway, *args))
        return counted or 0

    async def set_metadata(self, alias: Alias, metadata: Mapping[str, Any]) -> None:
        """Stores the metadata of a client's name, and each member by which it is searched."""

        def write(connection: Connection) -> None:
            connection.execute(_SET_METADATA, (msgspec.json.encode(metadata).decode(), *self._key, *alias))
            for (alias_key,) in connection.fetch(_ALIAS_KEY, (*self._key, *alias)):
                connection.execute(_DELETE_MEMBERS, (alias_key,))
                for name, value in metadata.items():
                    connection.execute(_ADD_MEMBER, (alias_key, name, _member(value)))

        await self._database.write(write)

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


def _narrowed(query: NamedQuery) -> tuple[str, tuple[Any, ...]]:
    """Returns the conditions of a query with their arguments."""
    conditions: list[str] = []
    args: list[Any] = []
    if query.external is not None:
        conditions.append("a.external = ?")
        args.append(query.external)
    if query.state is not None:
        conditions.append(f"{_STATE} = ?")
        args.append(query.state)
    for name, value in (query.metadata or {}).items():
        conditions.append(_HAS_MEMBER)
        args += (name, _member(value))
    return "".join(f" AND {condition}" for condition in conditions), tuple(args)


def _member(value: Any) -> str:
    """Returns the one text of a value, by which equal values are found."""
    return msgspec.json.encode(value, order="deterministic").decode()


def _session_id(row: tuple[str, ...]) -> SessionId:
    return SessionId(row[0])


def _named(row: tuple[Any, ...]) -> NamedSession:
    external, session_id, metadata, state = row
    return NamedSession(external, SessionId(session_id), msgspec.json.decode(metadata), state)
