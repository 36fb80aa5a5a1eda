"""Agents that tools call: built into the image with all that they refer to, as they were locked."""

from typing import Any

import pytest
from tests.blueprint.test_builder import ADDER, GREETING, stored
from tests.operations.fixtures import Desk, open_desk

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptedDriver, reply, tool_calls
from agentvm.errors.resource import ResourceCycle

CALL: dict[str, Any] = {"description": "Asks the worker", "runtime": "agent", "entry": "resource://agents/worker@^1"}


async def publish_team(desk: Desk) -> None:
    await desk.publish("prompts", "work", GREETING)
    await desk.publish("tools", "adder", ADDER)
    worker = {"systemPrompt": "resource://prompts/work", "tools": ["resource://tools/adder"], "defaults": {"product": "tea"}}
    await desk.publish("agents", "worker", worker)
    await desk.publish("tools", "ask-worker", CALL)


async def test_an_agent_is_rendered_into_the_image_with_its_own_defaults_and_the_variables_of_the_image() -> None:
    async with open_desk() as desk:
        await publish_team(desk)
        config = {"tools": ["resource://tools/ask-worker"], "variables": {"who": "Ann"}}
        made = await desk.ask("image_create", containerId="c1", config=config)
        image = await stored(desk, made["record"])
        assert image.definition.tools == ("ask-worker",)
        assert image.definition.rendered is not None
        ((uri, agent),) = image.definition.rendered.agents.items()
        assert (uri, agent.system_prompt, agent.tools) == (
            "resource://agents/worker@1.0.0",
            "Sell tea to Ann.",
            ("calculator",),
        )
        (spec,) = image.definition.rendered.tools
        assert spec["inputSchema"]["required"] == ["task"]  # type: ignore[index]
        locked = {one["uri"] for one in made["record"]["lock"]}
        assert {uri, "resource://prompts/work@1.0.0", "resource://tools/adder@1.0.0"} <= locked


async def test_a_built_image_calls_its_agent() -> None:
    def script(prompt: Prompt) -> Any:
        if prompt.system == "Sell tea to Ann.":
            return reply("sold")
        return tool_calls(("c1", "ask-worker", {"task": "sell"})) if len(prompt.conversation) == 1 else reply("ok")

    async with open_desk(ScriptedDriver(script)) as desk:
        await publish_team(desk)
        config = {"tools": ["resource://tools/ask-worker"], "variables": {"who": "Ann"}}
        image_id = (await desk.ask("image_create", containerId="c1", config=config))["record"]["imageId"]
        await desk.ask("message_send", imageId=image_id, content="hi")
        heard = await desk.hear("turn_response")
        (done,) = [event for event in heard if event["type"] == "tool_completed"]
        assert done["data"]["result"] == "sold"
        explained = await desk.ask("tool_explain", turnId=done["context"]["turnId"], callId="c1")
        session = await desk.ask("session_get", sessionId=explained["sessionId"])
        assert session["session"]["parent"]["callId"] == "c1"
        refused = await desk.ask("message_send", imageId=image_id, sessionId=explained["sessionId"], content="you there?")
        assert "work of a sub-agent" in refused["error"]
        (agent,) = (await desk.ask("agent_list", containerId="c1"))["agents"]
        assert agent["imageId"] == image_id


async def test_agents_that_call_each_other_are_refused() -> None:
    async with open_desk() as desk:
        await desk.publish("agents", "worker", {"tools": []})
        await desk.publish("tools", "ask-worker", CALL)
        with pytest.raises(ResourceCycle):
            await desk.publish("agents", "worker", {"tools": ["resource://tools/ask-worker"]})


async def test_an_agent_whose_model_is_not_there_is_refused_when_the_image_is_built() -> None:
    async with open_desk() as desk:
        await desk.publish("agents", "worker", {"model": "nobody/none"})
        await desk.publish("tools", "ask-worker", CALL)
        refused = await desk.ask("image_create", containerId="c1", config={"tools": ["resource://tools/ask-worker"]})
        assert "resource://agents/worker@1.0.0" in refused["error"]


async def test_a_face_of_a_tool_that_calls_an_agent_is_refused() -> None:
    async with open_desk() as desk:
        await desk.publish("agents", "worker", {"tools": []})
        await desk.publish("tools", "ask-worker", CALL)
        await desk.publish("tools", "face", {**ADDER, "runtime": "python", "entry": "resource://tools/ask-worker"})
        refused = await desk.ask("image_create", containerId="c1", config={"tools": ["resource://tools/face"]})
        assert "name that tool itself" in refused["error"]


async def test_agents_that_are_handed_over_to_are_rendered_and_locked() -> None:
    async with open_desk() as desk:
        await publish_team(desk)
        await desk.publish("agents", "front", {"handoffs": ["resource://agents/worker@^1"], "tools": []})
        config = {"definition": "resource://agents/front", "variables": {"who": "Ann"}}
        made = await desk.ask("image_create", containerId="c1", config=config)
        image = await stored(desk, made["record"])
        assert image.definition.rendered is not None
        assert image.definition.rendered.handoffs == ("resource://agents/worker@1.0.0",)
        assert [*image.definition.rendered.agents] == ["resource://agents/worker@1.0.0"]
        assert image.definition.handoffs == ()
