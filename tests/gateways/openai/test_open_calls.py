"""Calls of one answer that are answered one after the other: results of the caller's tools, and questions to its user."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import openai
import pytest
from tests.gateways.openai.fixtures import talking

from agentvm import Definition
from agentvm.drivers.base import Prompt, ToolResultsEntry
from agentvm.drivers.scripted import ScriptStep, in_turn, reply, tool_calls

ASKER = Definition(name="asker", system_prompt="Ask.", tools=("ask_user",))
OSLO: tuple[str, str, dict[str, object]] = ("call_oslo", "weather", {"city": "Oslo"})
ROME: tuple[str, str, dict[str, object]] = ("call_rome", "weather", {"city": "Rome"})
COLOUR: tuple[str, str, dict[str, object]] = ("call_colour", "ask_user", {"question": "Which colour?"})
QUESTION = "The agent asks:\nWhich colour?"
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
FUNCTION: dict[str, Any] = {"type": "function", "name": "weather", "parameters": {"type": "object"}}


@asynccontextmanager
async def asked(*calls: tuple[str, str, dict[str, object]]) -> AsyncIterator[Any]:
    """The official client of an agent that makes these calls, and then says their results."""

    def script(prompt: Prompt) -> list[ScriptStep]:
        last = prompt.conversation[-1]
        return (
            reply(*(f"{one.output.text} " for one in last.results))
            if isinstance(last, ToolResultsEntry)
            else tool_calls(*calls)
        )

    async with talking(script, definitions=[ASKER]) as (client, _):
        with anyio.fail_after(60):
            yield client


class Chat:
    """A conversation of chat completions, which its client has."""

    def __init__(self, client: Any, *, is_streamed: bool) -> None:
        self._client, self._is_streamed = client, is_streamed
        self.said: list[Any] = []

    async def send(self, *messages: Any) -> Any:
        """Says messages, and returns the choice that they are answered with."""
        said = [*self.said, *messages]
        about: dict[str, Any] = {"model": "asker", "messages": said, "tools": [TOOL]}
        if self._is_streamed:
            async with self._client.chat.completions.stream(**about) as stream:
                choice = (await stream.get_final_completion()).choices[0]
        else:
            choice = (await self._client.chat.completions.create(**about)).choices[0]
        self.said = [*said, choice.message.model_dump(exclude_none=True)]
        return choice


def result(call: tuple[str, str, dict[str, object]], text: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": call[0], "content": text}


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_results_for_some_calls_of_a_chat_are_refused_until_all_are_there(is_streamed: bool) -> None:
    async with asked(OSLO, ROME) as client:
        chat = Chat(client, is_streamed=is_streamed)
        await chat.send({"role": "user", "content": "hi"})
        with pytest.raises(openai.BadRequestError, match="call_rome"):
            await chat.send(result(OSLO, "rain"))
        choice = await chat.send(result(OSLO, "rain"), result(ROME, "sun"))
        assert (choice.message.content, choice.finish_reason) == ("rain sun ", "stop")


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_question_beside_calls_of_a_chat_is_asked_again_after_their_results(is_streamed: bool) -> None:
    async with asked(OSLO, COLOUR, ROME) as client:
        chat = Chat(client, is_streamed=is_streamed)
        first = await chat.send({"role": "user", "content": "hi"})
        assert (first.message.content, first.finish_reason) == (QUESTION, "tool_calls")
        second = await chat.send(result(OSLO, "rain"), result(ROME, "sun"))
        assert (second.message.content, second.finish_reason, second.message.tool_calls) == (QUESTION, "stop", None)
        third = await chat.send({"role": "user", "content": "red"})
        assert (third.message.content, third.finish_reason) == ("rain red sun ", "stop")


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_calls_of_a_chat_are_made_again_after_the_answer_to_a_question_beside_them(is_streamed: bool) -> None:
    async with asked(COLOUR, OSLO) as client:
        chat = Chat(client, is_streamed=is_streamed)
        await chat.send({"role": "user", "content": "hi"})
        second = await chat.send({"role": "user", "content": "red"})
        assert (second.finish_reason, [call.id for call in second.message.tool_calls]) == ("tool_calls", ["call_oslo"])
        third = await chat.send(result(OSLO, "rain"))
        assert third.message.content == "red rain "


async def test_a_question_beside_calls_of_a_response_is_asked_again_after_their_results() -> None:
    async with asked(OSLO, COLOUR, ROME) as client:
        about: dict[str, Any] = {"model": "asker", "tools": [FUNCTION]}
        first = await client.responses.create(**about, input="hi")
        assert [item.type for item in first.output if item.type != "mcp_call"] == ["function_call", "function_call", "message"]
        results = {"call_oslo": "rain", "call_rome": "sun"}
        outputs = [{"type": "function_call_output", "call_id": name, "output": text} for name, text in results.items()]
        async with client.responses.stream(**about, input=outputs, previous_response_id=first.id) as stream:
            second = await stream.get_final_response()
        assert (second.output_text, second.status, second.id) == (QUESTION, "completed", f"{first.id}-2")
        assert (await client.responses.retrieve(second.id)).output_text == QUESTION
        third = await client.responses.create(**about, input="red", previous_response_id=second.id)
        assert (third.output_text, third.id) == ("rain red sun ", f"{first.id}-3")


async def test_a_response_whose_question_is_answered_first_still_waits_for_its_calls() -> None:
    async with asked(COLOUR, OSLO) as client:
        about: dict[str, Any] = {"model": "asker", "tools": [FUNCTION]}
        first = await client.responses.create(**about, input="hi")
        again = await client.responses.create(**about, input="red", previous_response_id=first.id)
        assert (again.id, again.output) == (first.id, first.output)
        output = {"type": "function_call_output", "call_id": "call_oslo", "output": "rain"}
        last = await client.responses.create(**about, input=[output], previous_response_id=first.id)
        assert last.output_text == "red rain "


async def test_each_answer_of_a_turn_has_the_tokens_of_its_own_model_calls() -> None:
    async with asked(OSLO, ROME) as client:
        about: dict[str, Any] = {"model": "asker", "tools": [TOOL]}
        said: list[Any] = [{"role": "user", "content": "hi"}]
        first = await client.chat.completions.create(messages=said, **about)
        said += [first.choices[0].message.model_dump(exclude_none=True), result(OSLO, "rain"), result(ROME, "sun")]
        second = await client.chat.completions.create(messages=said, **about)
        assert [(one.usage.prompt_tokens, one.usage.completion_tokens) for one in (first, second)] == [(5, 2), (2, 2)]
        about = {"model": "asker", "tools": [FUNCTION]}
        begun = await client.responses.create(input="hi", **about)
        results = {"call_oslo": "rain", "call_rome": "sun"}
        outputs = [{"type": "function_call_output", "call_id": name, "output": text} for name, text in results.items()]
        ended = await client.responses.create(input=outputs, previous_response_id=begun.id, **about)
        assert [(one.usage.input_tokens, one.usage.output_tokens) for one in (begun, ended)] == [(5, 2), (2, 2)]


async def test_a_request_that_is_sent_again_is_no_answer_to_the_question_that_it_has_caused() -> None:
    script = in_turn(tool_calls(COLOUR), tool_calls(COLOUR), reply("Fine."))
    async with talking(script, definitions=[ASKER]) as (client, served):
        keyed = {"Idempotency-Key": "k"}
        for _ in range(2):
            chat = await client.chat.completions.create(
                model="asker", messages=[{"role": "user", "content": "Plan it"}], extra_headers=keyed
            )
            assert chat.choices[0].message.content == QUESTION
        keyed = {"Idempotency-Key": "l"}
        for _ in range(2):
            response = await client.responses.create(model="asker", input="Plan it", extra_headers=keyed)
            assert response.output_text == QUESTION
        assert len(served.model.prompts) == 2
