import pytest
from tests.server.http.fixtures import OPERATOR, open_world

from agentvm.errors import NotFound
from agentvm.model.principal import Principal


async def test_a_tenant_is_found_by_id_or_slug_and_others_by_the_operator_alone() -> None:
    async with open_world() as world:
        tenancy, acme = world.vm.tenancy, world.acme
        admin = Principal(tenant_id=acme.tenant_id, permissions=frozenset({"tenants:admin"}))
        for name in (acme.tenant_id, acme.slug):
            for principal in (OPERATOR, admin):
                assert (await tenancy.find_tenant(principal, name)).tenant_id == acme.tenant_id
        assert (await tenancy.find_tenant(OPERATOR, "bolt")).tenant_id == world.bolt.tenant_id
        for name in ("bolt", world.bolt.tenant_id, "nobody"):
            with pytest.raises(NotFound):
                await tenancy.find_tenant(admin, name)
