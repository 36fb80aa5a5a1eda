"""What holds for every turn, whatever a model says within its grammar and wherever the turn is cut."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.fixtures import event
from tests.runtime.fixtures import model_calls

from agentvm.drivers.base import MessageStarted, MessageStopped, ModelOutput, TextChunk, UsageReported
from agentvm.events import EventData, message, state, stream
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import AssistantMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentvm.model.usage import NO_USAGE
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime import turn
from agentvm.runtime.calls import ToolOutcome

LAST: list[ModelOutput] = [MessageStarted("m", "fake"), MessageStopped("end_turn")]
Input = ModelOutput | ToolCall
turns = st.lists(model_calls(), max_size=4)


@dataclass(slots=True)
class Played:
    """What a turn was given, what it told, and how it stood after each input."""

    given: list[Input]
    told: list[EventData]
    states: list[turn.TurnState]

    @property
    def end(self) -> TurnResponse:
        last = self.told[-1]
        assert isinstance(last, TurnResponse)
        return last


def play(calls: list[list[ModelOutput]], cut_at: int | None = None) -> Played:
    """As the agent feeds a turn: a call's outputs, then its tools' results, then the next call."""
    now = turn.begin(TurnId("turn_7"), MessageId("msg_user"), 0)
    played = Played([], [], [now])
    for call in (*calls, LAST):
        queue: list[Input] = [*call]
        while queue and not now.ended:
            if cut_at is not None and len(played.given) == cut_at:
                return played
            item = queue.pop(0)
            at = len(played.given)
            if isinstance(item, ToolCall):
                now, told = turn.tool_finished(now, item, ToolOutcome({"ok": True}, False), at)
            else:
                now, told = turn.step(now, item, at)
            played.given.append(item)
            played.told += told
            played.states.append(now)
            if isinstance(item, MessageStopped):
                queue += now.pending
    return played


def cut(calls: list[list[ModelOutput]], at: int, how: str) -> Played:
    played = play(calls, at)
    now = played.states[-1]
    if now.ended:
        return played
    now, told = turn.interrupted(now, 999) if how == "interrupted" else turn.failed(now, "code", "text", True, 999)
    played.told += told
    played.states.append(now)
    return played


def check_the_end(played: Played) -> None:
    assert [type(one) for one in played.told].count(TurnResponse) == 1
    assert played.end.turn_id == "turn_7"
    assert played.states[-1].ended
    assert not any(now.ended for now in played.states[:-1])


def check_the_ids(played: Played) -> None:
    started = [one.message_id for one in played.told if isinstance(one, stream.MessageStart)]
    stored = [one.message for one in played.told if isinstance(one, message.MessageEvent)]
    ids = [record.id for record in stored]
    assert len(set(ids)) == len(ids)
    assert len(set(started)) == len(started)
    assert {record.id for record in stored if isinstance(record, AssistantMessage)} <= set(started)
    spoken = {record.id for record in stored if isinstance(record, AssistantMessage)}
    assert {record.parent_id for record in stored if isinstance(record, ToolCallMessage)} <= spoken
    assert all(record.turn_id == "turn_7" for record in stored)


def check_the_tools(played: Played) -> None:
    planned = [one.tool_id for one in played.told if isinstance(one, state.ToolPlanned)]
    opened = [one.tool_call_id for one in played.told if isinstance(one, stream.ToolUseStart)]
    stopped = [one.tool_call_id for one in played.told if isinstance(one, stream.ToolUseStop)]
    stored = [one.message for one in played.told if isinstance(one, message.MessageEvent)]
    called = [record.tool_call.id for record in stored if isinstance(record, ToolCallMessage)]
    answered = [record.tool_call_id for record in stored if isinstance(record, ToolResultMessage)]
    assert planned == opened
    assert stopped == called
    assert len(opened) - len(called) in (0, 1)
    assert set(answered) <= set(called)


def texts(played: Played) -> list[str]:
    """The concatenated deltas of each model call."""
    found: list[str] = []
    for item in played.given:
        if isinstance(item, MessageStarted):
            found.append("")
        elif isinstance(item, TextChunk):
            found[-1] += item.text
    return found


def check_the_text(played: Played) -> None:
    told = [one.message for one in played.told if isinstance(one, message.AssistantMessageEvent)]
    said = [record.text for record in told if isinstance(record, AssistantMessage)]
    assert said == [text for text in texts(played) if text.strip()]


def check_the_usage(played: Played) -> None:
    total, of_call = NO_USAGE, NO_USAGE
    for item in played.given:
        if isinstance(item, UsageReported):
            of_call = item.usage
        elif isinstance(item, MessageStarted):
            total, of_call = total + of_call, NO_USAGE
    reported, used = total + of_call, played.end.usage
    if used.estimated:
        # Only a call that was cut off before its provider had reported all of it is estimated.
        assert used.output_tokens > reported.output_tokens or not of_call.input_tokens
        assert used.output_tokens >= reported.output_tokens
        assert used.input_tokens >= reported.input_tokens
    else:
        assert used == reported


def check(played: Played) -> None:
    check_the_end(played)
    check_the_ids(played)
    check_the_tools(played)
    check_the_text(played)
    check_the_usage(played)


@given(turns)
def test_a_turn_that_is_left_alone_completes(calls: list[list[ModelOutput]]) -> None:
    played = play(calls)
    check(played)
    assert played.end.outcome == "completed"
    assert isinstance(played.told[-2], state.ConversationEnd)
    called = [one for one in played.told if isinstance(one, stream.ToolUseStop)]
    answered = [one for one in played.told if isinstance(one, stream.ToolResultEvent)]
    assert len(answered) <= len(called)


@given(turns, st.integers(0, 60))
def test_a_turn_interrupted_anywhere_has_one_end_and_keeps_what_was_said(calls: list[list[ModelOutput]], at: int) -> None:
    played = cut(calls, at, "interrupted")
    check(played)
    assert played.end.outcome in ("interrupted", "completed")


@given(turns, st.integers(0, 60))
def test_a_turn_that_fails_anywhere_has_one_end_and_keeps_what_was_said(calls: list[list[ModelOutput]], at: int) -> None:
    played = cut(calls, at, "failed")
    check(played)
    if played.end.outcome == "failed":
        assert [one.type for one in played.told[-4:]] == ["error_received", "error_message", "error_occurred", "turn_response"]


@given(turns, st.integers(0, 60), model_calls())
def test_nothing_is_told_after_the_end(calls: list[list[ModelOutput]], at: int, more: list[ModelOutput]) -> None:
    now = cut(calls, at, "interrupted").states[-1]
    for output in more:
        assert turn.step(now, output, 1_000) == (now, ())
    assert turn.interrupted(now, 1_000) == turn.failed(now, "x", "y", True, 1_000) == (now, ())


@given(turns)
def test_the_same_outputs_give_the_same_events(calls: list[list[ModelOutput]]) -> None:
    assert play(calls).told == play(calls).told


@given(turns, st.integers(0, 60))
def test_every_event_of_a_turn_can_be_sent(calls: list[list[ModelOutput]], at: int) -> None:
    for told in cut(calls, at, "failed").told:
        assert encode_event(event(told)) is not None or not told.told
