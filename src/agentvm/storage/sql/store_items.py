"""StoreItems — the items that clients keep in one container, bounded in number and size.

A namespace is stored with a full stop behind each label, so that those below it are one range of the index. A value is stored
with one line for each of its members, so that a member is found as a part of the text.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agentvm.errors import ContainerNotFound, Unprocessable
from agentvm.model.store_item import STORE_ITEMS_MAX, VALUE_MAX_BYTES, Namespace, StoreItem
from agentvm.storage.sql import rows
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import contains
from agentvm.storage.sql.records import Scope

ITEM_ROW_BYTES = 100
"""Approximate size of a row besides its texts, with its index entries."""
SIZE = f"octet_length(namespace) + octet_length(item_key) + octet_length(members) + {ITEM_ROW_BYTES}"
"""The bytes that an item counts for."""

# None of a container that is being erased.
_OF = """
FROM store_items AS i WHERE tenant_id = ? AND container_id = ? AND EXISTS (
    SELECT 1 FROM containers AS c
    WHERE c.tenant_id = i.tenant_id AND c.container_id = i.container_id AND c.deleted_at IS NULL
)
"""
_COLUMNS = "namespace, item_key, members, created_at, updated_at"
_SEARCH = f"SELECT {_COLUMNS} {_OF}"
_GET = f"{_SEARCH} AND namespace = ? AND item_key = ?"
_BELOW = " AND namespace >= ? AND namespace < ?"
_HAS_MEMBER = f" AND {contains('members', '?')}"
_PAGE = "ORDER BY updated_at DESC, position DESC LIMIT ? OFFSET ?"
_NAMESPACES = f"SELECT DISTINCT namespace {_OF} ORDER BY namespace"
_COUNT = "SELECT count(*) FROM store_items WHERE tenant_id = ? AND container_id = ?"
_SIZE_OF = f"SELECT {SIZE} FROM store_items WHERE tenant_id = ? AND container_id = ? AND namespace = ? AND item_key = ?"
_PUT = f"""
INSERT INTO store_items (tenant_id, container_id, {_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, container_id, namespace, item_key) DO UPDATE
SET members = excluded.members, updated_at = excluded.updated_at
"""
_DELETE = f"""
DELETE FROM store_items WHERE tenant_id = ? AND container_id = ? AND namespace = ? AND item_key = ? RETURNING {SIZE}
"""


class StoreItems(Scope):
    """The items of one container."""

    __slots__ = ("_key",)

    def __init__(self, database: Database, key: rows.Key) -> None:
        super().__init__(database)
        self._key = key

    async def get(self, namespace: Namespace, key: str) -> StoreItem | None:
        return await self._first(_item, _GET, (*self._key, _text(namespace), key))

    async def put(self, item: StoreItem) -> int:
        """Adds an item, or changes the one of its name, which keeps its age; returns the bytes that this has replaced.

        `Unprocessable` for a value that is too large, and for one more item than a container may have.
        """
        place = (*self._key, _text(item.namespace), item.key)
        row = (*place, _members(item.value), item.created_at, item.updated_at)

        def write(connection: Connection) -> int:
            if not connection.fetch(rows.CONTAINER, self._key):
                raise ContainerNotFound(self._key[1])
            replaced = connection.fetch(_SIZE_OF, place)
            if not replaced and connection.fetch(_COUNT, self._key)[0][0] >= STORE_ITEMS_MAX:
                raise Unprocessable(f"The store of a container has at most {STORE_ITEMS_MAX:,} items; delete some first")
            connection.execute(_PUT, row)
            return sum(size for (size,) in replaced)

        return await self._database.write(write)

    async def delete(self, namespace: Namespace, key: str) -> int:
        """Returns the bytes that this has freed; 0 without such an item."""
        place = (*self._key, _text(namespace), key)
        return await self._database.write(lambda connection: sum(size for (size,) in connection.fetch(_DELETE, place)))

    async def search(self, prefix: Namespace, members: Mapping[str, Any], *, limit: int, offset: int) -> tuple[StoreItem, ...]:
        """Returns the items below a namespace whose values have these members, the last changed first."""
        below = _text(prefix)
        where = f"{_BELOW if prefix else ''}{_HAS_MEMBER * len(members)}"
        lines = [f"\n{_line(name, value)}\n" for name, value in members.items()]
        args = (*self._key, *((below, f"{below[:-1]}/") if prefix else ()), *lines, limit, offset)

        def read(connection: Connection) -> tuple[StoreItem, ...]:
            return tuple(map(_item, connection.fetch(f"{_SEARCH}{where} {_PAGE}", args)))

        return await self._database.read(read, heavy=True)

    async def list_namespaces(self) -> tuple[Namespace, ...]:
        """Returns the namespaces that have items, in order."""
        return await self._all(lambda row: _labels(row[0]), _NAMESPACES, self._key)


def size_of(item: StoreItem) -> int:
    """Returns the bytes that an item counts for."""
    texts = (_text(item.namespace), item.key, _members(item.value))
    return sum(len(text.encode()) for text in texts) + ITEM_ROW_BYTES


def _text(namespace: Namespace) -> str:
    return "".join(f"{label}." for label in namespace)


def _labels(text: str) -> Namespace:
    return tuple(text.split(".")[:-1])


def _members(value: Mapping[str, Any]) -> str:
    members = "".join(f"{_line(name, member)}\n" for name, member in value.items())
    if len(members.encode()) > VALUE_MAX_BYTES:
        raise Unprocessable(f"value has at most {VALUE_MAX_BYTES:,} bytes")
    return f"\n{members}"


def _line(name: str, value: Any) -> str:
    """Returns the one text of a member, in which no line ends: JSON writes that as an escape."""
    return msgspec.json.encode({name: value}, order="deterministic").decode()[1:-1]


def _item(row: tuple[Any, ...]) -> StoreItem:
    namespace, key, members, created_at, updated_at = row
    value = msgspec.json.decode("{" + members.strip("\n").replace("\n", ",") + "}")
    return StoreItem(namespace=_labels(namespace), key=key, value=value, created_at=created_at, updated_at=updated_at)
