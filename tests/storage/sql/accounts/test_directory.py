import apsw
import pytest

from agentvm.model.ids import KeyId, TenantId
from agentvm.storage.engines.sqlite.database import Database
from agentvm.storage.sql.store import SqliteStore
from agentvm.testing.conformance.accounts import key, tenant
from agentvm.testing.conformance.store import ACME

pytestmark = pytest.mark.anyio


async def test_a_deleted_tenant_is_only_marked(database: Database, store: SqliteStore) -> None:
    await store.directory.add_tenant(tenant())
    await store.directory.delete_tenant(ACME, now=9)

    def deleted(connection: apsw.Connection) -> object:
        return connection.execute("SELECT tenant_id, deleted_at FROM tenants").fetchall()

    assert await database.read(deleted) == [(ACME, 9)]


async def test_a_slug_can_be_given_to_one_tenant_after_another(store: SqliteStore) -> None:
    for name in ("one", "two", "three"):
        made = tenant(TenantId(name), "shop")
        await store.directory.add_tenant(made)
        assert await store.directory.find_tenant("shop") == made
        await store.directory.delete_tenant(made.tenant_id, now=9)
    assert await store.directory.list_tenants() == ()


async def test_a_key_is_found_whether_or_not_its_tenant_was_ever_added(store: SqliteStore) -> None:
    await store.accounts(ACME).keys.add(key(), b"digest")
    assert await store.directory.find_key(KeyId("k1")) == (key(), b"digest")
