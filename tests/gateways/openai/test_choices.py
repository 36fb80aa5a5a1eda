from typing import Any

import openai
import pytest
from tests.gateways.openai.fixtures import talking

from agentvm.drivers.base import Prompt, ToolResultsEntry
from agentvm.drivers.scripted import ScriptStep, reply, tool_calls
from agentvm.errors import InvalidInput, Unprocessable
from agentvm.gateways.openai.choices import read_effort, read_tools, shown_choice

TOOL: dict[str, object] = {"name": "weather"}
CHOSEN: dict[str, Any] = {"type": "function", "function": {"name": "weather"}}


def test_a_choice_is_any_tool_or_one_of_them() -> None:
    def choice(chosen: Any) -> object:
        return read_tools(chosen, [TOOL]).get("toolChoice")

    assert [choice(chosen) for chosen in (None, "auto", "none", "required")] == [None, None, None, "required"]
    assert choice(CHOSEN) == choice({"type": "function", "name": "weather"}) == "weather"
    assert (read_tools("none", [TOOL]), read_tools("auto", [TOOL])) == ({}, {"tools": (TOOL,)})
    for wrong in ({"type": "function", "name": "other"}, "any", {}, {"type": "function"}):
        with pytest.raises((InvalidInput, Unprocessable), match="tool_choice"):
            read_tools(wrong, [TOOL])
    assert [shown_choice(choice) for choice in (None, "required")] == ["auto", "required"]
    assert shown_choice("weather") == {"type": "function", "name": "weather"}


def test_the_words_for_thinking_are_tokens_and_others_are_refused() -> None:
    efforts = [read_effort(word, "reasoning_effort") for word in (None, "none", "minimal", "low", "high", "xhigh")]
    assert efforts == [None, None, None, 5_000, 32_000, 32_000]
    with pytest.raises(InvalidInput, match="reasoning_effort must be one of none, minimal"):
        read_effort("ultra", "reasoning_effort")


def weather_then_text(prompt: Prompt) -> list[ScriptStep]:
    if isinstance(prompt.conversation[-1], ToolResultsEntry):
        return reply("It rains")
    return tool_calls(("call_1", "weather", {"city": "Oslo"}))


async def test_the_first_answer_has_to_call_the_chosen_tool_and_the_next_one_is_free() -> None:
    async with talking(weather_then_text) as (client, served):
        tool: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
        said: list[Any] = [{"role": "user", "content": "hi"}]
        about: dict[str, Any] = {"model": "default", "tools": [tool], "tool_choice": CHOSEN}
        first = await client.chat.completions.create(messages=said, **about)
        said += [first.choices[0].message.model_dump(exclude_none=True)]
        said += [{"role": "tool", "tool_call_id": "call_1", "content": "rain"}]
        await client.chat.completions.create(messages=said, **about)
        assert [prompt.tool_choice for prompt in served.model.prompts] == ["weather", None]
        function: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
        response = await client.responses.create(model="default", input="hi", tools=[function], tool_choice="required")
        assert (served.model.prompts[-1].tool_choice, response.tool_choice) == ("required", "required")
        other: Any = {"type": "function", "name": "other"}
        with pytest.raises(openai.BadRequestError, match="other is none of the tools"):
            await client.responses.create(model="default", input="hi", tools=[function], tool_choice=other)
