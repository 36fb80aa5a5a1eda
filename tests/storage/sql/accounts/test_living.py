import pytest
from tests.conformance.accounts import tenant
from tests.conformance.store import ACME, RIVAL

from agentvm.errors import NotFound
from agentvm.model.ids import TenantId
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.accounts.living import refuse_deleted
from agentvm.storage.sql.store import Store


async def test_only_a_deleted_tenant_is_refused(database: SqliteDatabase, store: Store) -> None:
    for each in (ACME, RIVAL):
        await store.directory.add_tenant(tenant(each))
    await store.directory.delete_tenant(ACME, now=9)
    for living in (RIVAL, TenantId("never added")):
        await database.read(lambda connection, each=living: refuse_deleted(connection, each))  # type: ignore[misc]
    with pytest.raises(NotFound, match="Tenant not found: acme"):
        await database.read(lambda connection: refuse_deleted(connection, ACME))
