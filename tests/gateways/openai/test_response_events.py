"""Any order of a turn's parts gives a stream that the official client accepts."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from tests.gateways.openai.test_chat_chunks import parts
from tests.support.examples import examples

from agentvm.gateways.openai.response_events import ResponseEvents, count_rounds
from agentvm.gateways.openai.response_outputs import call_error
from agentvm.gateways.turn_parts import (
    CallBegun,
    CallEnded,
    CallInput,
    CallMade,
    CallWaits,
    TextAdded,
    ThinkingAdded,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.model.usage import Usage
from agentvm.model.wait import WaitId

HEAD: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": True, "tool_choice": "auto",
    "tools": [], "metadata": {}, "instructions": None, "temperature": None, "top_p": None,
}  # fmt: skip
_adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
END = {"completed", "incomplete", "failed"}
USAGE = Usage(input_tokens=1, output_tokens=2)


def read(raw: bytes) -> list[dict[str, Any]]:
    """The events of a stream; the name of each is its type."""
    found = []
    for piece in raw.decode().split("\n\n")[:-1]:
        name, data = piece.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def written(events: ResponseEvents, told: list[TurnPart]) -> list[dict[str, Any]]:
    return read(events.begin() + b"".join(events.write(part, 1) for part in told))


@settings(max_examples=examples(100, 20_000))
@given(st.lists(parts, max_size=14), st.booleans(), st.integers(1, 3), st.integers(-1, 20))
def test_any_order_of_parts_gives_a_stream_that_the_official_client_reads(
    told: list[TurnPart], is_client: bool, number: int, after: int
) -> None:
    tools = frozenset({"f"}) if is_client else frozenset[str]()
    events = ResponseEvents(HEAD, client_tools=tools, number=number)
    stream = written(events, told)
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert bool(stream) == events.has_begun
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in stream:
        if event["type"] == "response.failed":
            # The dialect's list of codes is not ours.
            event = {**event, "response": {**event["response"], "error": None}}
        state.handle_event(_adapter.validate_python(event))
    endings = [event for event in stream if event["type"].removeprefix("response.") in END]
    assert len(endings) == (events.is_done and events.has_begun)
    assert endings in ([], stream[-1:])
    if endings:
        items = [event["item"] for event in stream if event["type"] == "response.output_item.done"]
        output = endings[0]["response"]["output"]
        assert sorted(items, key=str) == sorted(output, key=str)
        assert all(item["status"] != "in_progress" for item in output)
    replayed = written(ResponseEvents(HEAD, client_tools=tools, number=number, after=after), told)
    assert replayed == [event for event in stream if event["sequence_number"] > after]


def test_a_turn_with_own_tools_and_thinking_has_the_items_in_their_order() -> None:
    told: list[TurnPart] = [
        ThinkingAdded("hm"), TextAdded("let me "), TextAdded("see"), CallBegun("c1", "look"), CallInput("c1", '{"x": '),
        CallInput("c1", "1}"), CallMade("c1", "look", {"x": 1}), CallBegun("c2", "fail"), CallMade("c2", "fail", {}),
        CallEnded("c2", "fail", "no", is_error=True), CallEnded("c1", "look", "seen", is_error=False), TextAdded("done"),
        TurnEnded("completed", "end_turn", Usage(input_tokens=1, output_tokens=2, cache_read_tokens=4, thinking_tokens=1)),
    ]  # fmt: skip
    events = ResponseEvents(HEAD)
    kinds = [event["type"].removeprefix("response.") for event in written(events, told)]
    thought = [
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done",
        "reasoning_summary_part.done", "output_item.done",
    ]  # fmt: skip
    assert kinds[:8] == ["created", "in_progress", *thought]
    said = ["output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done"]
    assert kinds[8:15] == ["output_item.added", "content_part.added", *said]
    assert kinds[15:20] == [
        "output_item.added",
        "mcp_call.in_progress",
        *["mcp_call_arguments.delta"] * 2,
        "mcp_call_arguments.done",
    ]
    response = events.response
    assert response["status"] == "completed"
    assert [item["type"] for item in response["output"]] == ["reasoning", "message", "mcp_call", "mcp_call", "message"]
    look, fail = response["output"][2:4]
    assert (look["arguments"], look["output"], look["status"]) == ('{"x": 1}', "seen", "completed")
    assert (fail["error"], fail["output"], fail["status"]) == (call_error("no"), None, "failed")
    assert response["usage"]["input_tokens"] == 5
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 1}


def test_a_turn_that_waits_for_its_caller_is_one_response_for_each_answer() -> None:
    def waits(call_id: str) -> list[TurnPart]:
        wait = CallWaits(call_id, "f", {}, "client", WaitId("w"), "sha256:0")
        return [CallBegun(call_id, "f"), CallMade(call_id, "f", {}), wait, TurnWaits((WaitId("w"),))]

    told: list[TurnPart] = [
        TextAdded("one"), CallMade("own", "g", {"y": 2}), *waits("a"), TurnWaits(()),
        CallEnded("own", "g", "late", is_error=False), CallEnded("a", "f", "result", is_error=False), *waits("b"),
        CallEnded("b", "f", "result", is_error=False), TextAdded("three"),
        TurnEnded("completed", "max_tokens", USAGE),
    ]  # fmt: skip
    assert count_rounds(told) == 2
    outputs = []
    for number in (1, 2, 3, 4):
        events = ResponseEvents(HEAD, client_tools=frozenset({"f"}), number=number)
        stream = written(events, told)
        assert events.has_begun == bool(stream) == (number < 4)
        outputs.append([(item["type"], item.get("status")) for item in events.response["output"]])
    assert outputs == [
        [("message", "completed"), ("mcp_call", "incomplete"), ("function_call", "completed")],
        [("mcp_call", "completed"), ("function_call", "completed")],
        [("message", "incomplete")],
        [],
    ]


def test_the_end_of_a_turn_is_the_status_of_its_response() -> None:
    for outcome, stop, status, kind in (
        ("completed", "end_turn", "completed", "completed"),
        ("completed", "max_tokens", "incomplete", "incomplete"),
        ("completed", "refusal", "incomplete", "incomplete"),
        ("interrupted", "interrupted", "cancelled", "incomplete"),
        ("failed", "error", "failed", "failed"),
    ):
        events = ResponseEvents(HEAD)
        error = ("timeout", "too slow") if outcome == "failed" else None
        stream = written(events, [TextAdded("x"), TurnEnded(outcome, stop, USAGE, error)])  # type: ignore[arg-type]
        assert (events.response["status"], stream[-1]["type"]) == (status, f"response.{kind}")
    assert events.response["error"] == {"code": "timeout", "message": "too slow"}
