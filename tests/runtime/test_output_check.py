"""Answers that must fit a schema: checked, repaired at most twice, and kept when they do not fit."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.runtime.fixtures import open_world, tool, types

from agentvm.drivers.base import UserEntry
from agentvm.drivers.scripted import Pause, ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors import ProviderBadRequest
from agentvm.errors.bounds import OutputMisfit
from agentvm.model.definition import Definition
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import AssistantMessage, TextPart, ToolCall, ToolCallMessage
from agentvm.model.turn import OutputFormat
from agentvm.runtime.output_check import REPAIRS_MAX, OutputCheck, answers_of
from agentvm.runtime.turn_state import Unchecked

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["city", "people"],
}
CITY = OutputFormat(name="city", schema=SCHEMA)
GOOD = '{"city": "Ulm", "people": 126000}'
DEFINITION = Definition(name="default", output=CITY)


def said(text: str) -> AssistantMessage:
    content = (TextPart(text=text),)
    return AssistantMessage(id=MessageId("m"), timestamp=1, turn_id=TurnId("turn_1"), role="assistant", content=content)


@pytest.mark.parametrize("text", [GOOD, f"  {GOOD}\n", f"```json\n{GOOD}\n```", f"```\n{GOOD}```"])
def test_json_is_read_with_and_without_a_fence(text: str) -> None:
    assert OutputCheck(CITY).read(Unchecked(text, "end_turn")) == ({"city": "Ulm", "people": 126000},)


DEEP = '{"city":' * 80 + "1" + "}" * 80
HUGE = '{"city": "Ulm", "people": 1' + "0" * 40 + "}"


@pytest.mark.parametrize(
    "text", ["", "hello", "[" * 5_000, '{"city": 3, "people": -1}', f"{GOOD} is right", "NaN", "``````", DEEP, HUGE]
)
def test_anything_else_is_asked_for_again_twice_and_then_refused(text: str) -> None:
    check = OutputCheck(CITY)
    for _ in range(REPAIRS_MAX):
        assert check.read(Unchecked(text, "end_turn")) is None
        assert "city" in str(check.instruction)
    with pytest.raises(OutputMisfit, match="does not fit the schema of city"):
        check.read(Unchecked(text, "end_turn"))


@pytest.mark.parametrize(("stop", "why"), [("max_tokens", "maxTokens"), ("refusal", "refused")])
def test_an_answer_that_was_cut_short_is_not_paid_for_again(stop: str, why: str) -> None:
    with pytest.raises(OutputMisfit, match=why):
        OutputCheck(CITY).read(Unchecked('{"city": "U', stop))  # type: ignore[arg-type]


async def test_an_answer_that_fits_is_the_output_of_the_turn() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "look", {})), reply('{"city": "Ulm",', ' "people": 126000}')))

    async def look(arguments: dict[str, object]) -> object:
        return "seen"

    async with open_world(driver, definition=DEFINITION, tools=[tool("look", look)]) as world:
        await world.say(world.start(), "Which city?")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"
        assert heard[-1]["data"]["output"] == {"city": "Ulm", "people": 126000}
        assert types(heard).count("conversation_end") == 1
        assert [prompt.output for prompt in driver.prompts] == [CITY, CITY]


async def test_a_misfit_is_repaired_and_both_calls_are_billed() -> None:
    driver = ScriptedDriver(in_turn(reply('{"city": "Ulm"}'), reply(GOOD)))
    async with open_world(driver, definition=DEFINITION) as world:
        agent = world.start()
        await world.say(agent, "Which city?")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["output"] == {"city": "Ulm", "people": 126000}
        assert heard[-1]["data"]["usage"]["outputTokens"] == 2
        assert [event["data"]["draft"] for event in heard if event["type"] == "message_start"] == [True, True]
        asked = driver.prompts[1].conversation[-1]
        assert isinstance(asked, UserEntry)
        assert '"people" is a required property' in str(asked.content)
        # The wish is no message of the session, and the next turn does not repeat it.
        await world.say(agent, "And now?")
        await world.hear("turn_response", times=2)
        assert [entry.content for entry in driver.prompts[2].conversation if isinstance(entry, UserEntry)] == [
            "Which city?",
            "And now?",
        ]


async def test_a_turn_whose_answer_never_fits_fails_and_keeps_the_text() -> None:
    driver = ScriptedDriver(in_turn(reply("I would rather not.")))
    async with open_world(driver, definition=DEFINITION) as world:
        await world.say(world.start(), "Which city?")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "failed"
        assert "output" not in heard[-1]["data"]
        assert [event["data"]["code"] for event in heard if event["type"] == "error_occurred"] == ["output_misfit"]
        assert len(driver.prompts) == 1 + REPAIRS_MAX
        kept = [message.text for message in await world.messages() if isinstance(message, AssistantMessage)]
        assert kept == ["I would rather not."] * (1 + REPAIRS_MAX)


async def test_a_provider_that_does_not_enforce_schemas_is_asked_without_and_the_refused_call_is_free() -> None:
    refusal = ProviderBadRequest("the provider refused the request")
    refusal.provider_message = "This response_format type is unavailable now"
    driver = ScriptedDriver(in_turn([refusal], reply(GOOD)))
    async with open_world(driver, definition=DEFINITION) as world:
        await world.say(world.start(), "Which city?")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["output"]["city"] == "Ulm"
        assert [prompt.constrains for prompt in driver.prompts] == [True, False]
        assert heard[-1]["data"]["usage"]["outputTokens"] == 1


async def test_a_provider_that_cannot_enforce_the_input_of_the_tools_is_asked_without() -> None:
    refusal = ProviderBadRequest("the provider refused the request")
    refusal.provider_message = "The compiled grammar is too large. Reduce the number of strict tools."
    driver = ScriptedDriver(in_turn([refusal], reply("Done.")))
    async with open_world(driver) as world:
        await world.say(world.start(), "Look it up")
        assert (await world.hear("turn_response"))[-1]["data"]["outcome"] == "completed"
        await world.say(world.start(), "And this?")
        await world.hear("turn_response", times=2)
        assert [prompt.constrains for prompt in driver.prompts] == [True, False, False]


async def test_a_repair_goes_on_after_a_restart_and_its_wishes_are_counted_from_before(tmp_path: Path) -> None:
    held = anyio.Event()
    first = ScriptedDriver(in_turn(reply("no"), reply("still no"), [Pause(held)]))
    path = tmp_path / "avm.db"
    async with open_world(first, definition=DEFINITION, path=path, suspends=True) as world:
        await world.say(world.start(), "Which city?")
        await world.hear("message_stop", times=2)
        with anyio.fail_after(60):
            while len(first.prompts) < 3:
                await anyio.lowlevel.checkpoint()
    second = ScriptedDriver(in_turn(reply("never")))
    async with open_world(second, definition=DEFINITION, path=path) as world:
        heard = await world.hear("turn_response")
        assert [event["data"]["code"] for event in heard if event["type"] == "error_occurred"] == ["output_misfit"]
        # Of three answers two were given before.
        assert len(second.prompts) == 1
        assert "it is not JSON" in str(second.prompts[0].conversation[-1])


def test_the_answers_at_the_end_of_a_turn_are_those_after_its_last_call() -> None:
    turn_id = TurnId("turn_1")
    call = ToolCallMessage(
        id=MessageId("c"),
        timestamp=1,
        turn_id=turn_id,
        role="assistant",
        tool_call=ToolCall(id="c", name="look", input={}),
        parent_id=MessageId("m"),
    )
    assert answers_of([said("before"), call, said("one"), said("two")], turn_id) == ["one", "two"]
    assert answers_of([said("one"), call], turn_id) == []
    assert answers_of([said("one")], TurnId("turn_2")) == []
