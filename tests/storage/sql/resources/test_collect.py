"""What is kept and what goes, also while others publish."""

import anyio
import apsw
from tests.conformance.resources import publication, put, resource_id, version_id
from tests.conformance.store import ACME

from agentvm.model.resource import digest_of
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


def blobs(connection: SqliteConnection) -> dict[str, int | None]:
    return {str(digest): since for digest, since in connection.fetch("SELECT digest, unused_since FROM resource_blobs")}


async def test_nothing_is_lost_while_some_publish_and_one_collects(database: SqliteDatabase, store: Store) -> None:
    """The same bytes are released and wanted again all the time, and collected without any patience."""
    ours, body = store.resources(ACME), b"shared"
    digest = digest_of(body)
    done = anyio.Event()

    async def come_and_go(name: str) -> None:
        for number in range(25):
            await put(store, publication(name, text="same", blobs={digest: body}, now=number))
            (node,) = (await ours.closure(version_id(name), limit=9)).values()
            assert node.content == publication(name, text="same").content
            assert await ours.blob(version_id(name), digest) == body
            await ours.delete(resource_id(name), force=False, now=number)

    async def collect() -> None:
        now = 1
        while not done.is_set():
            now += 1
            await store.collect(now, grace=0)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect)
            async with anyio.create_task_group() as publishers:
                for number in range(4):
                    publishers.start_soon(come_and_go, f"r{number}")
            done.set()
        for now in (10**6, 10**6 + 1):
            await store.collect(now, grace=0)
        assert await database.read(blobs) == {}


async def test_a_released_part_is_noted_by_one_call_and_dropped_by_a_later_one(database: SqliteDatabase, store: Store) -> None:
    content = digest_of(publication().content)
    await put(store, publication())
    assert await database.read(blobs) == {content: None}
    await store.resources(ACME).delete(resource_id(), force=False, now=2)
    assert await database.read(blobs) == {content: 0}
    await store.collect(7, grace=3)
    assert await database.read(blobs) == {content: 7}
    assert await store.collect(10, grace=3) == 1
    assert await database.read(blobs) == {}


async def test_the_collector_looks_only_at_what_was_released(database: SqliteDatabase, store: Store) -> None:
    for number in range(30):
        await put(store, publication(f"r{number}"))
    scanned = 0

    def count(event: dict[str, dict[str, int]]) -> None:
        nonlocal scanned
        scanned += event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]

    await database.write(lambda connection: connection.raw.trace_v2(apsw.SQLITE_TRACE_PROFILE, count))
    await store.collect(7, grace=3)
    assert scanned == 0
