import pytest
from tests.server.http.fixtures import open_world

from agentvm.model.ids import DEFAULT_TENANT


async def test_the_operator_makes_changes_and_deletes_a_tenant() -> None:
    async with open_world() as world:
        made = await world.ask("POST", "/v1/tenants", {"slug": "corp", "name": "Corp", "plan": "pro", "description": "x"})
        assert made.status == 201
        tenant_id = made.body["tenantId"]
        assert made.body["status"] == "active"
        for name in (tenant_id, "corp"):
            assert (await world.ask("GET", f"/v1/tenants/{name}")).body == made.body
        world.clock.now += 5
        changed = await world.ask("PUT", "/v1/tenants/corp", {"slug": "corp2", "plan": None})
        assert (changed.status, changed.body["slug"], changed.body["name"]) == (200, "corp2", "Corp")
        assert "plan" not in changed.body
        assert changed.body["updatedAt"] == world.clock()
        assert (await world.ask("GET", "/v1/tenants/corp")).status == 404
        assert (await world.ask("DELETE", f"/v1/tenants/{tenant_id}")).status == 204
        assert (await world.ask("GET", f"/v1/tenants/{tenant_id}")).status == 404
        assert (await world.ask("DELETE", f"/v1/tenants/{tenant_id}")).status == 404
        actions = [entry[0] for entry in await world.audit()]
        assert actions == ["tenant.delete", "tenant.delete", "tenant.update", "tenant.create"]


async def test_the_same_can_be_called() -> None:
    async with open_world() as world:
        made = await world.ask("POST", "/v1/tenants/create", {"slug": "corp", "name": "Corp"})
        assert made.status == 201
        assert (await world.ask("POST", "/v1/tenants/get", {"tenant": "corp"})).body == made.body
        page = await world.ask("POST", "/v1/tenants/list", {"limit": 2})
        assert [tenant["slug"] for tenant in page.items] == ["acme", "bolt"]
        rest = await world.ask("POST", "/v1/tenants/list", {"cursor": page.body["nextCursor"]})
        assert [tenant["slug"] for tenant in rest.items] == ["corp", "default"]
        renamed = await world.ask("POST", "/v1/tenants/update", {"tenant": "corp", "name": "New"})
        assert (renamed.status, renamed.body["name"]) == (200, "New")
        assert (await world.ask("POST", "/v1/tenants/delete", {"tenant": "corp"})).status == 204
        assert (await world.audit())[0] == ("tenant.delete", made.body["tenantId"], "ok")


async def test_tenants_come_in_pages() -> None:
    async with open_world() as world:
        first = await world.ask("GET", "/v1/tenants?limit=2")
        assert ([tenant["slug"] for tenant in first.items], first.body["nextCursor"]) == (["acme", "bolt"], "bolt")
        last = await world.ask("GET", "/v1/tenants?limit=2&cursor=bolt")
        assert [tenant["slug"] for tenant in last.items] == ["default"]
        assert "nextCursor" not in last.body


async def test_an_administrator_sees_their_own_tenant_and_no_other() -> None:
    async with open_world() as world:
        assert (await world.ask("GET", "/v1/tenants/acme", key=world.acme.admin)).body["slug"] == "acme"
        foreign = await world.ask("GET", "/v1/tenants/bolt", key=world.acme.admin)
        absent = await world.ask("GET", "/v1/tenants/nope", key=world.acme.admin)
        assert foreign.status == 404
        assert foreign.but_its_id("bolt") == absent.but_its_id("nope")
        assert (await world.ask("PUT", "/v1/tenants/acme", {"plan": "pro"}, key=world.acme.admin)).status == 403
        assert (await world.ask("GET", "/v1/tenants", key=world.acme.admin)).status == 403


async def test_a_slug_that_could_be_mistaken_is_refused() -> None:
    async with open_world() as world:
        assert (await world.ask("POST", "/v1/tenants", {"slug": "create", "name": "x"})).status == 400
        assert (await world.ask("PUT", "/v1/tenants/acme", {"slug": "create"})).status == 400


async def test_a_slug_is_one_tenants() -> None:
    async with open_world() as world:
        assert (await world.ask("POST", "/v1/tenants", {"slug": "acme", "name": "x"})).code == "conflict"
        assert (await world.ask("PUT", "/v1/tenants/bolt", {"slug": "acme"})).status == 409
        assert (await world.ask("PUT", "/v1/tenants/default", {"slug": "other"})).status == 409


async def test_a_suspended_tenant_is_not_let_in_until_it_is_active_again() -> None:
    async with open_world() as world:
        assert (await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)).status == 200
        assert (await world.ask("PUT", "/v1/tenants/acme", {"status": "suspended"})).body["status"] == "suspended"
        assert (await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)).status == 401
        await world.ask("PUT", "/v1/tenants/acme", {"status": "active"})
        assert (await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)).status == 200


async def test_the_operators_own_tenant_stays() -> None:
    async with open_world() as world:
        assert (await world.ask("DELETE", f"/v1/tenants/{DEFAULT_TENANT}")).status == 409
        assert (await world.ask("PUT", "/v1/tenants/default", {"status": "suspended"})).status == 409
        assert (await world.audit())[0] == ("tenant.update", "default", "refused:conflict")


@pytest.mark.parametrize("body", [{"name": ""}, {"name": "a\nb"}, {"name": "x" * 201}, {"status": "gone"}, {"description": ""}])
async def test_a_change_that_means_nothing_is_refused(body: dict[str, str]) -> None:
    async with open_world() as world:
        assert (await world.ask("PUT", "/v1/tenants/acme", body)).code == "invalid_input"
