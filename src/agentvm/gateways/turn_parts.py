"""Turn parts — a turn's events in the form that encoders take: text, thinking, calls, results, waits and the end. Pure."""

from typing import Any

import msgspec

from agentvm.events.base import Event
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
from agentvm.events.turn import TurnParked, TurnResponse, TurnStop
from agentvm.model.message import ToolResultMessage, is_failure
from agentvm.model.turn import TurnOutcome
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.model.wait import Question, WaitId, WaitKind


class TurnPart(msgspec.Struct, frozen=True):
    """A part of a turn that an encoder writes."""


class AnswerBegun(TurnPart, frozen=True):
    """The model has begun a message. `text` is its beginning, if it continues after a restart."""

    message_id: str
    text: str = ""


class AnswerEnded(TurnPart, frozen=True):
    """The model has ended a message, in which it may have made calls."""

    usage: Usage


class TextAdded(TurnPart, frozen=True):
    text: str


class ThinkingAdded(TurnPart, frozen=True):
    text: str


class CallBegun(TurnPart, frozen=True):
    """The model has begun to write a call; its input follows in pieces."""

    call_id: str
    name: str


class CallInput(TurnPart, frozen=True):
    call_id: str
    piece: str
    """The next characters of the input's JSON."""


class CallMade(TurnPart, frozen=True):
    """The model has written a call."""

    call_id: str
    name: str
    input: dict[str, Any]


class CallEnded(TurnPart, frozen=True):
    call_id: str
    name: str
    text: str
    is_error: bool
    message_id: str = ""


class CallWaits(TurnPart, frozen=True):
    """A call waits for an answer; of kind `client`, for the caller, who runs the tool."""

    call_id: str
    name: str
    input: dict[str, Any]
    kind: WaitKind
    wait_id: WaitId
    fingerprint: str
    why: str = ""
    """The reason, for people."""
    questions: dict[str, Question] | None = None
    url: str | None = None


class TurnWaits(TurnPart, frozen=True):
    """The turn continues when its waits are answered."""

    waits: tuple[WaitId, ...]


class TurnEnded(TurnPart, frozen=True):
    """The end; nothing follows. `error` is the code and the text of a failure."""

    outcome: TurnOutcome
    stop: TurnStop
    usage: Usage = NO_USAGE
    error: tuple[str, str] | None = None


class PartReader:
    """Reads the events of one turn, in their order. Events that no encoder writes give nothing.

    A draft, an answer that must fit a schema, is held until the turn has ended with it, or has made calls in it: clients of
    other protocols join all text that they are sent, and could not read a rejected answer before the right one.
    """

    __slots__ = ("_call_id", "_error", "_held", "_names", "_usage")

    def __init__(self) -> None:
        self._call_id = ""
        self._names: dict[str, str] = {}
        self._error: tuple[str, str] | None = None
        self._usage = NO_USAGE
        self._held: list[TurnPart] | None = None

    def read(self, event: Event) -> tuple[TurnPart, ...]:
        """Returns the parts that can be written now."""
        data = event.data
        if self._held is None and not (isinstance(data, MessageStart) and data.draft):
            part = self._read(event)
            return () if part is None else (part,)
        if isinstance(data, MessageStart) or (isinstance(data, TurnResponse) and data.outcome == "failed"):
            # The answer before did not fit.
            self._held = []
        held = self._held or []
        part = self._read(event)
        held += () if part is None else (part,)
        if not isinstance(data, ToolUseStart | TurnResponse):
            self._held = held
            return ()
        self._held = None
        return tuple(held)

    def _read(self, event: Event) -> TurnPart | None:
        data = event.data
        # Nearly all events are deltas.
        if isinstance(data, TextDelta):
            return TextAdded(data.text)
        if isinstance(data, ThinkingDelta):
            return ThinkingAdded(data.text)
        match data:
            case ToolUseStart(tool_call_id=call_id, tool_name=name):
                self._call_id, self._names[call_id] = call_id, name
                return CallBegun(call_id, name)
            case InputJsonDelta(partial_json=piece):
                return CallInput(self._call_id, piece)
            case ToolUseStop(tool_call_id=call_id, tool_name=name, input=given):
                self._names[call_id] = name
                return CallMade(call_id, name, given)
            case ToolResultMessageEvent(message=ToolResultMessage(id=message_id, tool_call_id=call_id, tool_result=result)):
                return CallEnded(call_id, result.name, result.output.text, is_failure(result.output), message_id)
            case MessageStart(message_id=message_id, text=text):
                self._usage = NO_USAGE
                return AnswerBegun(message_id, text or "")
            case MessageDelta(usage=usage):
                self._usage = usage
            case MessageStop():
                return AnswerEnded(self._usage)
            case ToolWaiting():
                wait_facts = (data.wait_id, data.fingerprint, data.why, data.questions, data.url)
                return CallWaits(data.tool_id, data.tool_name, data.input, data.kind, *wait_facts)
            case TurnParked(waits=waits):
                return TurnWaits(waits)
            case ErrorOccurred(code=code, message=text):
                self._error = (code, text)
            case TurnResponse(outcome=outcome, stop_reason=stop, usage=usage):
                return TurnEnded(outcome, stop, usage, self._error if outcome == "failed" else None)
            case _:
                pass
        return None
