import pytest
from tests.conformance.accounts import tenant
from tests.conformance.resources import publication, put, resource_id
from tests.conformance.store import ACME

from agentvm.model.ids import TenantId
from agentvm.model.resource import SYSTEM_TENANT
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.resources.rows import tenant_of, uri_of
from agentvm.storage.sql.store import Store


async def test_an_owner_is_a_slug_or_a_tenant_that_was_never_added(database: SqliteDatabase, store: Store) -> None:
    await store.directory.add_tenant(tenant(ACME, "shop"))
    await store.directory.add_tenant(tenant(TenantId("gone")))
    await store.directory.delete_tenant(TenantId("gone"), now=2)

    def ask(connection: SqliteConnection) -> list[TenantId]:
        return [tenant_of(connection, slug) for slug in ("shop", "acme", "gone", "default", "system")]

    assert await database.read(ask) == [ACME, "", "", "default", SYSTEM_TENANT]


def test_what_is_its_own_is_written_without_an_owner() -> None:
    assert uri_of(ACME, "acme", "shop", "prompts", "a", "1.0.0") == "resource://prompts/a@1.0.0"
    assert uri_of(TenantId("other"), "acme", "shop", "prompts", "a") == "resource://prompts/shop/a"


async def test_a_row_that_cannot_be_decoded_fails_its_reader_only(database: SqliteDatabase, store: Store) -> None:
    await put(store, publication("a"), publication("b"))

    def spoil(connection: SqliteConnection) -> None:
        connection.execute("UPDATE resources SET tags = x'00' WHERE resource_id = ?", (resource_id("a"),))

    await database.write(spoil)
    with pytest.raises(Exception, match="could not be read"):
        await store.resources(ACME).get(resource_id("a"))
    assert await store.resources(ACME).get(resource_id("b")) is not None
