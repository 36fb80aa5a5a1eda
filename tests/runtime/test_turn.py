"""The timelines of the 1.x protocol, played through the pure function; properties are in test_turn_properties.py."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from agentvm.drivers.base import (
    MessageStarted,
    MessageStopped,
    ModelOutput,
    StopReason,
    TextChunk,
    TextStarted,
    TextStopped,
    ThinkingChunk,
    ThinkingStarted,
    ThinkingStopped,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    UsageReported,
)
from agentvm.events import EventData, error, message, state, stream
from agentvm.events.turn import ModelCalled, TurnResponse
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import AssistantMessage, ErrorMessage, TextPart, ThinkingPart, ToolCallMessage, ToolResultMessage
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.runtime import tool_input, turn
from agentvm.runtime.calls import ToolOutcome

ACCEPTED_AT = 100
START = MessageStarted("msg_provider", "fake-model-1")
LS: list[ModelOutput] = [
    ToolCallStarted("toolu_1", "Bash"),
    ToolInputChunk('{"comm'),
    ToolInputChunk('and":"ls"}'),
    ToolCallStopped(),
]


def begin() -> turn.TurnState:
    return turn.begin(TurnId("turn_7"), MessageId("msg_user"), ACCEPTED_AT)


def text(*deltas: str) -> list[ModelOutput]:
    return [TextStarted(), *map(TextChunk, deltas), TextStopped()]


def play(now: turn.TurnState, outputs: Sequence[ModelOutput]) -> tuple[turn.TurnState, list[EventData]]:
    told: list[EventData] = []
    for at, output in enumerate(outputs, start=now.accepted_at + 1):
        now, events = turn.step(now, output, at)
        told += heard(events)
    return now, told


def heard(events: Sequence[EventData]) -> list[EventData]:
    """Without what is only stored for the ledger; that is tested by itself."""
    return [event for event in events if not isinstance(event, ModelCalled)]


def names(told: Sequence[EventData]) -> list[str]:
    return [event.type for event in told]


def only(told: Sequence[EventData], kind: type[EventData]) -> EventData:
    (found,) = [event for event in told if isinstance(event, kind)]
    return found


def test_t1_a_plain_text_turn() -> None:
    usage = Usage(input_tokens=3, output_tokens=2)
    now, told = play(begin(), [START, *text("Hello", " world"), UsageReported(usage), MessageStopped("end_turn")])
    assert names(told) == [
        "message_start", "conversation_start",
        "text_content_block_start", "text_delta", "conversation_responding", "text_delta", "text_content_block_stop",
        "message_delta", "message_stop", "assistant_message", "conversation_end", "turn_response",
    ]  # fmt: skip
    assert told[0] == stream.MessageStart(message_id="msg_7_1", model="fake-model-1")
    said = AssistantMessage(
        id=MessageId("msg_7_1"),
        timestamp=ACCEPTED_AT + 1,
        turn_id=TurnId("turn_7"),
        role="assistant",
        content=(TextPart(text="Hello world"),),
        usage=usage,
    )
    assert told[-4:] == [
        stream.MessageStop(stop_reason="end_turn"),
        message.AssistantMessageEvent(message=said),
        state.ConversationEnd(reason="completed"),
        TurnResponse(
            turn_id=TurnId("turn_7"),
            message_id=MessageId("msg_user"),
            outcome="completed",
            stop_reason="end_turn",
            duration=7,
            usage=usage,
            model="fake-model-1",
            timestamp=ACCEPTED_AT + 7,
        ),
    ]
    assert now.ended


def test_t2_a_turn_with_one_tool_call() -> None:
    now, told = play(begin(), [START, *text("Let me check."), *LS, MessageStopped("tool_use")])
    assert names(told) == [
        "message_start", "conversation_start",
        "text_content_block_start", "text_delta", "conversation_responding", "text_content_block_stop",
        "tool_use_start", "tool_planned", "tool_executing", "input_json_delta", "input_json_delta",
        "tool_use_stop", "tool_call_message", "message_stop", "assistant_message",
    ]  # fmt: skip
    call = only(told, message.ToolCallMessageEvent)
    assert isinstance(call, message.ToolCallMessageEvent)
    assert isinstance(call.message, ToolCallMessage)
    assert call.message.parent_id == "msg_7_1"
    assert call.message.tool_call.input == {"command": "ls"}
    assert only(told, stream.ToolUseStop) == stream.ToolUseStop(
        tool_call_id="toolu_1", tool_name="Bash", input={"command": "ls"}
    )
    assert told[-2] == stream.MessageStop(stop_reason="tool_use")
    assert not now.ended
    (pending,) = now.pending
    now, answered = turn.tool_finished(now, pending, ToolOutcome("a.txt\nb.txt", False), 200)
    assert names(answered) == ["tool_result", "tool_result_message", "tool_completed"]
    assert answered[0] == stream.ToolResultEvent(tool_call_id="toolu_1", result="a.txt\nb.txt", is_error=False)
    now, rest = play(now, [START, *text("Two files."), MessageStopped("end_turn")])
    assert names(rest)[:2] == ["message_start", "conversation_start"]
    assert names(rest)[-4:] == ["message_stop", "assistant_message", "conversation_end", "turn_response"]


def test_t3_an_interrupted_turn_keeps_what_was_said() -> None:
    now, _ = play(begin(), [START, TextStarted(), TextChunk("w0 "), TextChunk("w1 ")])
    now, events = turn.interrupted(now, 150)
    told = heard(events)
    assert names(told) == ["message_stop", "assistant_message", "conversation_end", "turn_response"]
    assert told[0] == stream.MessageStop(stop_reason="end_turn")
    said = only(told, message.AssistantMessageEvent)
    assert isinstance(said, message.AssistantMessageEvent)
    assert isinstance(said.message, AssistantMessage)
    assert said.message.text == "w0 w1 "
    end = told[-1]
    assert isinstance(end, TurnResponse)
    assert (end.outcome, end.stop_reason, end.duration) == ("interrupted", "interrupted", 50)


def test_t3_an_interrupt_while_a_tool_runs_or_before_anything_is_only_the_end() -> None:
    waiting, _ = play(begin(), [START, *LS, MessageStopped("tool_use")])
    for now in (begin(), waiting):
        assert names(turn.interrupted(now, 150)[1]) == ["message_stop", "conversation_end", "turn_response"]


def test_t4_a_failed_turn_ends_with_the_three_errors_and_its_end() -> None:
    now, _ = play(begin(), [START])
    now, events = turn.failed(now, "provider_overloaded", "try later", True, 150)
    told = heard(events)
    assert names(told) == ["error_received", "error_message", "error_occurred", "turn_response"]
    record = ErrorMessage(
        id=MessageId("msg_7_2"),
        timestamp=150,
        turn_id=TurnId("turn_7"),
        role="error",
        content="try later",
        error_code="provider_overloaded",
    )
    assert tuple(told[:3]) == (
        error.ErrorReceived(message="try later", error_code="provider_overloaded"),
        message.ErrorMessageEvent(message=record),
        error.ErrorOccurred(code="provider_overloaded", message="try later", recoverable=True),
    )
    assert isinstance(told[3], TurnResponse)
    assert (told[3].outcome, told[3].stop_reason) == ("failed", "error")


def test_t4_partial_text_is_kept_before_the_errors() -> None:
    now, _ = play(begin(), [START, TextStarted(), TextChunk("Partial")])
    assert names(heard(turn.failed(now, "x", "y", False, 150)[1])) == [
        "assistant_message", "error_received", "error_message", "error_occurred", "turn_response",
    ]  # fmt: skip


def test_a_message_of_tools_only_is_stored_silently_so_that_its_calls_have_a_parent() -> None:
    _, told = play(begin(), [START, *LS, MessageStopped("tool_use")])
    assert names(told)[-2:] == ["message_stop", "silent_message"]


def test_blank_text_is_no_message() -> None:
    _, told = play(begin(), [START, *text(" ", "\n"), MessageStopped("end_turn")])
    assert "assistant_message" not in names(told)
    assert "silent_message" not in names(told)


def test_thinking_is_kept_with_its_signature_before_the_text() -> None:
    thought: list[ModelOutput] = [ThinkingStarted(), ThinkingChunk("h"), ThinkingChunk("m"), ThinkingStopped("sig")]
    _, told = play(begin(), [START, *thought, *text("Yes"), MessageStopped("end_turn")])
    assert names(told)[2:5] == ["conversation_thinking", "thinking_delta", "thinking_delta"]
    said = only(told, message.AssistantMessageEvent)
    assert isinstance(said, message.AssistantMessageEvent)
    assert isinstance(said.message, AssistantMessage)
    assert said.message.content == (ThinkingPart(reasoning="hm", signature="sig"), TextPart(text="Yes"))


def test_thinking_that_was_cut_off_is_kept_without_a_signature() -> None:
    now, _ = play(begin(), [START, ThinkingStarted(), ThinkingChunk("h")])
    said = only(turn.interrupted(now, 150)[1], message.SilentMessageEvent)
    assert isinstance(said, message.SilentMessageEvent)
    assert isinstance(said.message, AssistantMessage)
    assert said.message.content == (ThinkingPart(reasoning="h"),)


@pytest.mark.parametrize(
    ("reason", "calls", "stop"),
    [
        ("end_turn", True, "tool_use"),
        ("tool_use", True, "tool_use"),
        ("tool_use", False, "end_turn"),
        ("max_tokens", True, "max_tokens"),
        ("refusal", False, "refusal"),
        ("stop_sequence", False, "stop_sequence"),
    ],
)
def test_calls_run_unless_the_answer_was_cut_off(reason: StopReason, calls: bool, stop: str) -> None:
    now, told = play(begin(), [START, *(LS if calls else text("a")), MessageStopped(reason)])
    assert only(told, stream.MessageStop) == stream.MessageStop(stop_reason=stop)
    assert now.ended == (stop != "tool_use")
    assert bool(now.pending) == (stop == "tool_use")


@pytest.mark.parametrize(
    ("result", "kind", "value"),
    [("plain", "text", "plain"), ({"a": [1]}, "json", '{"a":[1]}'), (None, "json", "null"), (14, "json", "14")],
)
def test_a_result_that_is_no_text_is_stored_as_json(result: object, kind: str, value: str) -> None:
    now, _ = play(begin(), [START, *LS, MessageStopped("tool_use")])
    _, told = turn.tool_finished(now, now.pending[0], ToolOutcome(result, False), 200)
    record = only(told, message.ToolResultMessageEvent)
    assert isinstance(record, message.ToolResultMessageEvent)
    assert isinstance(record.message, ToolResultMessage)
    assert (record.message.tool_result.output.type, record.message.tool_result.output.text) == (kind, value)
    assert record.message.tool_call_id == record.message.tool_result.id == "toolu_1"


def test_a_failed_tool_is_an_error_text() -> None:
    now, _ = play(begin(), [START, *LS, MessageStopped("tool_use")])
    _, told = turn.tool_finished(now, now.pending[0], ToolOutcome("no such file", True), 200)
    assert names(told) == ["tool_result", "tool_result_message", "tool_failed"]
    assert told[2] == state.ToolFailedEvent(tool_id="toolu_1", tool_name="Bash", error="no such file")


@pytest.mark.parametrize("json", ["[1]", "{", '"text"', "{" * 5_000, '{"a":' * 5_000 + "1" + "}" * 5_000, '{"a":"\\ud800"}'])
def test_input_that_is_no_json_object_is_a_problem_of_the_call_not_of_the_turn(json: str) -> None:
    asked: list[ModelOutput] = [ToolCallStarted("t", "Bash"), ToolInputChunk(json), ToolCallStopped()]
    now, told = play(begin(), [START, *asked, MessageStopped("tool_use")])
    (pending,) = now.pending
    assert pending.problem is not None
    assert pending.input == {}
    assert "tool_call_message" in names(told)


def test_a_tool_block_that_was_never_opened_is_nothing() -> None:
    _, told = play(begin(), [START, ToolInputChunk("{}"), ToolCallStopped()])
    assert names(told)[2:] == ["input_json_delta"]


def test_a_later_usage_report_replaces_an_earlier_one_and_a_new_call_adds() -> None:
    early, late = Usage(input_tokens=9, output_tokens=1), Usage(input_tokens=9, output_tokens=5)
    outputs = [START, UsageReported(early), *LS, UsageReported(late), MessageStopped("tool_use")]
    now, _ = play(begin(), outputs)
    assert now.usage == late
    now, told = play(now, [START, UsageReported(early), MessageStopped("end_turn")])
    end = told[-1]
    assert isinstance(end, TurnResponse)
    assert end.usage == early + late
    assert turn.begin(TurnId("t"), MessageId("m"), 1).usage == NO_USAGE


def test_nothing_follows_the_end() -> None:
    ended, _ = play(begin(), [START, *text("a"), MessageStopped("end_turn")])
    after, told = play(ended, [TextChunk("late"), START, *LS, MessageStopped("end_turn")])
    assert (after, told) == (ended, [])
    assert turn.interrupted(ended, 300) == (ended, ())
    assert turn.failed(ended, "x", "y", True, 300) == (ended, ())


def test_an_output_the_catalogue_does_not_know_is_not_passed_over_in_silence() -> None:
    unknown: Any = object()
    with pytest.raises(TypeError):
        _, _ = turn.step(begin(), unknown, 1)


def test_half_of_a_surrogate_pair_becomes_text_that_json_can_carry() -> None:
    outputs: list[ModelOutput] = [MessageStarted("m", "a\ud800"), *text("ok\ud83d", "\udc00"), ThinkingStarted()]
    outputs += [ThinkingChunk("\ud800"), ThinkingStopped("\udfff"), ToolCallStarted("t\ud800", "n\ud800")]
    outputs += [ToolInputChunk('{"a":"\ud800"}'), ToolCallStopped(), MessageStopped("tool_use")]
    now, told = play(begin(), outputs)
    _, errors = turn.failed(now, "x", "broken \ud800", True, 300)
    said = "".join(map(repr, [*told, *errors, now.pending]))
    assert "\\ud8" not in said
    assert "\\udf" not in said
    assert "ok\ufffd" in said


def test_a_call_that_is_cut_off_before_its_usage_was_reported_is_estimated() -> None:
    now = msgspec.structs.replace(begin(), prompt_tokens=40)
    for output in (START, TextStarted(), TextChunk("twelve bytes")):
        now, _ = turn.step(now, output, 1)
    _, told = turn.interrupted(now, 2)
    end = told[-1]
    assert isinstance(end, TurnResponse)
    assert end.usage == Usage(input_tokens=40, output_tokens=5, estimated=True)


def called_with(json: str) -> tuple[turn.TurnState, list[EventData]]:
    asked: list[ModelOutput] = [ToolCallStarted("t", "Bash"), ToolInputChunk(json), ToolCallStopped()]
    return play(begin(), [START, *asked, MessageStopped("tool_use")])


def nested(levels: int, inner: str = "{}") -> str:
    """A JSON object of that many levels, objects and lists by turns below the first."""
    opening = "".join('{"a":' if level % 2 == 0 else "[" for level in range(levels - 1))
    closing = "".join("}" if level % 2 == 0 else "]" for level in reversed(range(levels - 1)))
    return opening + inner + closing


def test_input_is_taken_to_a_depth_and_no_deeper() -> None:
    now, _ = called_with(nested(tool_input.DEPTH_MAX))
    assert now.pending[0].problem is None
    assert msgspec.json.encode(now.pending[0].input).decode() == nested(tool_input.DEPTH_MAX)
    for json in (nested(tool_input.DEPTH_MAX + 1), nested(500, "1"), '{"flat":1,"deep":' + nested(tool_input.DEPTH_MAX) + "}"):
        now, told = called_with(json)
        assert now.pending[0].problem is not None
        assert f"more than {tool_input.DEPTH_MAX} levels" in now.pending[0].problem
        record = only(told, message.ToolCallMessageEvent)
        assert isinstance(record, message.ToolCallMessageEvent)
        assert isinstance(record.message, ToolCallMessage)
        assert (now.pending[0].input, record.message.tool_call.input) == ({}, {})


@pytest.mark.parametrize(("reported", "counted"), [(1, 2_001), (2_000, 2_001), (5_000, 5_000)])
def test_a_call_cut_off_counts_what_was_reported_or_produced_whichever_is_more(reported: int, counted: int) -> None:
    early = UsageReported(Usage(input_tokens=9, output_tokens=reported))
    now, _ = play(begin(), [START, early, ThinkingStarted(), ThinkingChunk("abc" * 1_000), TextStarted()])
    now, _ = play(now, [TextChunk("abc" * 1_000)])
    end = turn.failed(now, "x", "y", True, 150)[1][-1]
    assert isinstance(end, TurnResponse)
    assert end.usage == Usage(input_tokens=9, output_tokens=counted, estimated=counted != reported)


def ids_of(told: Sequence[EventData]) -> dict[str, list[str]]:
    """The ids of calls as each kind of event tells them."""
    found: dict[str, list[str]] = {}
    for event in told:
        match event:
            case stream.ToolUseStart() | stream.ToolUseStop() | stream.ToolResultEvent():
                found.setdefault(event.type, []).append(event.tool_call_id)
            case state.ToolPlanned() | state.ToolExecuting() | state.ToolCompleted():
                found.setdefault(event.type, []).append(event.tool_id)
            case message.ToolCallMessageEvent(message=ToolCallMessage(tool_call=call)):
                found.setdefault(event.type, []).append(call.id)
            case message.ToolResultMessageEvent(message=ToolResultMessage(tool_call_id=call_id, tool_result=result)):
                assert result.id == call_id
                found.setdefault(event.type, []).append(call_id)
            case _:
                pass
    return found


@pytest.mark.parametrize(
    "calls",
    [
        [["call_0", "call_1"], ["call_0", "call_1"], ["call_0"]],
        [["a"], ["a"], ["a"], ["a"]],
        # The name that the second one would be given is taken.
        [["a", "a_6"], ["a"]],
    ],
)
def test_every_call_of_a_turn_has_an_id_of_its_own_in_everything_told_of_it(calls: list[list[str]]) -> None:
    now, told = begin(), list[EventData]()
    for ids in calls:
        asked = [output for call_id in ids for output in (ToolCallStarted(call_id, "Bash"), *LS[1:])]
        now, events = play(now, [START, *asked, MessageStopped("tool_use")])
        told += events
        for pending in now.pending:
            now, answered = turn.tool_finished(now, pending, ToolOutcome("ok", False), 200)
            told += answered
    found = ids_of(told)
    assert len(found) == 8
    first = found["tool_use_start"]
    assert len(set(first)) == len(first) == sum(map(len, calls))
    assert first[: len(calls[0])] == calls[0]
    assert [kind for kind, ids in found.items() if ids != first] == []
