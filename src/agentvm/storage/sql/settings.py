"""SettingsStore — the changes of one scope. The database itself refuses to alter or drop one."""

from agentvm.errors import Conflict
from agentvm.model.ids import TenantId
from agentvm.storage.settings import Change
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.records import Columns, Scope
from agentvm.storage.sql.rows import refuse_deleted

_CHANGE = Columns(Change)
_CHANGES = f"SELECT {_CHANGE.text} FROM setting_changes WHERE scope = ?"
_ADD = f"INSERT INTO setting_changes (scope, {_CHANGE.text}) VALUES (?, {_CHANGE.marks})"
_LAST = "SELECT coalesce(max(revision), 0) FROM setting_changes WHERE scope = ?"
READ_CHANGES = f"{_CHANGES} AND revision <= ? ORDER BY revision"
_LIST = f"{_CHANGES} AND revision < ? ORDER BY revision DESC LIMIT ?"
_ALL = f"""
SELECT scope, {_CHANGE.text} FROM setting_changes
WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE tenant_id = scope AND deleted_at IS NOT NULL)
ORDER BY scope, revision
"""
REVISION_MAX = 2**63 - 1

SERVER = ""
"""The scope of the server itself: no tenant has an empty id."""


class SettingsStore(Scope):
    """The changes of one scope."""

    def __init__(self, database: Database, tenant_id: TenantId | None) -> None:
        super().__init__(database.of(tenant_id))
        self._tenant_id = tenant_id
        self._scope = SERVER if tenant_id is None else tenant_id

    async def append(self, change: Change) -> None:
        """`Conflict` unless its revision is the next one; `NotFound` when the tenant was deleted."""

        def write(connection: Connection) -> None:
            if self._tenant_id is not None:
                refuse_deleted(connection, self._tenant_id)
            last = int(connection.fetch(_LAST, (self._scope,))[0][0])
            if change.revision != last + 1:
                raise Conflict(f"The settings were changed in the meantime, to revision {last}; read them and try again")
            connection.execute(_ADD, (self._scope, *_CHANGE.encode(change)))

        await self._database.write(write)

    async def read(self, *, until: int | None = None) -> tuple[Change, ...]:
        """From the first on, up to and with that revision."""
        return await self._all(decode_change, READ_CHANGES, (self._scope, REVISION_MAX if until is None else until))

    async def list(self, *, before: int | None = None, limit: int = 100) -> tuple[Change, ...]:
        """Newest first; those with a revision below `before`."""
        return await self._all(decode_change, _LIST, (self._scope, REVISION_MAX if before is None else before, limit))


def read_all(connection: Connection) -> tuple[tuple[TenantId | None, Change], ...]:
    """The changes of all scopes but deleted tenants', each scope's in order."""
    return tuple((TenantId(row[0]) if row[0] else None, decode_change(row[1:])) for row in connection.fetch(_ALL))


decode_change = _CHANGE.decode
"""Decodes a row of `READ_CHANGES`."""
