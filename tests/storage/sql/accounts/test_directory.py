from tests.conformance.accounts import key, tenant
from tests.conformance.store import ACME

from agentvm.model.ids import KeyId, TenantId
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


async def test_a_deleted_tenant_is_only_marked(database: SqliteDatabase, store: Store) -> None:
    await store.directory.add_tenant(tenant())
    await store.directory.delete_tenant(ACME, now=9)

    def deleted(connection: SqliteConnection) -> object:
        return connection.fetch("SELECT tenant_id, deleted_at FROM tenants")

    assert await database.read(deleted) == [(ACME, 9)]


async def test_a_slug_can_be_given_to_one_tenant_after_another(store: Store) -> None:
    for name in ("one", "two", "three"):
        made = tenant(TenantId(name), "shop")
        await store.directory.add_tenant(made)
        assert await store.directory.find_tenant("shop") == made
        await store.directory.delete_tenant(made.tenant_id, now=9)
    assert await store.directory.list_tenants() == ()


async def test_a_key_is_found_whether_or_not_its_tenant_was_ever_added(store: Store) -> None:
    await store.accounts(ACME).keys.add(key(), b"digest")
    assert await store.directory.find_key(KeyId("k1")) == (key(), b"digest")
