"""The database itself notes what nodes must know of each other, while there are nodes."""

from functools import partial

from msgspec.structs import replace
from tests.conformance.store import ACME

from agentvm.model.account import Tenant
from agentvm.model.ids import TenantId
from agentvm.storage.engine import open_shared, open_store
from agentvm.storage.settings import Change
from agentvm.storage.sql.notices import NoticeStore
from agentvm.storage.sql.store import Store

CHANGE = Change(revision=1, at=1, actor="root", changes={"limits.repeats": 7})


async def suspend(store: Store) -> None:
    tenant = Tenant(tenant_id=TenantId(ACME), slug="acme", name="Acme", created_at=1, updated_at=1)
    await store.directory.add_tenant(tenant)
    await store.directory.change_tenant(tenant.tenant_id, partial(replace, name="Other"))
    await store.directory.change_tenant(tenant.tenant_id, partial(replace, status="suspended"))
    await store.settings(None).append(CHANGE)


async def test_a_change_is_noted_by_its_own_transaction(database_url: str) -> None:
    async with open_shared(database_url, "a", "1") as (store, nodes):
        since = await nodes.notices.now() - 1
        await suspend(store)
        now, noted = await nodes.notices.read(since)
        assert [(notice.kind, notice.tenant_id, notice.subject) for notice in noted] == [
            ("tenant", ACME, ACME),
            ("settings", "", ""),
        ]
        assert now is not None
        assert (await nodes.notices.read(now))[1] == ()
        assert not await nodes.notices.drop_old()
        assert (await nodes.notices.read(since))[1] == noted


async def test_a_server_alone_notes_nothing() -> None:
    async with open_store(None) as store:
        await suspend(store)
        assert await NoticeStore(store._database).read(0) == (None, ())
