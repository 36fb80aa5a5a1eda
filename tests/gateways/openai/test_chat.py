from typing import Any

import anyio
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam
from tests.gateways.openai.fixtures import management, talking
from tests.gateways.scene import scene

from agentvm import Definition
from agentvm.drivers.base import Prompt, ToolResultsEntry, UserEntry
from agentvm.drivers.scripted import Pause, in_turn, last_user_text, reply, tool_calls
from agentvm.errors import ProviderOverloaded
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.retention import DAY_MS, Retention
from agentvm.sessions.retention import LoadedSessions, Retainer

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


def _called(arguments: str) -> dict[str, Any]:
    """A message of the history with a call."""
    return {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": arguments}}]}


WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


@pytest.mark.parametrize("prefix", ["/openai/v1", "/v1"])
async def test_a_text_turn_comes_in_one_piece_or_in_chunks(prefix: str) -> None:
    async with talking(prefix=prefix) as (client, _):
        whole = await client.chat.completions.create(model="default", messages=HI)
        assert whole.choices[0].message.content == "hi"
        assert whole.choices[0].finish_reason == "stop"
        assert whole.usage is not None
        assert whole.usage.completion_tokens > 0
        text, usage, finish = "", None, None
        stream = await client.chat.completions.create(
            model="default", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
        assert (text, finish) == ("hi", "stop")
        assert usage is not None
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


async def test_a_conversation_that_is_sent_whole_each_time_is_one_session() -> None:
    async with talking() as (client, served):
        said: list[ChatCompletionMessageParam] = [{"role": "system", "content": "Be kind"}]
        for number in range(4):
            said.append({"role": "user", "content": f"message {number}"})
            answer = await client.chat.completions.create(model="default", messages=said)
            said.append({"role": "assistant", "content": answer.choices[0].message.content})
        assert len(served.model.prompts[-1].conversation) == 7
        assert "Be kind" in (served.model.prompts[-1].system or "")
        listed = await management(client, served, "/v1/turns")
        assert len(listed["items"]) == 4
        assert len({turn["sessionId"] for turn in listed["items"]}) == 1
        shown = (await management(client, served, "/v1/sessions"))["items"]
        assert listed["items"][0]["sessionId"] not in {session["sessionId"] for session in shown}


async def test_a_history_without_a_session_is_seeded_and_another_continuation_of_it_too() -> None:
    async with talking() as (client, served):
        said: list[ChatCompletionMessageParam] = [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"},
        ]
        first, second = [await client.chat.completions.create(model="default", messages=said) for _ in range(2)]
        assert first.id != second.id
        assert [len(prompt.conversation) for prompt in served.model.prompts] == [3, 3]


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}, {"X-AVM-Session": "new"}])
async def test_a_conversation_that_its_client_has_is_deleted_after_a_while(headers: dict[str, str]) -> None:
    async with talking() as (client, served):
        await client.chat.completions.create(model="default", messages=HI, extra_headers=headers)
        vm = served.running.app.gate.vm
        later = Retainer(vm.store, lambda: vm.clock() + 31 * DAY_MS, vm.retainer.policy_of, LoadedSessions(vm.runtime))
        due = await later.preview(DEFAULT_TENANT)
        assert (due.sessions, due.messages) == ((0, 0) if "X-AVM-Session" in headers else (1, 2))
        # Where another rule names it as well, it is counted once.
        both = await later.preview(DEFAULT_TENANT, Retention(archived_days=1))
        assert both == due
        assert await later.run() == due


async def test_a_refused_message_leaves_the_conversation_as_it_was() -> None:
    async with talking(definitions=[Definition(name="strict", turn_options=())]) as (client, served):
        first = await client.chat.completions.create(model="strict", messages=HI)
        said: list[ChatCompletionMessageParam] = [*HI, {"role": "assistant", "content": "hi"}, *HI]
        with pytest.raises(openai.UnprocessableEntityError):
            await client.chat.completions.create(model="strict", messages=said, temperature=0)
        second = await client.chat.completions.create(model="strict", messages=said)
        turns = (await management(client, served, "/v1/turns"))["items"]
        assert {turn["turnId"] for turn in turns} == {answer.id.removeprefix("chatcmpl-") for answer in (first, second)}
        assert len({turn["sessionId"] for turn in turns}) == 1


async def test_the_requests_of_open_webui_are_answered() -> None:
    async with talking(prefix="/v1") as (client, served):
        listed: Any = await client.get("/models", cast_to=object)
        assert listed["object"] == "list"
        about: dict[str, Any] = {
            "chat_id": "c", "session_id": "s", "id": "m", "model_item": {"id": "default"}, "tool_servers": [], "files": None,
            "features": {"web_search": False}, "variables": {"{{USER_NAME}}": "x"}, "background_tasks": {"tags": True},
            "params": {}, "metadata": {"user_id": "u"}, "logit_bias": None, "frequency_penalty": 0, "top_p": 1, "seed": 1,
        }  # fmt: skip
        text = ""
        stream = await client.chat.completions.create(
            model="default", messages=HI, stream=True, stream_options={"include_usage": True}, extra_body=about
        )
        async for chunk in stream:
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
        asked: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Write a title"}]
        title = await client.chat.completions.create(model="default", messages=asked, max_tokens=50, extra_body=about)
        assert (text, title.choices[0].message.content) == ("hi", "Write a title")
        assert len(served.model.prompts) == 2


async def test_a_named_session_goes_on_and_only_its_last_message_is_read() -> None:
    async with talking() as (client, served):
        raw = await client.chat.completions.with_raw_response.create(
            model="default", messages=HI, extra_headers={"X-AVM-Session": "new"}
        )
        named = raw.headers["x-avm-session"]
        again = await client.chat.completions.with_raw_response.create(
            model="default",
            messages=[{"role": "user", "content": "forgotten"}, {"role": "assistant", "content": "x"}, *HI],
            extra_headers={"X-AVM-Session": named},
        )
        assert again.headers["x-avm-session"] == named
        assert len(served.model.prompts[-1].conversation) == 3


async def test_a_named_session_of_another_agent_is_refused_with_its_own_and_begins_no_turn() -> None:
    async with talking(definitions=[Definition(name="other")]) as (client, served):
        raw = await client.chat.completions.with_raw_response.create(
            model="default", messages=HI, extra_headers={"X-AVM-Session": "new"}
        )
        headers = {"X-AVM-Session": raw.headers["x-avm-session"]}
        with pytest.raises(openai.UnprocessableEntityError, match="another agent: ask img_") as refused:
            await client.chat.completions.create(model="other", messages=HI, extra_headers=headers)
        own = str(refused.value).partition("ask ")[2].partition(",")[0]
        assert len(served.model.prompts) == 1
        assert (await client.chat.completions.create(model=own, messages=HI, extra_headers=headers)).model == own


async def test_options_reach_the_model() -> None:
    async with talking() as (client, served):
        await client.chat.completions.create(
            model="default", messages=HI, temperature=0.5, max_completion_tokens=77, stop=["END"], reasoning_effort="low"
        )
        prompt = served.model.prompts[-1]
        assert (prompt.temperature, prompt.max_tokens, prompt.stop, prompt.thinking) == (0.5, 77, ("END",), 5000)


async def test_a_picture_arrives_as_a_data_url() -> None:
    async with talking() as (client, served):
        url = "data:image/png;base64,iVBORw0KGgo="
        parts: Any = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
        await client.chat.completions.create(model="default", messages=[{"role": "user", "content": parts}])
        assert "iVBORw0KGgo=" in repr(served.model.prompts[-1].conversation)


async def test_the_callers_tool_is_called_by_the_caller_and_the_turn_goes_on() -> None:
    def script(prompt: Prompt) -> Any:
        if len(prompt.conversation) == 1:
            return tool_calls(("call_1", "weather", {"city": "Oslo"}))
        return reply("It rains")

    async with talking(script) as (client, served):
        said = list(HI)
        first = await client.chat.completions.create(model="default", messages=said, tools=[WEATHER])
        choice = first.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.tool_calls is not None
        call: Any = choice.message.tool_calls[0]
        assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Oslo"}')
        said.append(choice.message.model_dump(exclude_none=True))  # type: ignore[arg-type]
        said.append({"role": "tool", "tool_call_id": call.id, "content": "rain"})
        text = ""
        async for chunk in await client.chat.completions.create(model="default", messages=said, tools=[WEATHER], stream=True):
            for part in chunk.choices:
                text += part.delta.content or ""
        assert text == "It rains"
        assert "rain" in repr(served.model.prompts[-1].conversation)
        said += [{"role": "assistant", "content": text}, {"role": "user", "content": "thanks"}]
        await client.chat.completions.create(model="default", messages=said)
        assert len(served.model.prompts[-1].conversation) == 5


async def test_repeated_results_of_tools_with_a_key_are_told_the_same_answer() -> None:
    script = in_turn(tool_calls(("call_1", "weather", {"city": "Oslo"}), text="One moment."), reply("It rains"))
    async with talking(script) as (client, served):
        first = await client.chat.completions.create(model="default", messages=HI, tools=[WEATHER])
        result = {"role": "tool", "tool_call_id": "call_1", "content": "rain"}
        said: Any = [*HI, first.choices[0].message.model_dump(exclude_none=True), result]
        about: Any = {"model": "default", "messages": said, "tools": [WEATHER]}
        keyed = {"Idempotency-Key": "results"}
        answers = [await client.chat.completions.create(**about, extra_headers=keyed) for _ in range(2)]
        assert {answer.id for answer in answers} == {first.id}
        assert [answer.choices[0].message.content for answer in answers] == ["It rains"] * 2
        assert len(served.model.prompts) == 2
        with pytest.raises(openai.BadRequestError, match="no longer waited for"):
            await client.chat.completions.create(**about)


ASKER = Definition(name="asker", system_prompt="Ask.", tools=("ask_user",))
CITY: tuple[str, str, dict[str, object]] = ("call_1", "ask_user", {"question": "Which city?"})
COLOUR: tuple[str, str, dict[str, object]] = ("call_2", "ask_user", {"question": "Which colour?"})


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_question_of_the_agent_is_an_answer_and_the_next_message_answers_it(is_streamed: bool) -> None:
    def script(prompt: Prompt) -> Any:
        match last_user_text(prompt):
            case "two" if isinstance(prompt.conversation[-1], UserEntry):
                return tool_calls(CITY, COLOUR, text="Well.")
            case "one" if isinstance(prompt.conversation[-1], UserEntry):
                return tool_calls(CITY)
            case word if isinstance(prompt.conversation[-1], ToolResultsEntry):
                return reply(f"{word}: ", *(result.output.text for result in prompt.conversation[-1].results))
            case word:
                return reply(word)

    async with talking(script, definitions=[ASKER]) as (client, served):
        said: list[ChatCompletionMessageParam] = []

        async def send(text: str, **about: Any) -> str:
            said.append({"role": "user", "content": text})
            given: dict[str, Any] = {"model": "asker", "messages": said, **about}
            if is_streamed:
                stream = await client.chat.completions.create(**given, stream=True)
                answer = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            else:
                answer = (await client.chat.completions.create(**given)).choices[0].message.content or ""
            said.append({"role": "assistant", "content": answer})
            return answer

        assert await send("one") == "The agent asks:\nWhich city?"
        assert await send("Oslo") == "one: Oslo"
        assert await send("two") == "Well.\n\nThe agent asks:\nWhich city?\n\nThe agent asks:\nWhich colour?"
        # It is the number of no option, and longer than numbers are read.
        assert await send("9" * 5_000) == "The agent asks:\nWhich colour?"
        key = {"Idempotency-Key": "k"}
        assert await send("red", extra_headers=key) == f"two: {'9' * 5_000}red"
        again: Any = await client.chat.completions.create(model="asker", messages=said[:-1], extra_headers=key)
        assert again.choices[0].message.content == f"two: {'9' * 5_000}red"
        assert await send("thanks") == "thanks"
        turns = (await management(client, served, "/v1/turns"))["items"]
        assert ([turn["outcome"] for turn in turns], len({turn["sessionId"] for turn in turns})) == (["completed"] * 3, 1)


async def test_a_call_that_somebody_else_approves_is_told_and_the_answer_goes_on() -> None:
    async with scene() as served, openai.AsyncOpenAI(api_key="any", base_url=f"{served.http}/v1") as client:
        asked: list[ChatCompletionMessageParam] = [{"role": "user", "content": "ask"}]
        told, text = "", ""
        async for chunk in await client.chat.completions.create(model="default", messages=asked, stream=True):
            told += getattr(chunk.choices[0].delta, "reasoning_content", "")
            text += chunk.choices[0].delta.content or ""
            if told and not text:
                (wait,) = (await management(client, served, "/v1/waits"))["items"]
                answer = {"fingerprint": wait["fingerprint"], "decision": "approve"}
                await client.post(f"{served.http}/v1/waits/{wait['waitId']}/answer", body=answer, cast_to=object)
        assert told.startswith("(Waits for an approval of calculator.")
        assert text == "So it is."


async def test_a_stateless_turn_is_stopped_when_its_client_leaves() -> None:
    async with talking(lambda prompt: [*reply("one")[:3], Pause(anyio.Event())]) as (client, served):
        stream = await client.chat.completions.create(model="default", messages=HI, stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                turn_id = chunk.id.removeprefix("chatcmpl-")
                break
        await stream.close()
        outcome = None
        with anyio.fail_after(60):
            while outcome is None:
                turns = (await management(client, served, "/v1/turns"))["items"]
                outcome = next(turn.get("outcome") for turn in turns if turn["turnId"] == turn_id)
        assert outcome == "interrupted"


async def test_a_failure_after_the_first_byte_is_an_error_in_the_stream() -> None:
    def script(prompt: Prompt) -> Any:
        raise ProviderOverloaded("busy")

    async with talking(script) as (client, _):
        with pytest.raises(openai.APIError) as failure:
            async for _chunk in await client.chat.completions.create(model="default", messages=HI, stream=True):
                pass
        assert failure.value.code == "provider_overloaded"
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(model="default", messages=HI)


async def test_a_repeated_request_with_a_key_begins_no_second_turn() -> None:
    async with talking() as (client, served):
        answers = [
            await client.chat.completions.create(model="default", messages=HI, extra_headers={"Idempotency-Key": "k1"})
            for _ in range(2)
        ]
        assert answers[0].id == answers[1].id
        assert answers[1].choices[0].message.content == "hi"
        assert len(served.model.prompts) == 1


async def test_a_turn_with_a_key_goes_on_for_whoever_repeats_the_request() -> None:
    gate = anyio.Event()
    async with talking(lambda prompt: [*reply("one ", "two")[:3], Pause(gate), *reply("one ", "two")[3:]]) as (client, served):
        key = {"Idempotency-Key": "k1"}
        stream = await client.chat.completions.create(model="default", messages=HI, stream=True, extra_headers=key)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
        for _ in range(20):
            # The server has time to notice it.
            (turn,) = (await management(client, served, "/v1/turns"))["items"]
            assert "outcome" not in turn
        gate.set()
        again = await client.chat.completions.create(model="default", messages=HI, extra_headers=key)
        assert again.choices[0].message.content == "one two"
        assert len(served.model.prompts) == 1


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_schema_holds_the_answer_back_until_it_fits(is_streamed: bool) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "required": ["n"]}}}
    async with talking(in_turn(reply("{}"), reply('{"n":', " 1}"))) as (client, _):
        asked: Any = {"model": "default", "messages": HI, "response_format": form}
        if is_streamed:
            chunks = [chunk async for chunk in await client.chat.completions.create(**asked, stream=True)]
            text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        else:
            text = (await client.chat.completions.create(**asked)).choices[0].message.content or ""
        assert text == '{"n": 1}'


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "nobody", "messages": HI}, 404, "model_not_found"),
        ({"model": "img_nobody", "messages": HI}, 404, "model_not_found"),
        ({"model": "default", "messages": []}, 400, "invalid_input"),
        ({"model": "default", "messages": [{"role": "assistant", "content": "x"}]}, 400, "invalid_input"),
        ({"model": "default", "messages": [{"role": "poet", "content": "x"}]}, 400, "invalid_input"),
        ({"model": "default", "messages": HI, "n": 2}, 400, "invalid_input"),
        ({"model": "default", "messages": HI, "response_format": {"type": "json_schema"}}, 422, "unprocessable"),
        ({"model": "sealed", "messages": [{"role": "system", "content": "x"}, *HI]}, 422, "unprocessable"),
        ({"model": "default", "messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]}, 400, "invalid_input"),
        ({"model": "default"}, 400, "invalid_input"),
        ({"model": "default", "messages": HI, "temperature": -1}, 400, "invalid_input"),
        ({"model": "default", "messages": HI, "max_tokens": -1}, 400, "invalid_input"),
        ({"model": "default", "messages": HI, "stop": [""]}, 400, "invalid_input"),
        ({"model": "default", "messages": HI, "tools": [{"function": {"name": "no name"}}]}, 400, "invalid_input"),
        ({"model": "default", "messages": [*HI, _called("[" * 100_000), *HI]}, 413, "input_too_large"),
        ({"model": "default", "messages": [*HI, _called(f"[{'{},' * 10_000}]"), *HI]}, 413, "input_too_large"),
        ({"model": "default", "messages": HI * 2_002}, 400, "invalid_input"),
    ],
)
async def test_a_wrong_request_is_refused_in_the_words_of_the_dialect(body: dict[str, Any], status: int, code: str) -> None:
    async with talking(definitions=[Definition(name="sealed", turn_options=())]) as (client, served):
        with pytest.raises(openai.APIStatusError) as failure:
            await client.post("/chat/completions", body=body, cast_to=object)
        assert (failure.value.status_code, failure.value.code) == (status, code)
        assert served.model.prompts == []
        assert (await management(client, served, "/v1/turns"))["items"] == []


@pytest.mark.parametrize(
    "other", [{"messages": [{"role": "user", "content": "another"}]}, {"temperature": 0.5}, {"model": "other"}]
)
async def test_another_request_under_a_key_that_was_used_is_refused(other: dict[str, Any]) -> None:
    async with talking(definitions=[Definition(name="other")]) as (client, served):
        key = {"Idempotency-Key": "k1"}
        body: dict[str, Any] = {"model": "default", "messages": HI}
        await client.chat.completions.create(**body, extra_headers=key)
        with pytest.raises(openai.UnprocessableEntityError, match="This key was used for another request"):
            await client.chat.completions.create(**{**body, **other}, extra_headers=key)
        assert len(served.model.prompts) == 1


async def test_an_address_of_a_picture_is_https_or_refused() -> None:
    async with talking() as (client, served):
        for url in ("http://169.254.169.254/latest", "file:///etc/passwd"):
            parts: Any = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
            with pytest.raises(openai.BadRequestError, match=r"content\[1\].image_url"):
                await client.chat.completions.create(model="default", messages=[{"role": "user", "content": parts}])
        assert served.model.prompts == []
