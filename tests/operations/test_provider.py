from tests.server.http.fixtures import NOON, open_world

from agentvm.errors import ProviderOverloaded


async def test_who_may_see_it_sees_how_the_providers_are() -> None:
    async with open_world() as world:
        (item,) = (await world.ask("GET", "/v1/providers")).items
        assert (item["name"], item["role"], item["state"], item["calls"]) == ("scripted", "default", "unknown", 0)
        attempt = world.vm.runtime.models.choose(None).health.begin()
        attempt.sent()
        attempt.failed(ProviderOverloaded("busy with secrets"))
        reply = await world.ask("GET", "/v1/providers")
        (item,) = reply.items
        assert b"secrets" not in reply.raw
        assert (item["state"], item["since"], item["lastError"]) == ("down", NOON, "provider_overloaded")
        assert (item["calls"], item["failures"], item["consecutiveFailures"]) == (1, 1, 1)
        assert NOON < item["retryAt"] <= NOON + 1_000


async def test_it_takes_a_permission_and_is_about_no_tenant() -> None:
    async with open_world() as world:
        assert (await world.ask("GET", "/v1/providers", key=world.acme.user)).code == "permission_denied"
        reader = await world.key(world.acme.tenant_id, ["metrics:read"])
        assert (await world.ask("GET", "/v1/providers", key=reader)).status == 200
        assert (await world.ask("GET", f"/v1/providers?tenant={world.acme.slug}")).code == "invalid_input"
        assert (await world.ask("GET", "/v1/providers?limit=1", key=reader)).items


async def test_a_tenant_learns_neither_where_they_are_nor_how_much_others_ask() -> None:
    async with open_world() as world:
        world.vm.runtime.models.choose(None).health.begin().sent()
        reader = await world.key(world.acme.tenant_id, ["metrics:read"])
        (item,) = (await world.ask("GET", "/v1/providers", key=reader)).items
        assert not {"baseUrl", "calls", "failures"} & item.keys()
        assert (item["name"], item["state"], item["consecutiveFailures"]) == ("scripted", "unknown", 0)
