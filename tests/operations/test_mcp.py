import pytest
from tests.server.http.fixtures import World, open_world

pytestmark = pytest.mark.anyio
PATH, URL = "/v1/mcp/connections", "https://mcp.example/mcp"


async def connect(world: World) -> None:
    connections = world.vm.store.accounts(world.acme.tenant_id).connections
    await connections.put(world.acme.user_id, URL, b"sealed", 5)


async def test_a_user_sees_own_connections_and_an_administrator_those_of_others() -> None:
    async with open_world() as world:
        await connect(world)
        own = await world.ask("GET", PATH, key=world.acme.user)
        assert own.body == {"items": [{"server": URL, "since": 5}]}
        assert (await world.ask("GET", PATH, key=world.acme.admin)).body == {"items": []}
        assert (await world.ask("GET", f"{PATH}?user=alice", key=world.acme.admin)).body == own.body
        assert (await world.ask("GET", f"{PATH}?user=nobody", key=world.acme.admin)).status == 404
        assert (await world.ask("GET", f"{PATH}?user=alice", key=world.bolt.user)).status == 403
        assert (await world.ask("GET", PATH, key=world.bolt.user)).body == {"items": []}


async def test_disconnecting_what_is_not_connected_is_told() -> None:
    async with open_world() as world:
        gone = await world.ask("DELETE", f"{PATH}?server={URL}", key=world.acme.user)
        assert (gone.status, gone.body["error"]["code"]) == (404, "not_found")
        assert ("mcp.disconnect", URL, "refused:not_found") in await world.audit(world.acme.tenant_id)
