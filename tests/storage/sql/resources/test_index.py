from tests.conformance.resources import publication, put, resource_id
from tests.conformance.store import ACME

from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.resources import Changes
from agentvm.storage.sql.store import Store


def entries(connection: SqliteConnection) -> int:
    return int(connection.fetch("SELECT count(*) FROM resource_fts")[0][0])


async def test_a_resource_has_one_entry_whatever_is_done_to_it(database: SqliteDatabase, store: Store) -> None:
    ours = store.resources(ACME)
    for number in range(5):
        await put(store, publication(version=f"1.{number}.0", text=f"word{number}"))
    await ours.change(resource_id(), Changes(description="d", tags=("a", "b", "a")), now=2)
    await ours.yank(resource_id(), "1.4.0", 2, now=2)
    assert await database.read(entries) == 1
    await ours.delete(resource_id(), force=True, now=3)
    assert await database.read(entries) == 0


async def test_the_index_can_be_checked_by_any_sqlite(database: SqliteDatabase, store: Store) -> None:
    """It needs nothing that only this program brings."""
    await put(store, publication(text="北京 words"))

    def check(connection: SqliteConnection) -> object:
        connection.execute("INSERT INTO resource_fts (resource_fts) VALUES ('integrity-check')")
        return connection.raw.pragma("integrity_check")

    assert await database.write(check) == "ok"
