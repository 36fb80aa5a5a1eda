"""SqliteStore — the door to the database: a tenant first, then one of its containers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw

from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId
from agentvm.storage.sqlite.container import SqliteContainerStore
from agentvm.storage.sqlite.database import DEFAULT_CAPACITY, DEFAULT_READERS, Database, open_database


class SqliteTenantStore:
    """One tenant: finds in which of its containers a thing lives, and nothing more."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database
        self._tenant_id = tenant_id

    def container(self, container_id: ContainerId) -> SqliteContainerStore:
        return SqliteContainerStore(self._database, self._tenant_id, container_id)

    async def list_containers(self) -> tuple[ContainerId, ...]:
        def read(connection: apsw.Connection) -> tuple[ContainerId, ...]:
            rows = connection.execute(
                "SELECT container_id FROM containers WHERE tenant_id = ? ORDER BY created_at, position",
                (self._tenant_id,),
            )
            return tuple(ContainerId(container_id) for (container_id,) in rows)

        return await self._database.read(read)

    async def find_image(self, image_id: ImageId) -> ContainerId | None:
        return await self._find("SELECT container_id FROM images WHERE tenant_id = ? AND image_id = ?", image_id)

    async def find_session(self, session_id: SessionId) -> ContainerId | None:
        return await self._find("SELECT container_id FROM sessions WHERE tenant_id = ? AND session_id = ?", session_id)

    async def _find(self, query: str, wanted: str) -> ContainerId | None:
        def read(connection: apsw.Connection) -> ContainerId | None:
            rows = connection.execute(query, (self._tenant_id, wanted)).fetchall()
            return ContainerId(str(rows[0][0])) if rows else None

        return await self._database.read(read)


class SqliteStore:
    """A whole database, see `agentvm.storage.base.Store`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def tenant(self, tenant_id: TenantId) -> SqliteTenantStore:
        return SqliteTenantStore(self._database, tenant_id)


@asynccontextmanager
async def open_store(
    path: Path | None, *, readers: int = DEFAULT_READERS, capacity: int = DEFAULT_CAPACITY
) -> AsyncGenerator[SqliteStore]:
    """The store in the given file, created and migrated as needed; in memory for None. Leaving it flushes and closes."""
    async with open_database(path, readers=readers, capacity=capacity) as database:
        yield SqliteStore(database)
