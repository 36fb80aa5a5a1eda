from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store


async def taken(store: Store, digest: bytes) -> tuple[bytes, int] | None:
    return await store.tickets.take(digest)


async def test_a_ticket_is_taken_once_and_an_unused_one_goes_with_a_new_one() -> None:
    async with open_store(None) as store:
        await store.tickets.add(b"1", b"one", 100, 0)
        assert await taken(store, b"1") == (b"one", 100)
        assert await taken(store, b"1") is None
        await store.tickets.add(b"2", b"two", 100, 0)
        await store.tickets.add(b"3", b"three", 300, 200)
        assert await taken(store, b"2") is None
        assert await taken(store, b"3") == (b"three", 300)
