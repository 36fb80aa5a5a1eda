from typing import Any

import anyio
import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall
from tests.gateways.openai.fixtures import management, talking
from tests.support.serving import provide_tools

from agentvm import Definition
from agentvm.drivers.base import Prompt, ToolSpec, UserEntry
from agentvm.drivers.scripted import Pause, in_turn, reply, tool_calls
from agentvm.errors import ProviderOverloaded
from agentvm.gateways.embedded_json import VALUES_MAX
from agentvm.runtime.tools import Tool
from agentvm.sessions import retention
from agentvm.storage.sql.log import LogStore

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
PICTURE = "data:image/png;base64,iVBORw0KGgo="
ENDLESS = "9" * 5_000


async def until(client: AsyncOpenAI, response_id: str, *statuses: str) -> Any:
    with anyio.fail_after(60):
        while True:
            response = await client.responses.retrieve(response_id)
            if response.status in statuses:
                return response


async def collected(stream: Any) -> list[Any]:
    return [event async for event in stream]


@pytest.mark.parametrize("prefix", ["/openai/v1", "/v1"])
async def test_a_text_turn_comes_in_one_piece_and_as_events_and_again(prefix: str) -> None:
    async with talking(prefix=prefix) as (client, _):
        whole = await client.responses.create(
            model="default",
            input="hi there",
            instructions="Be kind",
            metadata={"a": "b"},
            temperature=0.5,
            max_output_tokens=99,
        )
        assert (whole.output_text, whole.status, whole.model) == ("hi there", "completed", "default")
        assert (whole.instructions, whole.metadata, whole.max_output_tokens) == ("Be kind", {"a": "b"}, 99)
        assert whole.usage is not None
        assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens > 0
        again = await client.responses.retrieve(whole.id)
        assert again == whole
        async with client.responses.stream(model="default", input="one two") as stream:
            events = await collected(stream)
            final = await stream.get_final_response()
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "one two"
        assert final.output_text == "one two"
        for after in (-1, 0, 5, len(events) - 1):
            replayed = await collected(await client.responses.retrieve(final.id, stream=True, starting_after=after))
            assert [event.type for event in replayed] == [event.type for event in events[after + 1 :]]
        async with client.responses.stream(response_id=final.id, starting_after=3) as stream:
            assert (await stream.get_final_response()).output_text == "one two"


async def test_a_response_goes_on_and_forks_when_it_is_not_the_last() -> None:
    async with talking() as (client, served):
        first = await client.responses.create(model="default", input="one")
        second = await client.responses.create(model="default", input="two", previous_response_id=first.id)
        assert second.previous_response_id == first.id
        assert second.conversation == first.conversation
        assert len(served.model.prompts[-1].conversation) == 3
        other = await client.responses.create(model="default", input="three", previous_response_id=first.id)
        assert other.conversation != first.conversation
        assert len(served.model.prompts[-1].conversation) == 3
        third = await client.responses.create(model="default", input="four", previous_response_id=second.id)
        assert third.conversation == first.conversation
        assert len(served.model.prompts[-1].conversation) == 5


async def test_another_model_goes_on_with_the_same_messages() -> None:
    async with talking(definitions=[Definition(name="poet", system_prompt="You are a poet")]) as (client, served):
        first = await client.responses.create(model="default", input="one")
        await client.responses.create(model="poet", input="two", previous_response_id=first.id)
        assert len(served.model.prompts[-1].conversation) == 3
        assert "poet" in (served.model.prompts[-1].system or "")


async def test_items_are_a_history_instructions_and_a_message() -> None:
    async with talking() as (client, served):
        items: Any = [
            {"role": "developer", "content": "Be brief"},
            {"role": "user", "content": "one"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "two"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
            {"type": "mcp_call", "id": "mcp_1", "name": "g", "arguments": "{}", "server_label": "agentvm", "output": "x"},
            {"role": "user", "content": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PICTURE}]},
        ]  # fmt: skip
        response = await client.responses.create(model="default", input=items)
        prompt = served.model.prompts[-1]
        assert "Be brief" in (prompt.system or "")
        assert "iVBORw0KGgo=" in repr(prompt.conversation)
        assert "done" in repr(prompt.conversation)
        shown = await client.responses.input_items.list(response.id)
        assert [part.type for part in shown.data[0].content] == ["input_text", "input_image"]  # type: ignore[union-attr]


async def test_a_background_response_is_polled_and_followed_after_a_lost_connection() -> None:
    gate = anyio.Event()
    async with talking(lambda prompt: [*reply("one ", "two")[:3], Pause(gate), *reply("one ", "two")[3:]]) as (client, _):
        stream = await client.responses.create(model="default", input="hi", background=True, stream=True)
        seen: list[Any] = []
        async for event in stream:
            seen.append(event)
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        response_id = seen[0].response.id
        assert (await client.responses.retrieve(response_id)).status == "in_progress"
        gate.set()
        rest = await collected(
            await client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number)
        )
        assert [event.sequence_number for event in seen + rest] == list(range(len(seen) + len(rest)))
        assert rest[-1].response.output_text == "one two"
        queued = await client.responses.create(model="default", input="hi", background=True)
        assert queued.status == "queued"
        assert (await until(client, queued.id, "completed")).output_text == "one two"


async def test_a_response_is_cancelled_and_so_is_a_queued_one_without_the_one_ahead() -> None:
    gate = anyio.Event()
    async with talking(lambda prompt: [*reply("one")[:3], Pause(gate), *reply("one")[3:]]) as (client, _):
        conversation = await client.conversations.create()
        first = await client.responses.create(model="default", input="a", background=True, conversation=conversation.id)
        ahead = await client.responses.create(model="default", input="b", background=True, conversation=conversation.id)
        await until(client, first.id, "in_progress")
        cancelled = await client.responses.cancel(first.id)
        assert cancelled.status == "cancelled"
        await until(client, ahead.id, "in_progress")
        behind = await client.responses.create(model="default", input="c", background=True, conversation=conversation.id)
        # A queued one ends when it is its turn, which nobody waits for.
        assert (await client.responses.cancel(behind.id)).status == "cancelled"
        gate.set()
        assert (await until(client, ahead.id, "completed")).output_text == "one"
        assert (await client.responses.cancel(ahead.id)).status == "completed"
        assert (await until(client, behind.id, "cancelled", "completed")).status == "cancelled"


async def test_a_stream_that_is_left_stops_its_turn() -> None:
    async with talking(lambda prompt: [*reply("one")[:3], Pause(anyio.Event())]) as (client, _):
        stream = await client.responses.create(model="default", input="hi", stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                break
            if event.type == "response.created":
                response_id = event.response.id
        await stream.close()
        response = await until(client, response_id, "cancelled")
        assert [item.status for item in response.output] == ["incomplete"]


async def test_the_callers_tools_are_called_by_the_caller() -> None:
    script = in_turn(
        tool_calls(("call_1", "weather", {"city": "Oslo"}), ("call_2", "weather", {"city": "Rome"}), text="Well"),
        tool_calls(("call_3", "weather", {"city": "Bonn"})),
        reply("It ", "rains"),
    )
    async with talking(script) as (client, served):
        async with client.responses.stream(model="default", input="hi", tools=[WEATHER]) as stream:
            first = await stream.get_final_response()
        calls = [item for item in first.output if isinstance(item, ResponseFunctionToolCall)]
        assert [(call.name, call.arguments) for call in calls] == [
            ("weather", '{"city":"Oslo"}'),
            ("weather", '{"city":"Rome"}'),
        ]
        assert first.status == "completed"
        with pytest.raises(openai.BadRequestError, match="call_2"):
            await client.responses.create(
                model="default",
                previous_response_id=first.id,
                input=[{"type": "function_call_output", "call_id": "call_1", "output": "rain"}],
            )
        outputs: Any = [{"type": "function_call_output", "call_id": f"call_{n}", "output": f"rain {n}"} for n in (1, 2)]
        second = await client.responses.create(model="default", previous_response_id=first.id, input=outputs, tools=[WEATHER])
        repeated = await client.responses.create(model="default", previous_response_id=first.id, input=outputs, tools=[WEATHER])
        assert repeated == second
        assert [item.type for item in second.output] == ["function_call"]
        assert "rain 2" in repr(served.model.prompts[-1].conversation)
        listed = await client.responses.input_items.list(second.id, order="asc")
        assert [item.output for item in listed.data] == ["rain 1", "rain 2"]  # type: ignore[union-attr]
        # Without the response before: the call tells which it is.
        last: Any = [{"type": "function_call_output", "call_id": "call_3", "output": [{"type": "input_text", "text": "sun"}]}]
        async with client.responses.stream(model="default", input=last) as stream:
            third = await stream.get_final_response()
        assert third.output_text == "It rains"
        assert third.previous_response_id == second.id
        assert len(served.model.prompts) == 3
        for response in (first, second, third):
            shown = await client.responses.retrieve(response.id)
            assert [(item.id, item.type) for item in shown.output] == [(item.id, item.type) for item in response.output]
        assert first.conversation is not None
        items = await collected(client.conversations.items.list(first.conversation.id, order="asc", limit=2))
        assert [item.type for item in items] == [
            "message", "message", "function_call", "function_call", "function_call_output", "function_call_output",
            "function_call", "function_call_output", "message",
        ]  # fmt: skip


async def test_results_for_calls_of_two_conversations_are_for_neither_unless_one_is_named() -> None:
    def script(prompt: Prompt) -> Any:
        return tool_calls(("call_0", "weather", {})) if isinstance(prompt.conversation[-1], UserEntry) else reply("It rains")

    async with talking(script) as (client, served):
        first, _ = [await client.responses.create(model="default", input="hi", tools=[WEATHER]) for _ in range(2)]
        outputs: Any = [{"type": "function_call_output", "call_id": "call_0", "output": "rain"}]
        with pytest.raises(openai.BadRequestError, match="Several conversations"):
            await client.responses.create(model="default", input=outputs)
        assert len(served.model.prompts) == 2
        named = await client.responses.create(model="default", input=outputs, previous_response_id=first.id)
        assert (named.output_text, named.previous_response_id) == ("It rains", first.id)


async def test_own_tools_are_calls_that_the_server_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(arguments: dict[str, object]) -> object:
        return f"rain in {arguments['city']}"

    spec = ToolSpec(name="look", description="Looks out of the window", input_schema={"type": "object"})
    provide_tools(monkeypatch, Tool(spec=spec, run=look))
    async with talking(in_turn(tool_calls(("c1", "look", {"city": "Oslo"})), reply("It rains"))) as (client, _):
        async with client.responses.stream(model="default", input="hi") as stream:
            events = await collected(stream)
            final = await stream.get_final_response()
        call: Any = final.output[0]
        assert (call.type, call.name, call.arguments, call.output) == ("mcp_call", "look", '{"city":"Oslo"}', "rain in Oslo")
        assert "response.mcp_call.completed" in [event.type for event in events]
        assert final.output_text == "It rains"


async def test_a_failure_of_the_turn_is_a_failed_response() -> None:
    def script(prompt: Prompt) -> Any:
        raise ProviderOverloaded("busy")

    async with talking(script) as (client, _):
        failed = await client.responses.create(model="default", input="hi")
        assert failed.status == "failed"
        assert failed.error is not None
        assert str(failed.error.code) == "provider_overloaded"
        async with client.responses.stream(model="default", input="hi") as stream:
            assert [event.type async for event in stream][-1] == "response.failed"
            with pytest.raises(RuntimeError):
                await stream.get_final_response()


async def test_a_response_whose_events_are_gone_is_read_from_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking() as (client, _):
        first = await client.responses.create(model="default", input="one two")

        async def nothing(self: LogStore) -> tuple[int, int]:
            return 10**9, 10**9

        monkeypatch.setattr(LogStore, "range", nothing)
        again = await client.responses.retrieve(first.id)
        assert (again.output_text, again.usage, again.status) == ("one two", first.usage, "completed")


async def test_a_deleted_response_is_gone_and_one_that_is_not_stored_too() -> None:
    async with talking() as (client, served):
        first = await client.responses.create(model="default", input="one")
        second = await client.responses.create(model="default", input="two", previous_response_id=first.id)
        await client.responses.delete(first.id)
        assert (await client.responses.retrieve(second.id)).output_text == "two"
        alone = await client.responses.create(model="default", input="three")
        await client.responses.delete(alone.id)
        unstored = await client.responses.create(model="default", input="four", store=False)
        assert unstored.output_text == "four"
        for response in (first, alone, unstored):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(response.id)
        sessions = (await management(client, served, "/v1/sessions"))["items"]
        assert "four" not in repr(sessions)


async def test_a_repeated_request_with_a_key_begins_no_second_turn() -> None:
    async with talking() as (client, served):
        first, same = [
            await client.responses.create(model="default", input="hi", extra_headers={"Idempotency-Key": "k1"})
            for _ in range(2)
        ]
        assert first == same
        await client.responses.create(model="default", input="on", previous_response_id=first.id)
        forks = [
            await client.responses.create(
                model="default", input="off", previous_response_id=first.id, extra_headers={"Idempotency-Key": "k2"}
            )
            for _ in range(2)
        ]
        assert forks[0] == forks[1]
        assert len(served.model.prompts) == 3


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "nobody", "input": "x"}, 404, "model_not_found"),
        ({"model": "default", "input": []}, 400, "invalid_input"),
        ({"model": "default", "input": ""}, 400, "invalid_input"),
        ({"model": "default", "input": [{"role": "poet", "content": "x"}]}, 400, "invalid_input"),
        ({"model": "default", "input": [{"role": "assistant", "content": "x"}]}, 400, "invalid_input"),
        ({"model": "default", "input": [{"type": "item_reference", "id": "x"}]}, 404, "not_found"),
        ({"model": "default", "input": [{"type": "image_generation_call", "id": "x"}]}, 422, "unprocessable"),
        (
            {"model": "default", "input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
            400,
            "invalid_input",
        ),
        ({"model": "default", "input": "x", "previous_response_id": "resp_nobody"}, 404, "not_found"),
        ({"model": "default", "input": "x", "conversation": "conv_nobody"}, 404, "not_found"),
        ({"model": "default", "input": "x", "conversation": "c", "previous_response_id": "r"}, 400, "invalid_input"),
        ({"model": "default", "input": "x", "background": True, "store": False}, 400, "invalid_input"),
        ({"model": "default", "input": "x", "text": {"format": {"type": "json_schema"}}}, 422, "unprocessable"),
        ({"model": "default", "input": "x", "tools": [{"type": "web_search"}]}, 422, "unprocessable"),
        ({"model": "default", "input": "x", "prompt": {"id": "p"}}, 422, "unprocessable"),
        ({"model": "default", "input": "x", "max_output_tokens": 0}, 400, "invalid_input"),
        ({"model": "default", "input": "x", "metadata": {"a": "b" * 513}}, 400, "invalid_input"),
        ({"model": "sealed", "input": "x", "instructions": "y"}, 422, "unprocessable"),
        ({"input": "x"}, 400, "invalid_input"),
    ],
)
async def test_a_wrong_request_is_refused_in_the_words_of_the_dialect(body: dict[str, Any], status: int, code: str) -> None:
    async with talking(definitions=[Definition(name="sealed", turn_options=())]) as (client, served):
        with pytest.raises(openai.APIStatusError) as failure:
            await client.post("/responses", body=body, cast_to=object)
        assert (failure.value.status_code, failure.value.code) == (status, code)
        assert served.model.prompts == []


async def test_a_sealed_agent_answers_and_wrong_questions_about_responses_are_refused() -> None:
    async with talking(definitions=[Definition(name="sealed", turn_options=())]) as (client, _):
        response = await client.responses.create(model="sealed", input="x", metadata={"a": "b"})
        assert response.metadata == {"a": "b"}
        for path in (f"/{response.id}-2", f"/{response.id}-x", "/x"):
            with pytest.raises(openai.NotFoundError):
                await client.get(f"/responses{path}", cast_to=object)
        for query in ("input_items?limit=0", "input_items?order=up", "input_items?limit=x", f"input_items?limit={ENDLESS}"):
            with pytest.raises(openai.BadRequestError):
                await client.get(f"/responses/{response.id}/{query}", cast_to=object)
        for number in ("x", ENDLESS):
            with pytest.raises(openai.BadRequestError):
                await client.get(f"/responses/{response.id}?stream=true&starting_after={number}", cast_to=object)


async def test_a_response_that_is_not_stored_goes_also_without_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "UNSTORED_MS", -60_000)
    async with talking(lambda prompt: [*reply("one")[:3], Pause(anyio.Event())]) as (client, served):
        vm = served.running.server.vm
        stream = await client.responses.create(model="default", input="hi", store=False, stream=True)
        response_id = ""
        async for event in stream:
            response_id = event.response.id if event.type == "response.created" else response_id
            if event.type == "response.output_text.delta":
                break
        await vm.retainer.run()
        assert (await client.responses.retrieve(response_id)).status == "in_progress"
        await stream.close()
        with anyio.fail_after(60):
            while True:
                # The turn is stopped first, and its agent rests a moment later.
                await vm.retainer.run()
                try:
                    await client.responses.retrieve(response_id)
                except openai.NotFoundError:
                    break


async def test_a_response_with_a_call_beyond_the_bounds_of_clients_is_answered() -> None:
    large: tuple[str, str, dict[str, object]] = ("call_1", "calculator", {"expression": "1+1", "more": [0] * (VALUES_MAX + 1)})
    async with talking(in_turn(tool_calls(large), reply("Done."))) as (client, _):
        assert (await client.responses.create(model="default", input="count")).output_text == "Done."
