import pytest
from msgspec import structs
from tests.conformance.accounts import ALICE, key
from tests.conformance.store import ACME

from agentvm.errors import NotFound
from agentvm.model.ids import KeyId
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.accounts.keys import FIND_KEY, decode_found
from agentvm.storage.sql.store import Store


async def test_a_row_becomes_the_key_that_was_stored(database: SqliteDatabase, store: Store) -> None:
    stored = structs.replace(key(), permissions=("agent:use",), containers=("a", "b-*"), last_used_at=3, revoked_at=4)
    await store.accounts(ACME).keys.add(stored, b"digest")
    (row,) = await database.read(lambda connection: connection.fetch(FIND_KEY, ("k1",)))
    assert decode_found(row) == (stored, b"digest")


async def test_a_key_of_nobody_is_not_stored(store: Store) -> None:
    with pytest.raises(NotFound, match="User not found: u_alice"):
        await store.accounts(ACME).keys.add(key(user_id=ALICE), b"d")
    assert await store.directory.find_key(KeyId("k1")) is None


async def test_many_uses_are_one_commit(database: SqliteDatabase, store: Store) -> None:
    keys = store.accounts(ACME).keys
    names = [f"k{number}" for number in range(20)]
    for name in names:
        await keys.add(key(name), b"d")
    commits = 0

    def committed() -> bool:
        nonlocal commits
        commits += 1
        return False

    def listen(connection: SqliteConnection) -> None:
        connection.raw.set_commit_hook(committed)

    await database.write(listen)
    commits = 0
    await keys.touch([(KeyId(name), 5) for name in names])
    assert (commits, {each.last_used_at for each in await keys.list()}) == (1, {5})
