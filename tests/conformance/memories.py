"""Memory conformance — what the store must do with memories on every engine: bounded, and taken back by rewinds."""

import msgspec

from agentvm.errors import ContainerNotFound
from agentvm.errors.memory import TooManyMemories
from agentvm.model.ids import ContainerId, MessageId, RewindId, SessionId
from agentvm.model.memory import MEMORIES_MAX, Memory, MemoryId
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.sql.store import Store
from tests.conformance.records import HOME, SESSION, image, message
from tests.conformance.store import ACME, RIVAL, raises, settle


def memory(number: int, text: str = "likes tea 喜欢茶", **about: object) -> Memory:
    plain = Memory(memory_id=MemoryId(f"mem_{number}"), text=text, by="agent", created_at=number, updated_at=number)
    return msgspec.structs.replace(plain, **about)


async def check_a_memory_is_put_changed_and_deleted_in_its_own_container(store: Store) -> None:
    home = await settle(store, image())
    await home.memories.put(memory(1, session_id=SESSION, message_id=MessageId("m1"), proposed=True))
    await home.memories.put(memory(2, pinned=True))
    await home.memories.put(memory(1, "drinks tea", by="user", updated_at=9))
    first, second = await home.memories.list()
    assert (first.memory_id, first.pinned) == ("mem_2", True)
    assert (second.text, second.by, second.proposed, second.updated_at) == ("drinks tea", "user", False, 9)
    assert (second.created_at, second.message_id) == (1, "m1"), "its source and age stay"
    for other in (store.tenant(ACME).container(ContainerId("other")), store.tenant(RIVAL).container(HOME)):
        assert await other.memories.list() == ()
        assert not await other.memories.delete(MemoryId("mem_1"))
        assert await raises(ContainerNotFound, other.memories.put(memory(1)))
    assert await home.memories.delete(MemoryId("mem_1"))
    assert not await home.memories.delete(MemoryId("mem_1"))
    assert [one.memory_id for one in await home.memories.list()] == ["mem_2"]


async def check_a_container_has_so_many_memories_at_most(store: Store) -> None:
    home = await settle(store, image())
    for number in range(MEMORIES_MAX):
        await home.memories.put(memory(number))
    assert await raises(TooManyMemories, home.memories.put(memory(MEMORIES_MAX)))
    await home.memories.put(memory(1, "changed"))
    assert len(await home.memories.list()) == MEMORIES_MAX


async def check_a_rewind_takes_back_what_an_agent_has_remembered_then(store: Store) -> None:
    home = await settle(store, image())
    said = [message("m1"), message("m2"), message("m3")]
    write = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=2, messages=said)
    await store.commit([write])
    at = MessageId("m2")
    await home.memories.put(memory(0, session_id=SESSION, message_id=MessageId("m1")))
    await home.memories.put(memory(1, session_id=SESSION, message_id=at))
    await home.memories.put(memory(2, session_id=SESSION, message_id=at, by="user"))
    await home.memories.put(memory(3, session_id=SessionId("another"), message_id=at))
    rewind = Rewinding(RewindId("r1"), [said[1].id, said[2].id], 3)
    await store.commit([msgspec.structs.replace(write, messages=(), rewind=rewind)])
    assert {one.memory_id for one in await home.memories.list()} == {"mem_0", "mem_2", "mem_3"}
