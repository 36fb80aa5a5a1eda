"""One turn at work: what the model is sent, what its tools do, and how it goes on after a restart."""

import pytest
from tests.runtime.fixtures import left, open_world, tool, types

from agentvm.drivers.base import ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors import SessionQuarantined
from agentvm.model.definition import Definition
from agentvm.model.message import ToolCall
from agentvm.model.usage import Usage
from agentvm.runtime.recovery.progress import Done


async def ok(arguments: dict[str, object]) -> object:
    return "fine"


async def test_the_prompt_says_what_the_definition_says() -> None:
    driver = ScriptedDriver()
    definition = Definition(name="poet", system_prompt="rhyme", tools=(), max_tokens=50, thinking=3_000, temperature=0.4)
    async with open_world(driver, definition=definition) as world:
        await world.say(world.start(), "hi")
        await world.hear("turn_response")
        (prompt,) = driver.prompts
        assert (prompt.system, prompt.tools, prompt.max_tokens) == ("rhyme", (), 50)
        assert (prompt.thinking, prompt.temperature) == (3_000, 0.4)


async def test_results_of_tools_are_in_the_next_prompt() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "ok", {}), ("c2", "ok", {})), reply("done")))
    async with open_world(driver, tools=[tool("ok", ok)]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        answered = driver.prompts[1].conversation[-1]
        assert isinstance(answered, ToolResultsEntry)
        assert [(one.output.type, one.output.value) for one in answered.results] == [("text", "fine")] * 2


async def test_what_a_tool_may_have_done_is_told_to_the_model_and_what_may_be_repeated_is() -> None:
    runs: list[str] = []

    async def hammer(arguments: dict[str, object]) -> object:
        runs.append("hammer")
        return None

    async def look(arguments: dict[str, object]) -> object:
        runs.append("look")
        return "seen"

    tools = [tool("hammer", hammer), tool("look", look, repeatable=True)]
    async with open_world(ScriptedDriver(), tools=tools) as world:
        spent = Usage(input_tokens=7, output_tokens=9)
        calls = tuple(ToolCall(id=name, name=name, input={}) for name in ("hammer", "look"))
        agent = world.start()
        agent.release(agent.resume(left(world), Done(unanswered=calls, usage=spent, call_ids=frozenset({"hammer", "look"}))))
        heard = await world.hear("turn_response")
        assert types(heard)[1:] == [
            "turn_resumed", "tool_result", "tool_result_message", "tool_failed",
            "tool_result", "tool_result_message", "tool_completed", *types(heard)[8:],
        ]  # fmt: skip
        assert runs == ["look"]
        assert heard[-1]["data"]["usage"]["inputTokens"] >= 7
        assert await world.store.list_unfinished() == ()


async def test_a_turn_that_was_begun_too_often_fails_and_its_session_is_set_aside() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        agent.release(agent.resume(left(world, attempts=3)))
        heard = await world.hear("turn_response")
        assert [event["data"]["code"] for event in heard if event["type"] == "error_occurred"] == ["turn_limit_reached"]
        with pytest.raises(SessionQuarantined, match="did not survive a turn of it 4 times"):
            await agent.receive("again")
        ((_, session),) = await world.store.list_quarantined()
        assert session.session_id == world.image.session_id


async def test_a_restart_that_was_announced_uses_up_no_attempt() -> None:
    driver = ScriptedDriver()
    async with open_world(driver) as world:
        agent = world.start()
        agent.release(agent.resume(left(world, attempts=3), Done(), suspended=True))
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"
        assert [event["data"]["attempt"] for event in heard if event["type"] == "turn_resumed"] == [3]


async def test_ids_after_a_restart_are_new_ones() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        for suspended in (False, True, True):
            agent.release(agent.resume(left(world), Done(), suspended=suspended))
        heard = await world.hear("turn_response", times=3)
        ids = [event["data"]["messageId"] for event in heard if event["type"] == "message_start"]
        assert len(ids) == len(set(ids)) == 3
