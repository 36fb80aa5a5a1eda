from tests.conformance.records import SESSION
from tests.conformance.retention import cut, place, say, some

from agentvm.model.ids import SessionId
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


def rows(connection: SqliteConnection) -> dict[str, int]:
    tables = ("all_messages", "message_facts", "message_fts", "turns", "log", "ledger")
    return {table: connection.fetch(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


async def test_what_goes_leaves_nothing_behind_but_the_ledger(store: Store, database: SqliteDatabase) -> None:
    kept = await some(store, "a")
    await say(store, "a", "told", 40, first_seq=1)
    await say(store, SESSION, "t", 40, first_seq=1)
    await kept.expire([SessionId("a")], cut(100))
    await store.purge_sessions(0)
    await kept.drop_turns(place(SESSION), await kept.old_turns(place(SESSION), 100))
    left = {"all_messages": 0, "message_facts": 0, "message_fts": 0, "turns": 0, "log": 1, "ledger": 3}
    assert await database.read(rows) == left
    bodies = await database.read(lambda connection: connection.fetch("SELECT body FROM log"))
    assert bodies == [(b"",)], "thoughts and inputs of tools are told, too"


async def test_what_cannot_be_read_keeps_nothing_else(store: Store, database: SqliteDatabase) -> None:
    kept = await some(store)
    await say(store, SESSION, "old", 40)
    await say(store, SESSION, "new", 200)

    def spoil(connection: SqliteConnection) -> None:
        connection.execute("UPDATE all_messages SET body = x'00' WHERE message_id = 'new-a'")

    await database.write(spoil)
    assert (await kept.drop_turns(place(SESSION), await kept.old_turns(place(SESSION), 100))).messages == 2
