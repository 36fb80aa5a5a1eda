"""A turn whose message a restart has cut off, played through the pure function."""

from collections.abc import Sequence

import msgspec
import pytest
from tests.runtime.test_turn import LS, START, begin, play, text

from agentvm.drivers.base import MessageStopped, TextChunk, TextStarted
from agentvm.events import EventData, message, stream
from agentvm.events.turn import ModelCalled
from agentvm.model.ids import MessageId
from agentvm.model.message import AssistantMessage, ToolCall
from agentvm.model.usage import Usage
from agentvm.runtime import turn


def cut_off(told: str) -> turn.TurnState:
    """A turn whose message a restart has cut off."""
    return msgspec.structs.replace(begin(), told=told, told_id=MessageId("msg_before"), produced=7)


def deltas(told: Sequence[EventData]) -> str:
    return "".join(event.text for event in told if isinstance(event, stream.TextDelta))


@pytest.mark.parametrize(
    ("told", "said", "rest"),
    [
        ("Hello wor", ["ld."], "ld."),
        ("Hello wor", ["Hello", " world."], "ld."),
        ("Hello wor", ["Hello world."], "ld."),
        ("Hello wor", ["Hello wor", "ld."], "ld."),
        # It only began alike.
        ("Hello wor", ["He", "y there"], "Hey there"),
        # It says less than it said before.
        ("Hello wor", ["Hello"], ""),
        ("Hello wor", [], ""),
    ],
)
def test_a_message_goes_on_after_a_restart_and_tells_nothing_twice(told: str, said: list[str], rest: str) -> None:
    now, events = play(cut_off(told), [START, *text(*said), MessageStopped("end_turn")])
    start = events[0]
    assert isinstance(start, stream.MessageStart)
    assert start.text == told
    assert deltas(events) == rest
    (record,) = [event.message for event in events if isinstance(event, message.AssistantMessageEvent)]
    assert isinstance(record, AssistantMessage)
    assert (record.id, record.text) == (start.message_id, told + rest)
    assert now.ended


def test_only_the_first_message_after_a_restart_goes_on() -> None:
    now, _ = play(cut_off("Hello wor"), [START, *text("ld."), *LS, MessageStopped("tool_use")])
    now, events = play(now, [START, *text("Hello wor"), MessageStopped("end_turn")])
    assert isinstance(events[0], stream.MessageStart)
    assert events[0].text is None
    assert deltas(events) == "Hello wor"


def test_what_was_said_again_was_used_though_it_is_not_told() -> None:
    now, _ = play(cut_off("x" * 300), [START, TextStarted(), TextChunk("x" * 200)])
    _, told = turn.interrupted(now, 500)
    (called,) = [event for event in told if isinstance(event, ModelCalled)]
    assert called.usage.output_tokens >= 60


@pytest.mark.parametrize("told", ["Hello wor", "  "])
def test_what_was_read_is_kept_when_the_turn_ends_without_going_on(told: str) -> None:
    for end in (turn.interrupted(cut_off(told), 500), turn.failed(cut_off(told), "code", "text", True, 500)):
        kept = [event.message for event in end[1] if isinstance(event, message.AssistantMessageEvent)]
        assert [(one.id, getattr(one, "text", "")) for one in kept] == ([("msg_before", told)] if told.strip() else [])


@pytest.mark.parametrize("told", ["Let me see.", ""])
def test_a_message_that_had_asked_for_tools_ends_with_them(told: str) -> None:
    calls = (ToolCall(id="c1", name="Bash", input={}),)
    now, events = turn.close_cut(cut_off(told), told, calls, Usage(input_tokens=1, output_tokens=2), 500)
    assert (now.pending, now.told, now.told_id) == (calls, "", None)
    stop, kept = events
    assert stop == stream.MessageStop(stop_reason="tool_use")
    assert isinstance(kept, message.AssistantMessageEvent if told else message.SilentMessageEvent)
    assert kept.message.id == "msg_before"
