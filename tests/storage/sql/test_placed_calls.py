from tests.runtime.fixtures import open_world, tool

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.ids import DEFAULT_TENANT, SessionId, TenantId, TurnId


async def ok(arguments: dict[str, object]) -> object:
    return "fine"


async def test_the_reasons_of_a_turn_are_read_by_its_own_tenant_and_session() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c0", "ok", {}), ("c1", "none", {})), reply("done")))
    async with open_world(driver, tools=[tool("ok", ok)]) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        turn_id = next(event["data"]["turnId"] for event in heard if event["type"] == "turn_response")
        store = world.store.tenant(DEFAULT_TENANT).placed_calls()
        calls = await store.list_turn(world.image.session_id, turn_id)
        assert sorted((call.call_id, call.tool, call.tier) for call in calls) == [
            ("c0", "ok", "inline"),
            ("c1", "none", "inline"),
        ]
        assert await world.store.tenant(TenantId("other")).placed_calls().list_turn(world.image.session_id, turn_id) == ()
        assert await store.list_turn(SessionId("other"), turn_id) == ()
        assert await store.list_turn(world.image.session_id, TurnId("other")) == ()
