"""Container names — the containers of one tenant, of which there may be a million: all, a page, or those of certain names."""

from collections.abc import Sequence
from typing import Any

from agentvm.model.ids import ContainerId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.places import read_place, write_place
from agentvm.storage.sql.records import TenantScope
from agentvm.storage.sql.rows import is_present

_OF_TENANT = f"tenant_id = ? AND deleted_at IS NULL AND {is_present('containers')}"

PlacedContainer = tuple[ContainerId, tuple[int, int]]
"""A container with its place in lists: its age, and its number."""


def read_container_place(cursor: str | None) -> tuple[int, int]:
    """Returns the place that a page of containers begins after; `InvalidInput` for another cursor."""
    return (0, 0) if cursor is None else read_place(cursor, tuple[int, int])


def container_id_of(row: Sequence[Any]) -> ContainerId:
    return ContainerId(row[0])


class ContainerNames(TenantScope):
    """The containers of a tenant, by age or by name."""

    __slots__ = ()

    async def list_containers(self) -> tuple[ContainerId, ...]:
        """Oldest first."""
        query = f"SELECT container_id FROM containers WHERE {_OF_TENANT} ORDER BY created_at, position"
        return await self._all(container_id_of, query, (self._tenant_id,))

    async def find_containers(self, ranges: Sequence[tuple[str, str]]) -> tuple[PlacedContainer, ...]:
        """Finds names in ranges, oldest first. The others are not read: there may be a million."""
        query = f"SELECT container_id, created_at, position FROM containers WHERE {_OF_TENANT} AND container_id BETWEEN ? AND ?"

        def read(connection: Connection) -> set[PlacedContainer]:
            rows = (row for least, most in ranges for row in connection.fetch(query, (self._tenant_id, least, most)))
            return {(container_id_of(row), (row[1], row[2])) for row in rows}

        return tuple(sorted(await self._database.read(read), key=lambda placed: placed[1]))

    async def next_containers(self, after: str, limit: int) -> tuple[ContainerId, ...]:
        """So many after a name, by name."""
        query = f"SELECT container_id FROM containers WHERE {_OF_TENANT} AND container_id > ? ORDER BY container_id LIMIT ?"
        return await self._all(container_id_of, query, (self._tenant_id, after, limit))

    async def page_containers(self, cursor: str | None, limit: int) -> tuple[tuple[ContainerId, ...], str | None]:
        """A page of them, oldest first, and the cursor of the next page if there is one. `InvalidInput` for another cursor."""
        place = read_container_place(cursor)
        query = (
            f"SELECT container_id, created_at, position FROM containers WHERE {_OF_TENANT}"
            " AND (created_at, position) > (?, ?) ORDER BY created_at, position LIMIT ?"
        )
        rows = await self._all(tuple[Any, ...], query, (self._tenant_id, *place, limit + 1))
        more = write_place(*rows[limit - 1][1:]) if len(rows) > limit else None
        return tuple(map(container_id_of, rows[:limit])), more
