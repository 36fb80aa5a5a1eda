"""MemoryStore — the memories of one container, bounded in number."""

from collections.abc import Sequence

import msgspec

from agentvm.errors import ContainerNotFound
from agentvm.errors.memory import TooManyMemories
from agentvm.model.ids import MessageId
from agentvm.model.memory import MEMORIES_MAX, Memory, MemoryId
from agentvm.storage.sql import rows
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import items_of
from agentvm.storage.sql.records import Columns, Scope

_MEMORY = Columns(Memory)
_OF = "tenant_id = ? AND container_id = ?"
_LIST = f"SELECT {_MEMORY.text} FROM memories WHERE {_OF} AND {rows.is_present('memories')} ORDER BY position DESC"
_COUNT = f"SELECT count(*) FROM memories WHERE {_OF} AND memory_id <> ?"
_PUT = f"""
INSERT INTO memories (tenant_id, container_id, {_MEMORY.text}) VALUES (?, ?, {_MEMORY.marks})
ON CONFLICT (tenant_id, container_id, memory_id) DO UPDATE
SET text = excluded.text, by = excluded.by, proposed = excluded.proposed, pinned = excluded.pinned,
    updated_at = excluded.updated_at
"""
_ADD_ARRIVING = f"""
INSERT INTO memories (tenant_id, container_id, arrival_key, {_MEMORY.text}) VALUES (?, ?, ?, {_MEMORY.marks})
ON CONFLICT (tenant_id, container_id, memory_id) DO NOTHING
"""
_DELETE = f"DELETE FROM memories WHERE {_OF} AND memory_id = ?"
_TAKE_BACK = f"""
DELETE FROM memories
WHERE (tenant_id, container_id, session_id) IN (
    SELECT tenant_id, container_id, session_id FROM sessions WHERE session_key = ?
) AND by = 'agent' AND message_id IN ({items_of("?")})
"""


class MemoryStore(Scope):
    """The memories of one container."""

    def __init__(self, database: Database, key: rows.Key) -> None:
        super().__init__(database)
        self._key = key

    async def list(self) -> tuple[Memory, ...]:
        """Returns all memories, proposed ones as well, the newest first."""
        return await self._all(_MEMORY.decode, _LIST, self._key)

    async def put(self, memory: Memory) -> None:
        """Adds a memory, or changes the one with its id, which keeps its source and age. `TooManyMemories` beyond the bound."""
        row = _MEMORY.encode(memory)

        def write(connection: Connection) -> None:
            if not connection.fetch(rows.CONTAINER, self._key):
                raise ContainerNotFound(self._key[1])
            _check_room(connection, self._key, memory)
            connection.execute(_PUT, (*self._key, *row))

        await self._database.write(write)

    async def delete(self, memory_id: MemoryId) -> bool:
        """Returns whether there was such a memory."""
        return await self._execute(_DELETE, (*self._key, memory_id))


def add_arriving_memory(connection: Connection, key: rows.Key, memory: Memory, arrival_key: int) -> None:
    """Adds a memory of an import, hidden until that is published, unless there is one of its id."""
    _check_room(connection, key, memory)
    connection.execute(_ADD_ARRIVING, (*key, arrival_key, *_MEMORY.encode(memory)))


def _check_room(connection: Connection, key: rows.Key, memory: Memory) -> None:
    if connection.fetch(_COUNT, (*key, memory.memory_id))[0][0] >= MEMORIES_MAX:
        raise TooManyMemories(MEMORIES_MAX)


def remove_rewound_memories(connection: Connection, session_key: int, message_ids: Sequence[MessageId]) -> None:
    """Deletes the memories that an agent has written in messages that are rewound."""
    connection.execute(_TAKE_BACK, (session_key, msgspec.json.encode(message_ids).decode()))
