"""What a person in a chat types about a call that waits, and the answer that it becomes."""

from typing import Any

import pytest

from agentvm.cli.wait_prompt import WaitPrompt

APPROVAL = {"waitId": "w", "toolName": "hammer", "kind": "approval", "input": {"n": 1}, "why": "default rule 1: destructive"}


def typed(wait: dict[str, Any], *lines: str | None) -> tuple[object, list[str]]:
    shown, left = list[str](), list(lines)
    answer = WaitPrompt(shown.append, lambda prompt, prefilled: left.pop(0)).ask(wait)
    assert left == []
    return answer, shown


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (("y",), {"decision": "approve"}),
        (("YES",), {"decision": "approve"}),
        (("n",), {"decision": "deny", "reason": None}),
        (("n not on a Friday",), {"decision": "deny", "reason": "not on a Friday"}),
        (("perhaps", "why", "y"), {"decision": "approve"}),
        (("edit", '{"n": 2}'), {"decision": "edit", "input": {"n": 2}}),
        (("edit", "[1]", "n"), {"decision": "deny", "reason": None}),
        (("", None), None),
    ],
)
def test_an_approval_is_asked_for_until_it_is_decided(lines: tuple[str | None, ...], answer: object) -> None:
    given, shown = typed(APPROVAL, *lines)
    assert given == answer
    assert shown[0] == 'hammer {"n": 1} needs your approval.'
    assert ("Why: default rule 1: destructive." in shown) is ("why" in lines)


def question(value: dict[str, object]) -> dict[str, Any]:
    asked = {"message": "Which?", "schema": {"type": "object", "properties": {"answer": value}}}
    return {**APPROVAL, "kind": "question", "questions": {"answer": asked}}


@pytest.mark.parametrize(
    ("value", "line", "content"),
    [
        ({"type": "string"}, "blue", {"answer": "blue"}),
        ({"type": "array"}, "red, blue", {"answer": ["red", "blue"]}),
        ({"type": "integer"}, "7", {"answer": 7}),
        ({"type": "integer"}, "seven", {"answer": "seven"}),
        ({"type": "boolean"}, "True", {"answer": True}),
        ({"type": "string"}, '{"answer": "x"}', {"answer": "x"}),
        ({"type": "string"}, "", None),
    ],
)
def test_a_question_takes_a_line(value: dict[str, object], line: str, content: object) -> None:
    assert typed(question(value), line)[0] == {"decision": "answer", "result": {"answer": content}}


def test_who_leaves_a_question_open_gives_no_answer_and_a_clients_tool_is_not_asked_for() -> None:
    assert typed(question({"type": "string"}), None)[0] is None
    assert typed({**APPROVAL, "kind": "client"})[0] is None
