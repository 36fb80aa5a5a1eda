"""Links that answer a wait, as rows: found by their token, used once, gone with their wait."""

import pytest
from tests.runtime.test_parking import Hammer, parked

from agentvm.model.base import record_from
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.model.wait import WaitId, WaitLink

pytestmark = pytest.mark.anyio


async def test_a_link_is_found_by_its_token_until_it_is_used_or_expires() -> None:
    async with parked(Hammer(), ("c1", "hammer")) as (world, (wait,)):
        links = world.store.wait_links
        link = record_from(WaitLink, wait, tenant_id=DEFAULT_TENANT)
        assert await links.add("token", link, expires_at=100)
        assert await links.find("token", 99) == link
        assert await links.find("token", 100) is None
        assert await links.find("other", 1) is None
        assert not await links.use("token", 100)
        assert await links.use("token", 99)
        assert not await links.use("token", 99)
        assert await links.find("token", 99) is None


async def test_a_link_needs_a_wait_of_its_tenant_and_goes_with_it() -> None:
    async with parked(Hammer(), ("c1", "hammer")) as (world, (wait,)):
        links = world.store.wait_links
        foreign = record_from(WaitLink, wait, tenant_id=TenantId("rival"))
        assert not await links.add("a", foreign, expires_at=100)
        unknown = record_from(WaitLink, wait, tenant_id=DEFAULT_TENANT, wait_id=WaitId("wait_none"))
        assert not await links.add("b", unknown, expires_at=100)
        assert await links.add("c", record_from(WaitLink, wait, tenant_id=DEFAULT_TENANT), expires_at=100)
        await world.runtime.stop_agent(world.start())
        await world.store.tenant(DEFAULT_TENANT).sessions((wait.container_id,)).delete(wait.session_id, 9)
        assert await links.find("c", 1) is None
