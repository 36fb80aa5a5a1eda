"""DefinitionStore — the definitions that one tenant has registered."""

import msgspec

from agentvm.errors import Refused
from agentvm.model.definition import Definition
from agentvm.model.ids import TenantId
from agentvm.storage.sql.accounts.living import refuse_deleted
from agentvm.storage.sql.connection import Connection, Database

_GET = "SELECT body FROM definitions WHERE tenant_id = ? AND name = ?"
_LIST = "SELECT body FROM definitions WHERE tenant_id = ? ORDER BY created_at, name"
_USED = "SELECT count(*), coalesce(sum(size), 0) FROM definitions WHERE tenant_id = ?"
_ADD = "INSERT INTO definitions (tenant_id, name, body, size, created_at) VALUES (?, ?, ?, ?, ?)"


class DefinitionStore:
    """The definitions of one tenant, by name."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database.of(tenant_id)
        self._tenant_id = tenant_id

    async def add(self, definition: Definition, now: int, *, count_max: int, bytes_max: int) -> Definition:
        """Stores it, or returns the one that has its name already.

        `Refused` when the tenant would have more than so many, or more bytes of them; `NotFound` when the tenant was deleted.
        """
        body = msgspec.json.encode(definition)

        def write(connection: Connection) -> Definition:
            refuse_deleted(connection, self._tenant_id)
            known = self._find(connection, definition.name)
            if known is not None:
                return known
            count, size = connection.fetch(_USED, (self._tenant_id,))[0]
            if count >= count_max:
                raise Refused(f"{count_max} definitions are registered already, and there may be no more")
            if size + len(body) > bytes_max:
                raise Refused(f"All registered definitions together may have {bytes_max} bytes; this one would exceed that")
            connection.execute(_ADD, (self._tenant_id, definition.name, body, len(body), now))
            return definition

        return await self._database.write(write)

    async def get(self, name: str) -> Definition | None:
        return await self._database.read(lambda connection: self._find(connection, name))

    async def list(self) -> tuple[Definition, ...]:
        """In the order in which they were registered."""

        def read(connection: Connection) -> tuple[Definition, ...]:
            return tuple(_decode(row[0]) for row in connection.fetch(_LIST, (self._tenant_id,)))

        return await self._database.read(read)

    def _find(self, connection: Connection, name: str) -> Definition | None:
        rows = connection.fetch(_GET, (self._tenant_id, name))
        return _decode(rows[0][0]) if rows else None


def _decode(body: bytes) -> Definition:
    return msgspec.json.decode(body, type=Definition)
