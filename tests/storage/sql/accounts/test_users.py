import pytest
from tests.conformance.accounts import ALICE, user
from tests.conformance.records import HOME
from tests.conformance.store import ACME

from agentvm.errors import Conflict
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


async def test_bindings_go_with_their_user(database: SqliteDatabase, store: Store) -> None:
    users = store.accounts(ACME).users
    await users.add(user())
    await users.bind(ALICE, HOME)
    await users.delete(ALICE, now=2)

    def count(connection: SqliteConnection) -> int:
        return int(connection.fetch("SELECT count(*) FROM bindings")[0][0])

    assert await database.read(count) == 0


async def test_a_conflict_names_the_user_and_keeps_the_first(store: Store) -> None:
    users = store.accounts(ACME).users
    await users.add(user("1", "al"))
    with pytest.raises(Conflict, match="already a user al"):
        await users.add(user("2", "al"))
    assert await users.list() == (user("1", "al"),)
