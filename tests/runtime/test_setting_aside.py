"""One picture that the provider refuses: its turn says so, and the conversation goes on; with both vendors' errors."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.drivers.fixtures import settings
from tests.runtime.fixtures import World, open_world, tool
from tests.support import answers
from tests.support.provider import Answer, open_provider

from agentvm.drivers import anthropic, openai
from agentvm.drivers.base import Driver, DriverSettings, Prompt, UserEntry
from agentvm.drivers.refusal import explain
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.errors import ProviderBadRequest
from agentvm.model.ids import DEFAULT_TENANT, MessageId
from agentvm.model.message import ImagePart, TextPart, UserContent
from agentvm.model.session import RefusedPart
from agentvm.tools.base import CallResult, ResultImage, ResultText

CAT = ImagePart(data="aGk=", media_type="image/png", name="cat.png")
NOTE = "[image cat.png: refused by the provider]"


async def say(world: World, content: UserContent) -> list[dict[str, Any]]:
    """What is heard of one turn."""
    agent = world.start()
    accepted = await agent.receive(content)
    agent.release(accepted)
    turn_id = accepted.state.turn_id
    heard = await world.hear("turn_response", turn_id=turn_id)
    return [event for event in heard if event["context"].get("turnId") == turn_id]


def error_of(heard: list[dict[str, Any]]) -> str | None:
    return next((str(event["data"]["message"]) for event in heard if event["type"] == "error_occurred"), None)


async def refused_parts(world: World) -> frozenset[RefusedPart]:
    image = world.image
    return (await world.store.tenant(DEFAULT_TENANT).container(image.container_id).log(image.session_id).recall()).refused


Open = Callable[[DriverSettings], AbstractAsyncContextManager[Driver]]

ANTHROPIC = answers.failure(
    400,
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6 bytes > 5 bytes",
        },
    },
)
OPENAI = answers.failure(
    400,
    {
        "error": {
            "message": "Invalid image.",
            "type": "invalid_request_error",
            "param": "messages.[0].content.[1].image_url",
            "code": "image_parse_error",
        }
    },
)


@pytest.mark.parametrize(
    ("open_driver", "path", "refusal", "answer"),
    [
        pytest.param(anthropic.open_driver, "", ANTHROPIC, answers.anthropic_text("fine"), id="anthropic"),
        pytest.param(openai.open_driver, "/v1", OPENAI, answers.openai_text("fine"), id="openai"),
    ],
)
async def test_a_picture_that_is_refused_fails_its_turn_and_no_later_one(
    open_driver: Open, path: str, refusal: Answer, answer: Answer
) -> None:
    async with open_provider() as provider, open_driver(settings(provider, path=path)) as driver, open_world(driver) as world:
        provider.play(refusal, answer)
        heard = await say(world, (TextPart(text="what is this?"), CAT))
        assert heard[-1]["data"]["outcome"] == "failed"
        said = error_of(heard) or ""
        assert "refused the image cat.png" in said
        assert "answered without it" in said
        assert await refused_parts(world) == {RefusedPart(MessageId(heard[0]["data"]["messageId"]), 1)}
        heard = await say(world, "never mind. And now?")
        assert heard[-1]["data"]["outcome"] == "completed"
        assert len(provider.requests) == 2
        sent = str(provider.requests[-1].json()["messages"])
        assert NOTE in sent
        assert "aGk=" not in sent
        assert "what is this?" in sent
        # What was said stays in the history as it was said.
        assert CAT in (await world.messages())[0].content  # type: ignore[union-attr]


def refused(said: str, place: tuple[int, int | None] | None = None) -> ProviderBadRequest:
    error = ProviderBadRequest(f"refused: {said}")
    error.provider_message = said
    explain(error, ())
    error.place = place
    return error


def has_picture(prompt: Prompt) -> bool:
    return "ImagePart" in str(prompt.conversation)


async def test_an_older_picture_that_is_refused_now_is_set_aside_within_the_turn() -> None:
    picky = False

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        return [refused("Could not process image")] if picky and has_picture(prompt) else reply("fine")

    driver = ScriptedDriver(script)
    async with open_world(driver) as world:
        assert (await say(world, (TextPart(text="look"), CAT)))[-1]["data"]["outcome"] == "completed"
        # As when another model is chosen.
        picky = True
        heard = await say(world, "and now?")
        assert (heard[-1]["data"]["outcome"], error_of(heard)) == ("completed", None)
        assert len(await refused_parts(world)) == 1
        calls = len(driver.prompts)
        assert (await say(world, "and then?"))[-1]["data"]["outcome"] == "completed"
        assert len(driver.prompts) == calls + 1


async def test_a_guess_that_does_not_help_is_not_kept_and_the_first_error_is_told() -> None:
    driver = ScriptedDriver(lambda prompt: reply("fine"))
    async with open_world(driver) as world:
        await say(world, (TextPart(text="look"), CAT))
        driver._script = lambda prompt: [refused("roles must alternate")]
        heard = await say(world, "and now?")
        assert "roles must alternate" in (error_of(heard) or "")
        assert await refused_parts(world) == frozenset()
        # As it was, and once without what is no plain text.
        assert len(driver.prompts) == 3


async def test_what_is_wrong_with_the_whole_request_is_asked_once() -> None:
    driver = ScriptedDriver(lambda prompt: [refused("prompt is too long: 9 tokens > 8")])
    async with open_world(driver) as world:
        heard = await say(world, (TextPart(text="look"), CAT))
        assert "too long" in (error_of(heard) or "")
        assert (len(driver.prompts), await refused_parts(world)) == (1, frozenset())


async def test_a_refusal_after_something_was_said_is_the_end_of_the_turn() -> None:
    driver = ScriptedDriver(lambda prompt: [*reply("some")[:3], refused("Could not process image", (0, 1))])
    async with open_world(driver) as world:
        heard = await say(world, (TextPart(text="look"), CAT))
        assert heard[-1]["data"]["outcome"] == "failed"
        assert len(driver.prompts) == 1


async def test_of_a_tools_result_only_the_picture_that_is_refused_is_set_aside() -> None:
    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        if isinstance(prompt.conversation[-1], UserEntry) and len(driver.prompts) == 1:
            return tool_calls(("c1", "paint", {}), ("c2", "measure", {}))
        return [refused("Could not process image")] if has_picture(prompt) else reply("fine")

    async def paint(arguments: dict[str, object]) -> object:
        return CallResult(type="content", parts=(ResultText(text="A plot."), ResultImage(data=b"x", media_type="image/png")))

    async def measure(arguments: dict[str, object]) -> object:
        return "42 degrees"

    driver = ScriptedDriver(script)
    async with open_world(driver, tools=[tool("paint", paint), tool("measure", measure)]) as world:
        heard = await say(world, "go")
        assert (heard[-1]["data"]["outcome"], error_of(heard)) == ("completed", None)
        told = str(driver.prompts[-1].conversation)
        assert "[image image/png: refused by the provider]" in told
        assert "A plot." in told
        assert "42 degrees" in told
        assert len(await refused_parts(world)) == 1
        # Later turns are not refused any more, and the history has the picture as it was.
        calls = len(driver.prompts)
        assert (await say(world, "and then?"))[-1]["data"]["outcome"] == "completed"
        assert len(driver.prompts) == calls + 1
        assert "attachment:sha256:" in str(await world.messages())
