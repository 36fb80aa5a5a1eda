import pytest
from tests.conformance.records import IMAGE, image
from tests.conformance.resource_life import locked
from tests.conformance.resources import publication, put, resource_id, version_id
from tests.conformance.store import ACME, settle

from agentvm.errors.resource import ResourceNotFound
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


def held(connection: SqliteConnection) -> int:
    return int(connection.fetch("SELECT count(*) FROM image_refs")[0][0])


async def test_what_an_image_holds_follows_its_lock_and_ends_with_it(database: SqliteDatabase, store: Store) -> None:
    await put(store, publication("a"), publication("b"), publication("c"))
    home = await settle(store, locked(version_id("a"), version_id("b")))
    assert await database.read(held) == 2
    await home.rebuild_image(locked(version_id("c")))
    assert await database.read(held) == 1
    await home.rebuild_image(image())
    assert await database.read(held) == 0
    await home.rebuild_image(locked(version_id("a")))
    await home.delete_image(IMAGE)
    assert await database.read(held) == 0


async def test_a_version_that_goes_between_looking_and_locking_is_missed(store: Store) -> None:
    await put(store, publication("a"))
    built = locked(version_id("a"))
    await store.resources(ACME).delete(resource_id("a"), force=True, now=2)
    with pytest.raises(ResourceNotFound, match="resource://prompts/"):
        await settle(store, built)
