from typing import Any

from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.error import ErrorOccurred
from agentvm.events.message import ToolResultMessageEvent
from agentvm.events.stream import (
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    TextDelta,
    ThinkingDelta,
    ToolUseStart,
    ToolUseStop,
)
from agentvm.events.tool import ToolWaiting
from agentvm.events.turn import TurnParked, TurnResponse
from agentvm.gateways.turn_parts import (
    AnswerBegun,
    AnswerEnded,
    CallBegun,
    CallEnded,
    CallInput,
    CallMade,
    CallWaits,
    PartReader,
    TextAdded,
    ThinkingAdded,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.model.ids import DEFAULT_TENANT, MessageId, TurnId
from agentvm.model.message import ErrorTextOutput, ToolResult, ToolResultMessage
from agentvm.model.turn import TurnOutcome
from agentvm.model.usage import Usage
from agentvm.model.wait import WaitId

USED = Usage(input_tokens=1, output_tokens=2)
TURN, MESSAGE, WAIT = TurnId("t"), MessageId("m"), WaitId("w")


def read(*told: EventData) -> list[TurnPart]:
    reader = PartReader()
    events = [Event(data=data, scope=EventScope(), timestamp=1, tenant_id=DEFAULT_TENANT) for data in told]
    return [part for event in events for part in reader.read(event)]


def test_the_events_of_a_turn_become_parts_in_their_order() -> None:
    result = ToolResult(id="c", name="f", output=ErrorTextOutput(value="no"))
    message = ToolResultMessage(id=MESSAGE, timestamp=1, role="tool", tool_call_id="c", tool_result=result)
    waiting = ToolWaiting(
        wait_id=WAIT, turn_id=TURN, tool_id="c", tool_name="f", kind="client", input={"a": 1}, fingerprint="p",
        decisions=("answer",), why="", audience="sender", expires_at=9,
    )  # fmt: skip
    ended = TurnResponse(
        turn_id=TURN, message_id=MESSAGE, outcome="completed", stop_reason="end_turn", duration=1, usage=USED, timestamp=1
    )
    assert read(
        MessageStart(message_id="m", model="x"),
        ThinkingDelta(text="hm"),
        TextDelta(text="hi"),
        ToolUseStart(tool_call_id="c", tool_name="f"),
        InputJsonDelta(partial_json='{"a":1}'),
        ToolUseStop(tool_call_id="c", tool_name="f", input={"a": 1}),
        MessageDelta(usage=USED),
        MessageStop(stop_reason="tool_use"),
        waiting,
        TurnParked(turn_id=TURN, message_id=MESSAGE, waits=(WAIT,), active=1, timestamp=1),
        ToolResultMessageEvent(message=message),
        ended,
    ) == [
        AnswerBegun("m"),
        ThinkingAdded("hm"),
        TextAdded("hi"),
        CallBegun("c", "f"),
        CallInput("c", '{"a":1}'),
        CallMade("c", "f", {"a": 1}),
        AnswerEnded(USED),
        CallWaits("c", "f", {"a": 1}, "client", WAIT, "p"),
        TurnWaits((WAIT,)),
        CallEnded("c", "f", "no", is_error=True, message_id=MESSAGE),
        TurnEnded("completed", "end_turn", USED),
    ]


def test_the_end_of_a_failed_turn_says_why() -> None:
    failed = TurnResponse(
        turn_id=TURN, message_id=MESSAGE, outcome="failed", stop_reason="error", duration=1, usage=USED, timestamp=1
    )
    parts = read(ErrorOccurred(code="provider_overloaded", message="busy", recoverable=True), failed)
    assert parts == [TurnEnded("failed", "error", USED, ("provider_overloaded", "busy"))]


def test_a_draft_is_held_until_it_fits_or_makes_calls() -> None:
    def drafted(message_id: str, text: str) -> tuple[EventData, ...]:
        start = MessageStart(message_id=message_id, model="m", draft=True)
        return start, TextDelta(text=text), MessageStop(stop_reason="end_turn")

    def ended(outcome: TurnOutcome) -> EventData:
        about: Any = {"turn_id": TURN, "message_id": MESSAGE, "duration": 1, "usage": USED, "timestamp": 1}
        return TurnResponse(outcome=outcome, stop_reason="end_turn", **about)

    assert read(*drafted("m1", "no"), *drafted("m2", "{}"), ended("completed"))[:2] == [AnswerBegun("m2"), TextAdded("{}")]
    assert [type(part) for part in read(*drafted("m1", "no"), ended("failed"))] == [TurnEnded]
    stopped = read(*drafted("m1", "no"), ended("interrupted"))
    assert [type(part) for part in stopped] == [AnswerBegun, TextAdded, AnswerEnded, TurnEnded]
    called = read(*drafted("m1", "no")[:2], ToolUseStart(tool_call_id="c", tool_name="look"))
    assert [type(part) for part in called] == [AnswerBegun, TextAdded, CallBegun]
