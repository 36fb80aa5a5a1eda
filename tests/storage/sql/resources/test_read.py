import apsw
from tests.conformance.resources import publication, put
from tests.conformance.store import ACME

from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.resources import read
from agentvm.storage.sql.store import Store


async def test_a_resource_is_found_and_counted_without_looking_at_others(database: SqliteDatabase, store: Store) -> None:
    await put(store, *(publication(f"r{number}", pointer="stable") for number in range(50)))
    scanned = 0

    def count(event: dict[str, dict[str, int]]) -> None:
        nonlocal scanned
        scanned += event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]

    def look(connection: SqliteConnection) -> None:
        connection.raw.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
        found = read.find(connection, ACME, "prompts", "r7", None)
        assert found is not None
        assert read.get(connection, ACME, found.resource_id) == found
        assert len(read.history(connection, ACME, found.resource_id).versions) == 1
        read.dependents(connection, ACME, found.resource_id)
        assert read.count(connection, ACME) == 50

    await database.write(look)
    assert scanned == 0
