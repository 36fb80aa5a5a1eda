import pytest
from tests.conformance.accounts import tenant
from tests.conformance.erasing import erase
from tests.conformance.resource_life import locked
from tests.conformance.resources import on, publication, put, resource_id, version_id
from tests.conformance.store import ACME, settle

from agentvm.errors import StoreFailed
from agentvm.model.ids import TenantId
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store

TABLES = ("resources", "resource_versions", "version_blobs", "resource_tags", "resource_deps", "resource_words", "resource_fts")


def rows(connection: SqliteConnection) -> dict[str, object]:
    return {table: connection.fetch(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


async def test_what_is_deleted_leaves_no_row_behind(database: SqliteDatabase, store: Store) -> None:
    await put(store, publication("other"))
    before = await database.read(rows)
    await put(store, publication(tags=("t",), pointer="stable", dependencies=[on(version_id("other"))], text="word"))
    await put(store, publication(version="2.0.0", dependencies=[on(version_id(), "own")]))
    await store.resources(ACME).delete(resource_id(), force=False, now=2)
    assert await database.read(rows) == before


async def test_a_deletion_that_breaks_off_reserves_no_name_without_a_version(database: SqliteDatabase, store: Store) -> None:
    await put(store, publication())
    planted = "CREATE TRIGGER planted BEFORE DELETE ON resources BEGIN SELECT raise(ABORT, 'planted'); END"
    await database.write(lambda connection: connection.fetch(planted))
    with pytest.raises(StoreFailed, match="planted"):
        await store.resources(ACME).delete(resource_id(), force=False, now=2)
    counts = await database.read(rows)
    assert (counts["resources"], counts["resource_versions"]) == (1, 1)


async def test_what_is_deleted_by_force_keeps_only_its_name(database: SqliteDatabase, store: Store) -> None:
    await put(store, publication(tags=("t",), pointer="stable"), publication(version="2.0.0", dependencies=[on(0)]))
    await store.resources(ACME).delete(resource_id(), force=True, now=2)
    assert await database.read(rows) == {**dict.fromkeys(TABLES, 0), "resources": 1}


async def test_a_tenants_resources_go_whatever_refers_to_what_among_them(database: SqliteDatabase, store: Store) -> None:
    await store.directory.add_tenant(tenant())
    await put(
        store, publication("a"), publication("b", dependencies=[on(0)]), publication("c", dependencies=[on(1), on(0, "a")])
    )
    await settle(store, locked(version_id("a"), version_id("c")))
    assert await store.directory.delete_tenant(ACME, now=5) is True
    await erase(store)
    assert await database.read(rows) == dict.fromkeys(TABLES, 0)
    # Its id and its name lead nowhere: another tenant of the same name starts with nothing.
    await store.directory.add_tenant(tenant(TenantId("heir"), "acme"))
    assert await store.resources(TenantId("heir")).count() == 0
