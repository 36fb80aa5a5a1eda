"""SecretStore — the sealed secrets of one tenant, by name. Their content is not known here."""

from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import TenantScope
from agentvm.storage.sql.rows import refuse_deleted

_PUT = """
INSERT INTO secrets (tenant_id, name, sealed, updated_at) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant_id, name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at
"""
_GET = "SELECT sealed FROM secrets WHERE tenant_id = ? AND name = ?"
_LIST = "SELECT name, updated_at FROM secrets WHERE tenant_id = ? ORDER BY name"
_REMOVE = "DELETE FROM secrets WHERE tenant_id = ? AND name = ?"
_REMOVE_GRANTS = "DELETE FROM secret_grants WHERE tenant_id = ? AND secret = ?"


class SecretStore(TenantScope):
    """Sealed secrets of one tenant."""

    async def put(self, name: str, sealed: bytes, now: int) -> None:
        """Replaces the one of the same name."""

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            connection.execute(_PUT, (self._tenant_id, name, sealed, now))

        await self._database.write(write)

    async def get(self, name: str) -> bytes | None:
        return await self._first(lambda row: bytes(row[0]), _GET, (self._tenant_id, name))

    async def list(self) -> tuple[tuple[str, int], ...]:
        """Names, and when each was put."""
        return await self._all(tuple[str, int], _LIST, (self._tenant_id,))

    async def remove(self, name: str) -> bool:
        """Removes a secret and its grants: a new secret of the same name has no grants."""

        def write(connection: Connection) -> bool:
            connection.execute(_REMOVE_GRANTS, (self._tenant_id, name))
            return connection.execute(_REMOVE, (self._tenant_id, name)) > 0

        return await self._database.write(write)
