"""SettingsStore — the changes of one scope. The database itself refuses to alter or drop one."""

from typing import Any

import msgspec

from agentvm.errors import Conflict
from agentvm.model.ids import TenantId
from agentvm.storage.settings import Change
from agentvm.storage.sql.accounts.living import refuse_deleted
from agentvm.storage.sql.connection import Connection, Database

_COLUMNS = "SELECT revision, at, actor, request_id, note, changes FROM setting_changes WHERE scope = ?"
_ADD = """
INSERT INTO setting_changes (scope, revision, at, actor, request_id, note, changes) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_LAST = "SELECT coalesce(max(revision), 0) FROM setting_changes WHERE scope = ?"
READ_CHANGES = f"{_COLUMNS} AND revision <= ? ORDER BY revision"
_LIST = f"{_COLUMNS} AND revision < ? ORDER BY revision DESC LIMIT ?"
_ALL = """
SELECT scope, revision, at, actor, request_id, note, changes
FROM setting_changes
WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE tenant_id = scope AND deleted_at IS NOT NULL)
ORDER BY scope, revision
"""
REVISION_MAX = 2**63 - 1

SERVER = ""
"""The scope of the server itself: no tenant has an empty id."""


class SettingsStore:
    """The changes of one scope."""

    def __init__(self, database: Database, tenant_id: TenantId | None) -> None:
        self._database = database.of(tenant_id)
        self._tenant_id = tenant_id
        self._scope = SERVER if tenant_id is None else tenant_id

    async def append(self, change: Change) -> None:
        """`Conflict` unless its revision is the next one; `NotFound` when the tenant was deleted."""
        body = msgspec.json.encode(change.changes)
        row = (self._scope, change.revision, change.at, change.actor, change.request_id, change.note, body)

        def write(connection: Connection) -> None:
            if self._tenant_id is not None:
                refuse_deleted(connection, self._tenant_id)
            last = int(connection.fetch(_LAST, (self._scope,))[0][0])
            if change.revision != last + 1:
                raise Conflict(f"The settings were changed meanwhile: they are at revision {last}; look at them and try again")
            connection.execute(_ADD, row)

        await self._database.write(write)

    async def read(self, *, until: int | None = None) -> tuple[Change, ...]:
        """From the first on, up to and with that revision."""
        wanted = (self._scope, REVISION_MAX if until is None else until)
        return await self._database.read(lambda connection: tuple(map(decode_change, connection.fetch(READ_CHANGES, wanted))))

    async def list(self, *, before: int | None = None, limit: int = 100) -> tuple[Change, ...]:
        """Newest first; those with a revision below `before`."""
        wanted = (self._scope, REVISION_MAX if before is None else before, limit)
        return await self._database.read(lambda connection: tuple(map(decode_change, connection.fetch(_LIST, wanted))))


def read_all(connection: Connection) -> tuple[tuple[TenantId | None, Change], ...]:
    """The changes of all scopes but deleted tenants', each scope's in order."""
    return tuple((TenantId(row[0]) if row[0] else None, decode_change(row[1:])) for row in connection.fetch(_ALL))


def decode_change(row: tuple[Any, ...]) -> Change:
    revision, at, actor, request_id, note, body = row
    changes = msgspec.json.decode(body, type=dict[str, object])
    return Change(revision=revision, at=at, actor=actor, request_id=request_id, note=note, changes=changes)
