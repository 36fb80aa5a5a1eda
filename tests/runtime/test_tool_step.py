"""The calls of one step: who is asked for which, and what the model hears of it."""

import pytest
from tests.runtime.fixtures import open_world, tool

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.message import ContentOutput, ImagePart, TextPart, ToolResultMessage
from agentvm.model.wait import WaitAnswer
from agentvm.runtime.tools import Tool
from agentvm.tools.base import CallResult, ResultImage

pytestmark = pytest.mark.anyio


async def ok(arguments: dict[str, object]) -> object:
    return "fine"


def kind(**traits: object) -> Tool:
    plain = tool("ok", ok)
    return Tool(spec=plain.spec, run=plain.run, **traits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("traits", "asks"),
    [
        ({}, False),
        ({"effect": "write"}, False),
        ({"world": "open"}, False),
        ({"effect": "write", "world": "open"}, True),
        ({"asks": True}, True),
        ({"waits_for": "client"}, True),
    ],
)
async def test_what_a_tool_can_do_decides_whether_somebody_is_asked(traits: dict[str, object], asks: bool) -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "ok", {})), reply("done")))
    async with open_world(driver, tools=[kind(**traits)]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked" if asks else "turn_response")


async def test_the_result_of_an_open_tool_is_marked_as_a_strangers_text() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "ok", {})), reply("done")))
    async with open_world(driver, tools=[kind(world="open")]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        (result,) = [one.tool_result for one in await world.messages() if isinstance(one, ToolResultMessage)]
        assert result.tainted


async def test_a_clients_tool_has_the_result_that_the_client_sends() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "ok", {})), reply("done")))
    async with open_world(driver, tools=[kind(waits_for="client", timeout_seconds=60.0)]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        waits = world.store.tenant(DEFAULT_TENANT).waits((world.image.container_id,))
        ((_, wait),) = await waits.list_page(session_id=world.image.session_id, state="open", after=0, limit=5)
        assert (wait.kind, wait.expires_at - wait.asked_at, wait.decisions) == ("client", 60_000, ("answer", "deny"))
        await world.runtime.answer_wait(DEFAULT_TENANT, wait, WaitAnswer(decision="answer", result={"photo": 7}), None)
        await world.hear("turn_response")
        (result,) = [one.tool_result for one in await world.messages() if isinstance(one, ToolResultMessage)]
        assert result.output.text == '{"photo":7}'


async def test_an_approval_that_is_remembered_is_not_asked_for_again() -> None:
    calls = [tool_calls(("c1", "ok", {})), reply("once"), tool_calls(("c2", "ok", {})), reply("twice")]
    async with open_world(ScriptedDriver(in_turn(*calls)), tools=[kind(asks=True)]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        waits = world.store.tenant(DEFAULT_TENANT).waits((world.image.container_id,))
        ((_, wait),) = await waits.list_page(session_id=None, state="open", after=0, limit=5)
        assert wait.may_remember
        await world.runtime.answer_wait(DEFAULT_TENANT, wait, WaitAnswer(decision="approve", remember="session"), None)
        await world.hear("turn_response")
        await world.say(world.start(), "again")
        await world.hear("turn_response", times=2)
        assert sum(event["type"] == "tool_waiting" for event in world.heard) == 1


async def test_the_note_of_an_edited_call_stands_beside_its_pictures() -> None:
    async def draw(arguments: dict[str, object]) -> object:
        return CallResult(type="content", parts=(ResultImage(data=b"png", media_type="image/png"),))

    plain = tool("ok", draw)
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "ok", {})), reply("done")))
    async with open_world(driver, tools=[Tool(spec=plain.spec, run=plain.run, asks=True)]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        waits = world.store.tenant(DEFAULT_TENANT).waits((world.image.container_id,))
        ((_, wait),) = await waits.list_page(session_id=world.image.session_id, state="open", after=0, limit=5)
        await world.runtime.answer_wait(DEFAULT_TENANT, wait, WaitAnswer(decision="edit", input={"n": 2}), None)
        await world.hear("turn_response")
        (result,) = [one.tool_result for one in await world.messages() if isinstance(one, ToolResultMessage)]
        assert isinstance(result.output, ContentOutput)
        note, picture = result.output.value
        assert isinstance(note, TextPart)
        assert ("A person changed the input" in note.text, '"input":{"n":2}' in note.text) == (True, True)
        assert isinstance(picture, ImagePart)
