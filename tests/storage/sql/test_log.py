import apsw
from tests.conformance.log import chunk, write
from tests.conformance.records import SESSION, image
from tests.conformance.store import settle

from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


async def test_reading_a_page_of_a_long_log_scans_nothing(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    for number in range(1, 200):
        await store.commit([write(log=chunk(number, number))])
    scanned = 0

    def count(event: dict[str, dict[str, int]]) -> None:
        nonlocal scanned
        scanned += event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]

    await database.read(lambda connection: connection.raw.trace_v2(apsw.SQLITE_TRACE_PROFILE, count))
    assert [one.first_seq for one in await home.log(SESSION).read(150, 2)] == [151, 152]
    assert scanned == 0


async def test_a_deleted_session_takes_its_log_with_it(database: SqliteDatabase, store: Store) -> None:
    made = image()
    home = await settle(store, made)
    await store.commit([write(log=chunk(1, 3))])
    await home.delete_image(made.image_id)
    left = await database.read(lambda connection: connection.fetch("SELECT count(*) FROM log")[0][0])
    assert left == 0
