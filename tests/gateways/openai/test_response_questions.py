from typing import Any

import anyio
import openai
import pytest
from tests.gateways.openai.fixtures import management, talking

from agentvm import Definition
from agentvm.drivers.scripted import in_turn, reply, tool_calls

ASKER = Definition(name="asker", system_prompt="Ask.", tools=("ask_user",))
CITY: tuple[str, str, dict[str, object]] = ("call_1", "ask_user", {"question": "Which city?"})
COLOUR: tuple[str, str, dict[str, object]] = ("call_2", "ask_user", {"question": "Which colour?"})


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_question_of_the_agent_ends_the_response_and_the_next_one_answers_it(is_streamed: bool) -> None:
    script = in_turn(tool_calls(CITY), tool_calls(COLOUR, CITY), reply("Fine."), reply("Bye."))
    async with talking(script, definitions=[ASKER]) as (client, served):

        async def send(text: str, **about: Any) -> Any:
            given: dict[str, Any] = {"model": "asker", "input": text, **about}
            if not is_streamed:
                return await client.responses.create(**given)
            return [event async for event in await client.responses.create(**given, stream=True)][-1].response

        with anyio.fail_after(60):
            first = await send("one")
            assert (first.output_text, first.status) == ("The agent asks:\nWhich city?", "completed")
            key = {"Idempotency-Key": "k"}
            second = await send("Oslo", previous_response_id=first.id, extra_headers=key)
            assert second.output_text == "The agent asks:\nWhich colour?\n\nThe agent asks:\nWhich city?"
            with pytest.raises(openai.BadRequestError, match="answered already"):
                await send("Rome", previous_response_id=first.id)
            third = await send("red", previous_response_id=second.id)
            assert (third.output_text, third.status, third.previous_response_id) == ("Fine.", "completed", second.id)
            repeated = await send("Oslo", previous_response_id=first.id, extra_headers=key)
            assert (repeated.id, repeated.output_text) == (second.id, second.output_text)
            again = await client.responses.retrieve(second.id)
            assert (again.output_text, again.status) == (second.output_text, "completed")
            assert (await send("thanks", previous_response_id=third.id)).output_text == "Bye."
        turns = (await management(client, served, "/v1/turns"))["items"]
        assert ([turn["outcome"] for turn in turns], len({turn["sessionId"] for turn in turns})) == (["completed"] * 2, 1)
