"""AuditStore — what was done in one tenant. The database itself refuses to change or drop an entry."""

from typing import Any

from agentvm.model.account import AuditEntry
from agentvm.model.ids import TenantId
from agentvm.storage.sql.connection import Connection, Database

_ADD = """
INSERT INTO audit (tenant_id, at, actor, action, target, result, address, request_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_LIST = """
SELECT position, at, tenant_id, actor, action, target, result, address, request_id
FROM audit
WHERE tenant_id = ? AND position < ?
"""
_LIST_ALL = _LIST + "ORDER BY position DESC LIMIT ?"
_LIST_OF_ACTION = _LIST + "AND action = ? ORDER BY position DESC LIMIT ?"
_POSITION_MAX = 2**63 - 1


class AuditStore:
    """The audit log of one tenant."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database.of(tenant_id)
        self._tenant_id = tenant_id

    async def add(self, entry: AuditEntry) -> None:
        what = (entry.at, entry.actor, entry.action, entry.target, entry.result, entry.address, entry.request_id)

        def write(connection: Connection) -> None:
            connection.execute(_ADD, (self._tenant_id, *what))

        await self._database.write(write)

    async def list(
        self, *, before: int | None = None, limit: int = 100, action: str | None = None
    ) -> tuple[tuple[int, AuditEntry], ...]:
        """Newest first, with their numbers; those with a number below `before`."""
        start = (self._tenant_id, _POSITION_MAX if before is None else before)

        def read(connection: Connection) -> tuple[tuple[int, AuditEntry], ...]:
            if action is None:
                found = connection.fetch(_LIST_ALL, (*start, limit))
            else:
                found = connection.fetch(_LIST_OF_ACTION, (*start, action, limit))
            return tuple((row[0], _decode_entry(row[1:])) for row in found)

        return await self._database.read(read)


def _decode_entry(row: tuple[Any, ...]) -> AuditEntry:
    at, tenant_id, actor, action, target, result, address, request_id = row
    return AuditEntry(
        at=at,
        tenant_id=tenant_id,
        actor=actor,
        action=action,
        target=target,
        result=result,
        address=address,
        request_id=request_id,
    )
