"""The shape of Claude's export, as its users have documented it: written here, of nobody's account."""

import pytest

from agentvm.model.message import AssistantMessage, TextPart, ThinkingPart, ToolCallMessage, ToolResultMessage, UserMessage
from agentvm.sessions.claude import parse
from agentvm.sessions.line import Unfit

CONVERSATION = {
    "uuid": "c1",
    "name": "Weather",
    "created_at": "2025-03-01T10:00:00.000000Z",
    "updated_at": "2025-03-01T10:05:00.000000Z",
    "account": {"uuid": "a"},
    "chat_messages": [
        {
            "uuid": "m1",
            "text": "Is it raining?",
            "content": [{"type": "text", "text": "Is it raining?"}],
            "sender": "human",
            "created_at": "2025-03-01T10:00:01Z",
            "attachments": [{"file_name": "note.txt", "file_size": 3, "file_type": "txt", "extracted_content": "Kyoto"}],
            "files": [{"file_name": "map.png"}],
        },
        {
            "uuid": "m2",
            "text": "",
            "content": [
                {"type": "thinking", "thinking": "look it up"},
                {"type": "tool_use", "name": "weather", "input": {"city": "Kyoto"}},
                {"type": "tool_result", "name": "weather", "content": [{"type": "text", "text": "sun"}], "is_error": False},
                {"type": "text", "text": "No."},
                {"type": "newer", "what": 1},
            ],
            "sender": "assistant",
            "created_at": "2025-03-01T10:00:02Z",
        },
        {"uuid": "m3", "text": "Thanks", "sender": "human", "created_at": "x"},
        {"uuid": "m4", "text": "Welcome", "sender": "assistant", "content": []},
        {"uuid": "m5", "text": "?", "sender": "somebody"},
    ],
}


def test_messages_come_in_with_their_parts() -> None:
    (made,) = parse([CONVERSATION])
    assert (made.title, made.created_at) == ("Weather", 1_740_823_200_000)
    asked, thought, call, result, said, thanks, welcome = made.messages
    assert isinstance(asked, UserMessage)
    assert asked.content == (TextPart(text="Is it raining?"), TextPart(text="[note.txt]\nKyoto"), TextPart(text="[map.png]"))
    assert isinstance(thought, AssistantMessage)
    assert thought.content == (ThinkingPart(reasoning="look it up"),)
    assert isinstance(call, ToolCallMessage)
    assert call.tool_call.input == {"city": "Kyoto"}
    assert isinstance(result, ToolResultMessage)
    assert (result.tool_result.output.type, result.tool_result.output.text) == ("text", "sun")
    assert isinstance(said, AssistantMessage)
    assert said.text == "No."
    assert isinstance(thanks, UserMessage)
    # A time that nobody can read is that of the conversation.
    assert (thanks.content, thanks.timestamp) == ("Thanks", made.created_at)
    assert isinstance(welcome, AssistantMessage)
    assert welcome.text == "Welcome"


def test_a_result_may_be_a_text_an_error_or_of_no_call() -> None:
    parts = [
        {"type": "tool_result", "content": "of nothing"},
        {"type": "tool_use", "input": 7},
        {"type": "tool_result", "content": "broken", "is_error": True},
    ]
    (made,) = parse({"chat_messages": [{"sender": "assistant", "content": parts}]})
    *_, call, result = made.messages
    assert isinstance(call, ToolCallMessage)
    assert isinstance(result, ToolResultMessage)
    assert (call.tool_call.name, call.tool_call.input, result.tool_result.output.type) == ("tool", {}, "error-text")


def test_what_is_not_from_claude_is_refused() -> None:
    with pytest.raises(Unfit, match="is it from Claude"):
        list(parse([{"mapping": {}}]))
