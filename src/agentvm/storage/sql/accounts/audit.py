"""AuditStore — the audit log of one tenant. The database itself refuses to change or drop an entry."""

from agentvm.model.account import AuditEntry
from agentvm.model.ids import TenantId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import Columns, TenantScope

_ENTRY, _STORED = Columns(AuditEntry, without=("tenant_id",)), Columns(AuditEntry)
_ADD = f"INSERT INTO audit (tenant_id, {_ENTRY.text}) VALUES (?, {_ENTRY.marks})"
_LIST = f"SELECT position, {_STORED.text} FROM audit WHERE tenant_id = ? AND position < ?"
_LIST_ALL = f"{_LIST} ORDER BY position DESC LIMIT ?"
_LIST_OF_ACTION = f"{_LIST} AND action = ? ORDER BY position DESC LIMIT ?"
_POSITION_MAX = 2**63 - 1


class AuditStore(TenantScope):
    """The audit log of one tenant."""

    async def add(self, entry: AuditEntry) -> None:
        await self._execute(_ADD, (self._tenant_id, *_ENTRY.encode(entry)))

    async def list(
        self, *, before: int | None = None, limit: int = 100, action: str | None = None
    ) -> tuple[tuple[int, AuditEntry], ...]:
        """Newest first, with their numbers; those with a number below `before`."""
        start = (self._tenant_id, _POSITION_MAX if before is None else before)
        query, args = (_LIST_ALL, (*start, limit)) if action is None else (_LIST_OF_ACTION, (*start, action, limit))
        return await self._all(lambda row: (row[0], _STORED.decode(row[1:])), query, args)


def add_entry(connection: Connection, tenant_id: TenantId, entry: AuditEntry) -> None:
    """Adds an entry in the commit of its action."""
    connection.execute(_ADD, (tenant_id, *_ENTRY.encode(entry)))
