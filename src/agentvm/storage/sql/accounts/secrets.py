"""SecretStore — the sealed secrets of one tenant. What is inside is not known here."""

from agentvm.model.ids import TenantId
from agentvm.storage.sql.accounts.living import refuse_deleted
from agentvm.storage.sql.connection import Connection, Database

_PUT = """
INSERT INTO secrets (tenant_id, name, sealed, updated_at) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant_id, name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at
"""
_LIST = "SELECT name, updated_at FROM secrets WHERE tenant_id = ? ORDER BY name"


class SecretStore:
    """Sealed secrets of one tenant, by name. What is inside is not known here."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database.of(tenant_id)
        self._tenant_id = tenant_id

    async def put(self, name: str, sealed: bytes, now: int) -> None:
        """Replaces the one of the same name."""

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            connection.execute(_PUT, (self._tenant_id, name, sealed, now))

        await self._database.write(write)

    async def get(self, name: str) -> bytes | None:
        def read(connection: Connection) -> bytes | None:
            found = connection.fetch("SELECT sealed FROM secrets WHERE tenant_id = ? AND name = ?", (self._tenant_id, name))
            return bytes(found[0][0]) if found else None

        return await self._database.read(read)

    async def list(self) -> tuple[tuple[str, int], ...]:
        """Names, and when each was put."""

        def read(connection: Connection) -> tuple[tuple[str, int], ...]:
            return tuple((name, updated_at) for name, updated_at in connection.fetch(_LIST, (self._tenant_id,)))

        return await self._database.read(read)

    async def remove(self, name: str) -> bool:
        def write(connection: Connection) -> bool:
            return connection.execute("DELETE FROM secrets WHERE tenant_id = ? AND name = ?", (self._tenant_id, name)) == 1

        return await self._database.write(write)
