from itertools import count

import pytest

from agentvm.errors import InvalidInput
from agentvm.model.message import (
    AssistantMessage,
    ImagePart,
    TextPart,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    UserMessage,
)
from agentvm.sessions.seeding import SeedMessage, seeded, text_of


def test_a_history_becomes_messages_with_calls_and_results() -> None:
    numbers = count()
    call = ToolCall(id="c1", name="weather", input={"city": "Oslo"})
    seeds = (
        SeedMessage(role="user", content="hi"),
        SeedMessage(role="assistant", content="wait", tool_calls=(call,)),
        SeedMessage(role="tool", content="rain", tool_call_id="c1"),
        SeedMessage(role="assistant"),
    )
    user, said, called, result, silent = seeded(seeds, lambda prefix: f"{prefix}_{next(numbers)}", 5)
    assert isinstance(user, UserMessage)
    assert isinstance(said, AssistantMessage)
    assert said.text == "wait"
    assert isinstance(called, ToolCallMessage)
    assert (called.tool_call, called.parent_id) == (call, said.id)
    assert isinstance(result, ToolResultMessage)
    assert (result.tool_result.name, result.tool_result.output.text) == ("weather", "rain")
    assert isinstance(silent, AssistantMessage)
    assert silent.content == ()
    assert {message.timestamp for message in (user, said, called, result)} == {5}


def test_a_result_without_its_call_is_refused() -> None:
    with pytest.raises(InvalidInput, match="c9"):
        seeded((SeedMessage(role="tool", tool_call_id="c9"),), lambda prefix: prefix, 1)


def test_the_text_of_parts_is_joined() -> None:
    assert text_of((TextPart(text="a"), ImagePart(data="x", media_type="image/png"), TextPart(text="b"))) == "ab"
