"""What `allowed-tools` of a skill does: from the moment the model has read the skill, other tools need an approval."""

from typing import Any

import pytest
from tests.blueprint.test_builder import stored
from tests.operations.fixtures import Desk, open_desk

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.ids import TurnId
from agentvm.model.message import DeniedOutput, ToolResultMessage
from agentvm.model.policy import Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings
from agentvm.runtime.call_skills import CallSkills
from agentvm.runtime.policy import PolicyLayer
from agentvm.runtime.skill_rules import skill_rules

pytestmark = pytest.mark.anyio

PDF = "resource://skills/pdf"
NAMED: dict[str, object] = {"name": "pdf"}
LOAD = ("c1", "load_skill", NAMED)
ADD: dict[str, object] = {"expression": "1 + 1"}
WHY = "allowed-tools of the skill pdf, rule"


def skill(allowed: str, body: str = "Do it.") -> dict[str, Any]:
    return {"text": f"---\nname: pdf\ndescription: Reads PDF.\nallowed-tools: {allowed}\n---\n{body}\n"}


async def begin(desk: Desk, allowed: str, body: str = "Do it.") -> Any:
    """An agent that was sent a message; its record."""
    await desk.publish("skills", "pdf", skill(allowed, body))
    record = await desk.create_image(skills=[PDF])
    await desk.ask("message_send", imageId=record["imageId"], content="go")
    return record


async def open_wait(desk: Desk, times: int = 1) -> Any:
    await desk.hear("turn_parked", times=times)
    (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
    return wait


async def approve(desk: Desk, wait: Any) -> None:
    await desk.ask("tool_answer", waitId=wait["waitId"], fingerprint=wait["fingerprint"], decision="approve")


async def messages_of(desk: Desk, record: Any) -> Any:
    image = await stored(desk, {"containerId": "c1", "imageId": record["imageId"]})
    return (await desk.peer.store.container(image.container_id).log(image.session_id).recall()).messages


@pytest.mark.parametrize("allowed", ["'*'", "'calc*'", "'[a-z]*'", "'Calculator'", "Bash(git:*) Read", "no_such_tool", "[]"])
async def test_names_that_match_no_tool_allow_nothing_but_to_read(allowed: str) -> None:
    driver = ScriptedDriver(
        in_turn(tool_calls(LOAD), tool_calls(("c2", "calculator", ADD), ("c3", "load_skill", NAMED)), reply("done"))
    )
    async with open_desk(driver) as desk:
        record = await begin(desk, allowed)
        wait = await open_wait(desk)
        assert (wait["tool"], wait["kind"]) == ("calculator", "approval")
        assert WHY in wait["why"]
        await approve(desk, wait)
        assert (await desk.hear("turn_response"))[-1]["data"]["outcome"] == "completed"
        results = [message for message in await messages_of(desk, record) if isinstance(message, ToolResultMessage)]
        assert sorted(message.tool_call_id for message in results) == ["c1", "c2", "c3"]


async def test_a_name_allows_no_more_than_the_other_rules_do() -> None:
    rules = (PolicyRule(tool="calculator", do="deny"), PolicyRule(tool="load_skill", do="ask"))
    driver = ScriptedDriver(in_turn(tool_calls(LOAD), tool_calls(("c2", "calculator", ADD)), reply("done")))
    async with open_desk(driver, tool_settings=ToolSettings(policy=Policy(rules=rules))) as desk:
        record = await begin(desk, "calculator load_skill")
        wait = await open_wait(desk)
        assert (wait["tool"], WHY in wait["why"]) == ("load_skill", False)
        await approve(desk, wait)
        await desk.hear("turn_response")
        last = [message for message in await messages_of(desk, record) if isinstance(message, ToolResultMessage)][-1]
        assert isinstance(last.tool_result.output, DeniedOutput)


async def test_the_rules_hold_for_the_turn_also_after_it_was_parked_and_however_long_the_skill_is() -> None:
    long = "word " * 50_000
    steps = [
        tool_calls(LOAD, ("c2", "calculator", ADD)),
        tool_calls(("c3", "calculator", ADD)),
        tool_calls(("c4", "calculator", ADD), ("c5", "current_time", {})),
        reply("done"),
        tool_calls(("c6", "calculator", ADD)),
        reply("done"),
    ]
    async with open_desk(ScriptedDriver(in_turn(*steps))) as desk:
        record = await begin(desk, "current_time", long)
        # Asked for before the skill was read.
        first = await open_wait(desk)
        assert first["callId"] == "c3"
        await approve(desk, first)
        second = await open_wait(desk, times=2)
        assert (second["callId"], WHY in second["why"]) == ("c4", True)
        await approve(desk, second)
        await desk.hear("turn_response")
        await desk.ask("message_send", imageId=record["imageId"], content="again")
        assert (await desk.hear("turn_response", times=2))[-1]["data"]["outcome"] == "completed"


async def test_calls_from_before_a_restart_have_the_rules_that_they_were_asked_for_under() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(LOAD), tool_calls(("c2", "current_time", {})), reply("done")))
    async with open_desk(driver) as desk:
        record = await begin(desk, "current_time, Bash(rm *)")
        turn_id = TurnId((await desk.hear("turn_response"))[-1]["data"]["turnId"])
        image, messages = (
            await stored(desk, {"containerId": "c1", "imageId": record["imageId"]}),
            await messages_of(desk, record),
        )
        skills = CallSkills(desk.vm.store, image, desk.peer.tenant_id)
        (layer,) = await skill_rules(skills, messages, turn_id, {"c2"})
        assert isinstance(layer, PolicyLayer)
        assert (layer.only_tightens, layer.rules[-1]) == (True, PolicyRule(do="ask"))
        assert [rule.tool for rule in layer.rules if rule.do == "allow"][-1] == "current_time"
        assert await skill_rules(skills, messages, turn_id, {"c1", "c2"}) == ()
        assert await skill_rules(skills, messages, TurnId("turn_other")) == ()
