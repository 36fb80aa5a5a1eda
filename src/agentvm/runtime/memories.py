"""Memories — the memories in every prompt of the agents of a container: read once, kept in memory, chosen for each turn.

Theory of operation. All changes of memories pass through here or arrive as events: a rewind, the deletion of a container.
Memories that change while they are being read are not kept, and none are where several nodes share a database. The cache is
therefore always equal to the store. There a turn that is about to begin has them read ahead, so that its call need not wait for
them.
"""

from collections.abc import Iterable

import anyio

from agentvm.events.base import Event
from agentvm.events.lifecycle import ContainerDeleted, SessionRewound
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.memory import Memory, MemoryId
from agentvm.sharing.cache import Cache
from agentvm.storage.sql.memories import MemoryStore
from agentvm.storage.sql.store import Store
from agentvm.storage.sql.words import terms

PROMPT_MEMORIES_MAX = 1_500
"""Characters of the memories that one prompt has."""
CACHED_MAX = 10_000
"""Memories, and containers without any, that are kept."""
QUESTION_MAX = 2_000
"""Characters of a message that are compared with memories."""
AHEAD_MS = 1_000
"""Age up to which memories that were read ahead are told."""

Key = tuple[TenantId, ContainerId]


class Memories:
    """The memories of all containers. An effector: drops the memories that events report as changed."""

    kinds = (SessionRewound, ContainerDeleted)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: Cache[Key, tuple[Memory, ...]] = Cache(CACHED_MAX, weigh=lambda memories: len(memories) + 1)
        self._ahead: Cache[Key, tuple[Memory, ...]] = Cache(
            CACHED_MAX, age_ms=AHEAD_MS, weigh=lambda memories: len(memories) + 1
        )
        self._changes = 0

    async def read_ahead(self, key: Key) -> None:
        """Reads the memories for the turn that begins now."""
        before = self._changes
        memories = await self.recall(key)
        if before == self._changes:
            self._ahead.put(key, memories, _now_ms())

    async def recall_ahead(self, key: Key) -> tuple[Memory, ...]:
        """Returns the memories that were read ahead a moment ago, else as `recall`."""
        ahead = self._ahead.get(key, _now_ms())
        return await self.recall(key) if ahead is None else ahead

    async def recall(self, key: Key) -> tuple[Memory, ...]:
        """Returns the memories of a container, proposed ones as well, the newest first."""
        cached = self._kept.get(key)
        if cached is not None:
            return cached
        before = self._changes
        memories = await self._of(key).list()
        # Another node may change them, and nobody here would be told.
        if before == self._changes and not self._store.node_id:
            self._kept.put(key, memories)
        return memories

    async def put(self, key: Key, memory: Memory) -> None:
        try:
            await self._of(key).put(memory)
        finally:
            self.forget(key)

    async def delete(self, key: Key, memory_id: MemoryId) -> bool:
        """Returns whether there was such a memory."""
        try:
            return await self._of(key).delete(memory_id)
        finally:
            self.forget(key)

    def react(self, event: Event) -> None:
        data = event.data
        if isinstance(data, ContainerDeleted):
            self.forget((event.tenant_id, data.container_id))
        elif event.scope.container_id is not None:
            self.forget((event.tenant_id, event.scope.container_id))

    def forget(self, key: Key) -> None:
        """The memories of the container have changed."""
        self._changes += 1
        self._kept.drop(key)
        self._ahead.drop(key)

    def forget_all(self) -> None:
        """Any memories may have changed."""
        self._changes += 1
        self._kept.clear()
        self._ahead.clear()

    def _of(self, key: Key) -> MemoryStore:
        return self._store.tenant(key[0]).container(key[1]).memories


def _now_ms() -> int:
    return int(anyio.current_time() * 1000)


def choose(memories: Iterable[Memory], question: str) -> tuple[Memory, ...]:
    """Returns the memories that a prompt has room for: pinned ones, then those with words of the question, then new ones."""
    accepted = [memory for memory in memories if not memory.proposed]
    if sum(len(memory.text) for memory in accepted) > PROMPT_MEMORIES_MAX:
        question_terms = set(terms(question[:QUESTION_MAX]))
        order = {
            memory.memory_id: (memory.pinned, len(question_terms.intersection(terms(memory.text))), memory.updated_at)
            for memory in accepted
        }
        accepted.sort(key=lambda memory: order[memory.memory_id], reverse=True)
    chosen: list[Memory] = []
    room = PROMPT_MEMORIES_MAX
    for memory in accepted:
        if len(memory.text) <= room:
            chosen.append(memory)
            room -= len(memory.text)
    # Always in the same order: providers keep what they have read.
    return tuple(sorted(chosen, key=lambda memory: memory.created_at))
