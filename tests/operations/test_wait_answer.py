"""Answers to the questions of tools: every form that people may send, and what is refused."""

import msgspec
import pytest
from tests.runtime.test_calls import wait

from agentvm.errors import InvalidInput
from agentvm.model.wait import Question, ToolWait
from agentvm.operations.wait_answer import answers_of

FORM = Question(
    mode="form",
    message="Where?",
    schema={"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}, "required": ["city"]},
)
PAGE = Question(mode="url", message="Log in", url="https://example.org")


def asking(**questions: Question) -> ToolWait:
    return msgspec.structs.replace(wait(kind="elicitation"), questions=questions)


def test_a_clients_result_is_taken_as_it_is() -> None:
    assert answers_of(wait(kind="client"), {"anything": [1]}) == {"anything": [1]}


@pytest.mark.parametrize("result", [{"place": {"city": "Bonn"}}, {"city": "Bonn"}])
def test_a_single_question_takes_its_content_with_or_without_its_key(result: object) -> None:
    accepted = {"place": {"action": "accept", "content": {"city": "Bonn"}}}
    assert answers_of(asking(place=FORM), result) == accepted


def test_a_field_that_is_left_out_has_the_default_of_its_form() -> None:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
    }
    form = Question(mode="form", message="Where?", schema=schema)
    for content, days in (({"city": "Bonn"}, 3), ({"city": "Bonn", "days": 1}, 1)):
        assert answers_of(asking(place=form), content) == {
            "place": {"action": "accept", "content": {"city": "Bonn", "days": days}}
        }


def test_each_of_several_questions_is_answered_or_declined() -> None:
    assert answers_of(asking(place=FORM, login=PAGE), {"login": True}) == {
        "place": {"action": "decline"},
        "login": {"action": "accept"},
    }


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        ({"place": {"zip": "x", "city": "Bonn"}}, "result.place"),
        ({"place": {}}, "result.place"),
        ({"elsewhere": 1}, "an answer for each of place, login"),
        ("Bonn", "an answer for each of place, login"),
        ({"place": {"city": "Bonn", "more": {"a": 1}}}, "result.place"),
    ],
)
def test_an_answer_that_does_not_fit_names_its_question(result: object, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        answers_of(asking(place=FORM, login=PAGE), result)
