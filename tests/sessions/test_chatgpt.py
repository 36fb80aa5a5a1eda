"""The shape of ChatGPT's export, as its users have documented it: written here, of nobody's account."""

from typing import Any

import pytest

from agentvm.model.message import AssistantMessage, ThinkingPart, ToolCallMessage, ToolResultMessage, UserMessage
from agentvm.sessions.chatgpt import parse
from agentvm.sessions.line import Unfit


def node(name: str, parent: str | None, role: str, content: dict[str, Any] | None, **about: Any) -> dict[str, Any]:
    message = {"id": name, "author": {"role": role, "name": None}, "create_time": 1_700_000_001.5, "content": content}
    message |= {"recipient": "all", "metadata": {}, **about}
    return {"id": name, "parent": parent, "children": [], "message": message if content is not None else None}


def text(*parts: Any) -> dict[str, Any]:
    return {"content_type": "text", "parts": list(parts)}


NODES = [
    node("root", None, "system", None),
    node("hidden", "root", "system", text(""), metadata={"is_visually_hidden_from_conversation": True}),
    node("ask", "hidden", "user", text("What is 6*7?")),
    node("edited", "hidden", "user", text("What is 6*8?")),
    node("think", "edited", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "multiply"}]}),
    node("code", "think", "assistant", {"content_type": "code", "language": "python", "text": "6*8"}, recipient="python"),
    node("out", "code", "tool", {"content_type": "execution_output", "text": "48"}),
    node("done", "out", "assistant", text("48.")),
    node(
        "picture", "done", "user",
        {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "这是什么?"]},
    ),
]  # fmt: skip
CONVERSATION = {
    "title": "Products",
    "create_time": 1_700_000_000.0,
    "update_time": 1_700_000_009.0,
    "mapping": {one["id"]: one for one in NODES},
    "current_node": "picture",
    "conversation_id": "c1",
}


def test_the_branch_that_was_looked_at_last_comes_in() -> None:
    (made,) = parse([CONVERSATION])
    assert (made.title, made.created_at, made.updated_at) == ("Products", 1_700_000_000_000, 1_700_000_009_000)
    asked, thought, call, result, answered, pictured = made.messages
    assert isinstance(asked, UserMessage)
    assert (asked.content, asked.timestamp) == ("What is 6*8?", 1_700_000_001_500)
    assert isinstance(thought, AssistantMessage)
    assert thought.content == (ThinkingPart(reasoning="multiply"),)
    assert isinstance(call, ToolCallMessage)
    assert (call.tool_call.name, call.tool_call.input, call.parent_id) == ("python", {"text": "6*8"}, thought.id)
    assert isinstance(result, ToolResultMessage)
    assert (result.tool_call_id, result.tool_result.output.text) == (call.tool_call.id, "48")
    assert isinstance(answered, AssistantMessage)
    assert answered.text == "48."
    assert isinstance(pictured, UserMessage)
    assert pictured.content == "[image]\n\n这是什么?"
    assert len({message.id for message in made.messages}) == len(made.messages)


def test_a_call_without_words_before_it_has_an_empty_answer_to_belong_to() -> None:
    nodes = [NODES[3] | {"parent": None}, node("code", "edited", "assistant", {"text": "{}"}, recipient="bio")]
    (made,) = parse({"mapping": {one["id"]: one for one in nodes}, "current_node": "code"})
    assert [message.role for message in made.messages] == ["user", "assistant", "assistant"]


def test_what_is_not_from_chatgpt_is_refused() -> None:
    with pytest.raises(Unfit, match="is it from ChatGPT"):
        list(parse([{"chat_messages": []}]))


@pytest.mark.parametrize("last", [None, "nobody", 7, ["picture"]])
def test_a_conversation_that_does_not_say_what_was_looked_at_comes_in_all_the_same(last: object) -> None:
    (made,) = parse([{**CONVERSATION, "current_node": last}])
    (whole,) = parse([CONVERSATION])
    assert made.messages == whole.messages
