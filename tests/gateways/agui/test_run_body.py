from typing import Any

import msgspec
import pytest

from agentvm.errors import InvalidInput, Unprocessable
from agentvm.gateways.agui.run_body import AgUiBody, read_answers, read_content, read_options
from agentvm.gateways.client_calls import CallerAnswer
from agentvm.model.message import FilePart, ImagePart, TextPart


def body(**members: Any) -> AgUiBody:
    return msgspec.convert({"threadId": "t", "runId": "r", **members}, AgUiBody)


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        ({}, CallerAnswer(decision="approve")),
        ({"payload": True}, CallerAnswer(decision="approve")),
        ({"payload": {"approved": True}}, CallerAnswer(decision="approve")),
        ({"payload": {"approved": True, "editedArgs": {"x": 1}}}, CallerAnswer(decision="edit", input={"x": 1})),
        ({"payload": {"approved": False, "reason": "no"}}, CallerAnswer(decision="deny", reason="no")),
        ({"status": "cancelled"}, CallerAnswer(decision="deny")),
        ({"payload": {"q": "a"}}, CallerAnswer(decision="answer", result={"q": "a"})),
    ],
)
def test_an_answer_to_an_interrupt_is_a_decision(entry: dict[str, Any], answer: CallerAnswer) -> None:
    assert read_answers(body(resume=[{"interruptId": "w", **entry}])) == {"w": answer}


def test_results_of_tools_are_those_at_the_end_of_the_messages() -> None:
    messages = [
        {"role": "tool", "toolCallId": "old", "content": "x"},
        {"role": "user", "content": "hi"},
        {"role": "assistant"},
        {"role": "tool", "toolCallId": "a", "content": "1"},
        {"role": "tool", "toolCallId": "b", "content": "", "error": "broken"},
    ]
    given = read_answers(body(messages=messages))
    assert {name: answer.result for name, answer in given.items()} == {"a": "1", "b": "broken"}
    assert read_answers(body(messages=messages[:2])) == {}


def test_content_is_a_text_or_parts() -> None:
    source = {"type": "data", "value": "aGk=", "mimeType": "image/png"}
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": source},
        {"type": "image", "source": {"type": "url", "value": "https://example.com/x"}},
        {"type": "document", "source": {**source, "mimeType": "text/plain"}},
        {"type": "document", "source": {"type": "url", "value": "data:text/plain;base64,aGk="}},
    ]
    content = read_content(body(messages=[{"role": "user", "content": parts}]))
    assert [type(part) for part in content] == [TextPart, ImagePart, ImagePart, FilePart, FilePart]
    with pytest.raises(Unprocessable, match=r"content\[0\]"):
        read_content(
            body(messages=[{"role": "user", "content": [{"type": "image", "source": {"type": "file", "value": "f"}}]}])
        )
    with pytest.raises(InvalidInput):
        read_content(body(messages=[{"role": "assistant", "content": "x"}]))


def test_tools_and_context_are_options_of_the_turn() -> None:
    assert read_options(body()) is None
    options = read_options(
        body(
            messages=[{"role": "developer", "content": "Be kind"}],
            context=[{"description": "page", "value": "home"}],
            tools=[{"name": "f", "description": "d", "parameters": {"type": "object"}}],
        )
    )
    assert options is not None
    assert options.instructions == "Be kind\n\npage: home"
    assert [tool.name for tool in options.tools] == ["f"]
