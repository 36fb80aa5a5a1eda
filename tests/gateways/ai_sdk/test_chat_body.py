from typing import Any

import msgspec
import pytest

from agentvm.errors import InvalidInput
from agentvm.gateways.ai_sdk.chat_body import UiChatBody, UiMessage, edit_key, is_edit, read_answers, read_content, read_options
from agentvm.gateways.client_calls import CallerAnswer
from agentvm.model.ids import MessageId
from agentvm.model.message import FilePart, ImagePart, TextPart


def message(*parts: dict[str, Any], role: str = "user") -> UiMessage:
    return msgspec.convert({"role": role, "parts": parts}, UiMessage)


def test_answers_are_approvals_and_results_of_the_pages_own_tools() -> None:
    tool = {"type": "tool-f", "toolCallId": "a"}
    answered = message(
        {**tool, "state": "approval-responded", "approval": {"id": "w1", "approved": True}},
        {**tool, "state": "approval-responded", "approval": {"id": "w2", "approved": False, "reason": "no"}},
        {**tool, "state": "approval-requested", "approval": {"id": "w3"}},
        {**tool, "state": "output-available", "output": {"x": 1}},
        {**tool, "toolCallId": "b", "state": "output-error", "errorText": "broken"},
        {**tool, "toolCallId": "c", "state": "output-available", "output": 1, "providerExecuted": True},
        role="assistant",
    )
    assert read_answers(answered) == {
        "w1": CallerAnswer(decision="approve"),
        "w2": CallerAnswer(decision="deny", reason="no"),
        "a": CallerAnswer(decision="answer", result={"x": 1}),
        "b": CallerAnswer(decision="answer", result="The tool failed: broken"),
    }
    with pytest.raises(InvalidInput):
        read_answers(message({"type": "text", "text": "x"}, role="assistant"))


def test_content_is_a_text_or_parts() -> None:
    assert read_content(message({"type": "text", "text": "a"}, {"type": "text", "text": "b"})) == "ab"
    parts = read_content(
        message(
            {"type": "text", "text": "see"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="},
            {"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,aGk=", "filename": "x.txt"},
        )
    )
    assert [type(part) for part in parts] == [TextPart, ImagePart, FilePart]


def test_tools_of_the_page_are_options_and_an_edit_has_a_name() -> None:
    told = msgspec.convert({"id": "c", "tools": [{"name": "f", "inputSchema": {"type": "object"}}]}, UiChatBody)
    options = read_options(told)
    assert options is not None
    assert options.tools[0].parameters == {"type": "object"}
    assert read_options(msgspec.convert({"id": "c"}, UiChatBody)) is None
    first, second = MessageId("msg_1"), MessageId("msg_2")
    assert edit_key("m", "a", first) == edit_key("m", "a", first)
    assert len({edit_key("m", "a", first), edit_key("m", "b", first), edit_key("m", "a", second)}) == 3
    assert [is_edit(key) for key in (edit_key("m", "a", first), "m", "m:turn_1", None)] == [True, False, False, False]
