"""Questions of an agent, asked and answered through the server's own faces."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.operations.fixtures import Desk, open_desk

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.resources.schema import check_schema
from agentvm.tools.builtin.ask_user import AskUser

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def asked(**question: object) -> AsyncIterator[tuple[Desk, Any]]:
    """A desk whose agent has asked, and the wait."""
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "ask_user", {"question": "Which?", **question})), reply("done")))
    definition = Definition(name="asker", tools=("ask_user",))
    async with open_desk(driver, definitions=[definition]) as desk:
        image = await desk.create_image(definition="asker")
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
        yield desk, wait


async def give(desk: Desk, wait: Any, result: object) -> Any:
    named = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"]}
    return await desk.ask("tool_answer", **named, decision="answer", result=result)


async def result_of(desk: Desk) -> str:
    heard = await desk.hear("turn_response")
    (told,) = [event["data"] for event in heard if event["type"] == "tool_completed"]
    return str(told["result"])


def test_the_input_schema_is_one_that_models_can_be_given() -> None:
    check_schema("inputSchema", AskUser().spec.input_schema, of_object=True)


async def test_a_question_waits_and_its_answer_is_the_result() -> None:
    async with asked() as (desk, wait):
        assert (wait["kind"], wait["decisions"]) == ("question", ["answer", "deny"])
        assert wait["questions"]["answer"]["message"] == "Which?"
        assert "waitId" in await give(desk, wait, "the blue one")
        assert await result_of(desk) == "the blue one"


@pytest.mark.parametrize(
    ("question", "answer", "result"),
    [
        ({"options": ["red", "blue"]}, "blue", "blue"),
        ({"options": ["red", "blue"]}, {"answer": "blue"}, "blue"),
        ({"options": ["red", "blue"]}, {"answer": {"answer": "blue"}}, "blue"),
        ({"options": ["red", "blue"], "multiple": True}, ["red", "blue"], "red, blue"),
        ({"options": ["red", "blue"], "other": True}, "green", "green"),
    ],
)
async def test_an_option_may_be_given_in_short(question: dict[str, object], answer: object, result: str) -> None:
    async with asked(**question) as (desk, wait):
        assert "waitId" in await give(desk, wait, answer)
        assert await result_of(desk) == result


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ({"options": ["red", "blue"]}, "green"),
        ({"options": ["red", "blue"]}, 7),
        ({"options": ["red", "blue"], "multiple": True}, []),
        ({}, ""),
        ({}, {"answer": "x", "more": 1}),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(
    question: dict[str, object], answer: object
) -> None:
    async with asked(**question) as (desk, wait):
        refused = await give(desk, wait, answer)
        assert refused["errorCode"] == "invalid_input"
        assert "result.answer" in refused["error"]
        assert len((await desk.ask("tool_waits", state="open"))["waits"]) == 1


async def test_who_declines_is_told_to_the_model_as_an_error() -> None:
    async with asked() as (desk, wait):
        await give(desk, wait, None)
        heard = await desk.hear("turn_response")
        (told,) = [event["data"] for event in heard if event["type"] == "tool_failed"]
        assert told["error"] == "The user did not answer the question."
