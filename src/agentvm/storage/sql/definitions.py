"""DefinitionStore — the definitions that one tenant has registered."""

from typing import Any

import msgspec

from agentvm.errors import Refused
from agentvm.model.definition import Definition
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import total
from agentvm.storage.sql.records import TenantScope
from agentvm.storage.sql.rows import refuse_deleted

_GET = "SELECT body FROM definitions WHERE tenant_id = ? AND name = ?"
_LIST = "SELECT body FROM definitions WHERE tenant_id = ? ORDER BY created_at, name"
_USED = f"SELECT count(*), {total('size')} FROM definitions WHERE tenant_id = ?"
_ADD = "INSERT INTO definitions (tenant_id, name, body, size, created_at) VALUES (?, ?, ?, ?, ?)"


class DefinitionStore(TenantScope):
    """The definitions of one tenant, by name."""

    async def add(self, definition: Definition, now: int, *, count_max: int, bytes_max: int) -> Definition:
        """Stores a definition, or returns the one that has its name already.

        `Refused` when the tenant would have more than so many, or more bytes of them; `NotFound` when the tenant was deleted.
        """
        body = msgspec.json.encode(definition)

        def write(connection: Connection) -> Definition:
            refuse_deleted(connection, self._tenant_id)
            for registered in connection.fetch(_GET, (self._tenant_id, definition.name)):
                return _decode(registered)
            count, size = connection.fetch(_USED, (self._tenant_id,))[0]
            if count >= count_max:
                raise Refused(f"{count_max} definitions are registered already, the maximum")
            if size + len(body) > bytes_max:
                raise Refused(f"All registered definitions together may have {bytes_max} bytes; this one would exceed that")
            connection.execute(_ADD, (self._tenant_id, definition.name, body, len(body), now))
            return definition

        return await self._database.write(write)

    async def get(self, name: str) -> Definition | None:
        return await self._first(_decode, _GET, (self._tenant_id, name))

    async def list(self) -> tuple[Definition, ...]:
        """Definitions in the order of their registration."""
        return await self._all(_decode, _LIST, (self._tenant_id,))


def _decode(row: tuple[Any, ...]) -> Definition:
    return msgspec.json.decode(row[0], type=Definition)
