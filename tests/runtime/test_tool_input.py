from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drivers.fixtures import settings
from tests.runtime.fixtures import open_world
from tests.support.answers import anthropic_text, anthropic_tools, openai_text, openai_tools
from tests.support.provider import Answer, open_provider

from agentvm.drivers import anthropic, openai
from agentvm.drivers.base import Driver, DriverSettings
from agentvm.model.definition import Definition
from agentvm.model.message import ErrorTextOutput, ToolCallMessage, ToolResultMessage
from agentvm.runtime.tool_input import DEPTH_MAX, TOO_LONG, depth_of, depth_of_text, parse_input


def nested(depth: int) -> str:
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


@pytest.mark.parametrize(
    ("json", "arguments"),
    [("", {}), (" ", {}), ("{}", {}), ('{"a": 1}', {"a": 1})],
)
def test_an_object_is_the_input_and_nothing_is_an_empty_one(json: str, arguments: dict[str, object]) -> None:
    assert parse_input(json) == (arguments, None)


@pytest.mark.parametrize("json", ["[1]", '"text"', '{"a": ', "{" * 5_000, nested(DEPTH_MAX + 1)])
def test_what_is_no_object_or_nested_too_deeply_is_refused_with_a_reason(json: str) -> None:
    arguments, problem = parse_input(json)
    assert arguments == {}
    assert problem is not None


def test_the_deepest_that_is_allowed_is_taken() -> None:
    assert parse_input(nested(DEPTH_MAX))[1] is None


JSON = st.recursive(st.text('[]{}"\\a'), lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}"\\'), inner))


@given(JSON)
def test_the_text_of_a_value_is_as_deep_as_the_value(value: object) -> None:
    levels = depth_of(value) - (0 if isinstance(value, dict | list) else 1)
    assert depth_of_text(msgspec.json.encode(value).decode()) in (levels, levels - 1)


Open = Callable[[DriverSettings], AbstractAsyncContextManager[Driver]]
Call = Callable[[tuple[str, str, list[str]]], Answer]


@pytest.mark.parametrize(
    ("name", "open_driver", "call", "say"),
    [
        ("anthropic", anthropic.open_driver, anthropic_tools, anthropic_text),
        ("openai", openai.open_driver, openai_tools, openai_text),
    ],
)
@pytest.mark.parametrize("pieces", [1, 5])
async def test_an_input_that_is_too_long_is_its_calls_error_and_is_not_kept(
    name: str, open_driver: Open, call: Call, say: Callable[[str], Answer], pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentvm.runtime.turn_calls.INPUT_MAX_CHARACTERS", 50_000)
    long = "x" * (50_000 // pieces)
    async with open_provider() as provider, open_driver(settings(provider)) as driver:
        provider.play(
            call(("c1", "calculator", ['{"expression": "', *[long] * pieces, '"}'])), say("Too long."), say("Still here.")
        )
        async with open_world(driver, definition=Definition(name="default", model=f"{name}/m", tools=("calculator",))) as world:
            agent = world.start()
            for text in ("Add everything.", "Are you there?"):
                (*_, end) = await world.hear("turn_response", turn_id=await world.say(agent, text))
                assert end["data"]["outcome"] == "completed"
            messages = await world.messages()
        (asked,) = [message for message in messages if isinstance(message, ToolCallMessage)]
        assert asked.tool_call.input == {}
        (answered,) = [message for message in messages if isinstance(message, ToolResultMessage)]
        assert answered.tool_result.output == ErrorTextOutput(value=TOO_LONG)
        assert [len(request.body) < 10_000 for request in provider.requests] == [True] * 3
