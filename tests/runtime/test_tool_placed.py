"""The reasons of tool calls: stored with each call, shown in the timeline and by `tool_explain`, told to nobody."""

from tests.operations.fixtures import Desk, open_desk
from tests.runtime.test_image_tools import NUMBER

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.ids import SessionId, TurnId
from agentvm.model.placed_call import PlacedCall

PYTHON: dict[str, object] = {
    "description": "d",
    "runtime": "python",
    "entry": "def run(n):\n    return n",
    "inputSchema": NUMBER,
    "effect": "read",
}


async def placed(desk: Desk, *contents: dict[str, object], event: str = "turn_response") -> tuple[str, tuple[PlacedCall, ...]]:
    """Calls one tool of each content in one step of a turn; the turn, and the reasons of its calls."""
    uris = []
    for index, content in enumerate(contents):
        await desk.publish("tools", f"tool{index}", content)
        uris.append(f"resource://tools/tool{index}")
    image = await desk.create_image(tools=[*uris, "calculator"])
    await desk.ask("message_send", imageId=image["imageId"], content="go")
    heard = await desk.hear(event)
    turn_id = next(heard["data"]["turnId"] for heard in heard if heard["type"] == "turn_request")
    session_id = next(heard["context"]["sessionId"] for heard in heard if heard["type"] == "turn_request")
    assert "tool_placed" not in desk.types()
    store = desk.vm.store.tenant(desk.peer.tenant_id).placed_calls()
    return turn_id, await store.list_turn(SessionId(session_id), TurnId(turn_id))


async def test_each_call_has_the_rule_that_decided_and_the_verdict_on_each_tier() -> None:
    sandbox = {"runtime": "python", "isolator": "docker"}
    calls: list[tuple[str, str, dict[str, object]]] = [
        ("c0", "tool0", {"n": 1}),
        ("c1", "tool1", {"n": 1}),
        ("c2", "calculator", {"expression": "1+1"}),
    ]
    driver = ScriptedDriver(in_turn(tool_calls(*calls), reply("done")))
    async with open_desk(driver) as desk:
        await desk.publish("sandboxes", "box", sandbox)
        turn_id, reasons = await placed(desk, PYTHON, {**PYTHON, "sandbox": "resource://sandboxes/box"})
        by_call = {call.call_id: call for call in reasons}
        assert {call.policy for call in reasons} == {"default rule 3: any call"}
        assert by_call["c0"].tier == "process"
        assert ("process", "chosen") in by_call["c0"].why
        assert by_call["c1"].tier is None
        assert dict(by_call["c1"].why)["process"] == "weaker than container"
        assert (by_call["c2"].tier, by_call["c2"].why) == ("inline", ())
        explained = await desk.ask("tool_explain", turnId=turn_id, callId="c0")
        assert explained.items() >= {"tool": "tool0", "tier": "process", "policy": "default rule 3: any call"}.items()
        assert ["process", "chosen"] in explained["why"]
        assert (await desk.ask("tool_explain", turnId=turn_id, callId="c9"))["errorCode"] == "not_found"
        stranger = desk.another("rival")
        assert (await stranger.ask("tool_explain", turnId=turn_id, callId="c0"))["errorCode"] == "not_found"


async def test_a_call_that_waited_keeps_the_reason_of_the_rule_that_asked() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c0", "tool0", {"n": 1})), reply("done")))
    async with open_desk(driver) as desk:
        _, before = await placed(desk, {**PYTHON, "effect": "destructive"}, event="turn_parked")
        assert before == ()
        wait = next(heard["data"] for heard in desk.heard if heard["type"] == "tool_waiting")
        await desk.ask("tool_answer", waitId=wait["waitId"], fingerprint=wait["fingerprint"], decision="approve")
        await desk.hear("turn_response")
        store = desk.vm.store.tenant(desk.peer.tenant_id).placed_calls()
        session_id = next(heard["context"]["sessionId"] for heard in desk.heard if heard["type"] == "turn_request")
        (call,) = await store.list_turn(SessionId(session_id), TurnId(wait["turnId"]))
        assert (call.policy, call.tier) == ("default rule 1: destructive", "process")
