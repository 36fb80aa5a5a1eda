from tests.server.http.fixtures import open_world


async def test_any_user_sees_the_models_with_their_price_and_window() -> None:
    async with open_world() as world:
        price = {"scripted/dear": {"input": "2", "output": "8", "cacheRead": "0.5"}}
        assert (await world.ask("PUT", "/v1/config/billing.prices", {"value": price})).status == 200
        assert (await world.ask("PUT", "/v1/config/billing.markup", {"value": "1.5"})).status == 200
        items = (await world.ask("GET", "/v1/catalog/models", key=world.acme.user)).items
        default, dear = items
        assert (default["isDefault"], default["pictures"], default["tools"], default["window"]) == (True, True, True, 100_000)
        assert default["name"].startswith("scripted/")
        assert default["price"] == {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        dollar = 1_000_000_000
        assert (dear["name"], dear.get("isDefault")) == ("scripted/dear", None)
        assert dear["price"] == {
            "input": 3 * dollar,
            "output": 12 * dollar,
            "cacheRead": dollar * 3 // 4,
            "cacheWrite": 3 * dollar,
        }
        first = await world.ask("GET", "/v1/catalog/models?limit=1", key=world.acme.user)
        assert (len(first.items), first.body["nextCursor"]) == (1, default["name"])


async def test_the_built_in_tools_are_listed_with_their_input() -> None:
    async with open_world() as world:
        tools = {tool["name"]: tool for tool in (await world.ask("GET", "/v1/catalog/tools", key=world.acme.user)).items}
        assert tools["calculator"]["isDefault"]
        assert tools["calculator"]["inputSchema"]["type"] == "object"
        assert tools["calculator"]["description"]
