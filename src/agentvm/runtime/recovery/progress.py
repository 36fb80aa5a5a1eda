"""Progress — the finished steps of an interrupted turn, read from its messages. Pure.

A step of a turn is finished when its assistant message is stored. A call whose result is stored never runs again; calls of a
step that was not finished never ran at all.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from agentvm.events.base import Event
from agentvm.events.stream import MessageDelta, MessageStart, MessageStop, TextDelta, ThinkingDelta, ToolUseStop
from agentvm.events.tool import ToolStarted
from agentvm.events.turn import TurnResumed
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import AssistantMessage, Message, ToolCall, ToolCallMessage, ToolResultMessage
from agentvm.model.placed_call import PlacedCall
from agentvm.model.usage import NO_USAGE, Usage, at_least


@dataclass(frozen=True, slots=True)
class Done:
    """The progress of a turn before a restart."""

    unanswered: tuple[ToolCall, ...] = ()
    """The calls of its finished steps that have no result."""
    produced: int = 0
    """The highest number among the ids of its messages."""
    steps: int = 0
    """Model calls that were finished."""
    usage: Usage = NO_USAGE
    """Usage of its finished steps."""
    most_repeated: tuple[str, int] = ("", 0)
    """The tool that was called most often with one and the same input, and how often."""
    call_ids: frozenset[str] = frozenset()
    """Keys of every call it made, also of those that do not count."""
    at_provider: tuple[ToolCall, ...] = ()
    """Calls that the provider of the model makes by itself, and that have no result."""
    lost_at_provider: tuple[ToolCall, ...] = ()
    """Calls among these whose message was cut off: no later answer of the provider will have their results."""


NOTHING = Done()


@dataclass(frozen=True, slots=True)
class Cut:
    """A model call that was cut off by a crash, as far as it is known."""

    call_id: MessageId
    model: str
    usage: Usage
    asked: str | None = None
    """The `<provider>/<model>` it was made to; None for one from before that was told."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A message that was cut off by a crash, as far as clients have received it."""

    message_id: MessageId
    text: str = ""
    """The text so far, also from before an earlier restart."""
    calls: tuple[str, ...] = ()
    """The tool calls that it had asked for to the end."""


def drop_ended(events: Sequence[Event]) -> list[Event]:
    """Events of one turn without the output of completed messages, which is not needed any more."""
    borders = (place for place, event in enumerate(events) if isinstance(event.data, MessageStart | MessageStop))
    last = max(borders, default=0)
    ended = (event for event in events[:last] if not isinstance(event.data, TextDelta | ThinkingDelta | MessageDelta))
    return [*ended, *events[last:]]


def find_partial(tail: Sequence[Event], turn_id: TurnId) -> Partial | None:
    """The message that a turn was writing when its process ended, from its events."""
    partial: Partial | None = None
    pieces: list[str] = []
    for event in tail:
        if event.scope.turn_id != turn_id:
            continue
        match event.data:
            case MessageStart(message_id=message_id, text=text):
                partial, pieces = Partial(MessageId(message_id)), [text or ""]
            case TextDelta(text=text):
                pieces.append(text)
            case ToolUseStop(tool_call_id=call_id) if partial is not None:
                partial = replace(partial, calls=(*partial.calls, call_id))
            case MessageStop():
                partial = None
            case _:
                pass
    return None if partial is None else replace(partial, text="".join(pieces))


def find_cut(tail: Sequence[Event], turn_id: TurnId) -> Cut | None:
    """The model call that a turn was making when its process ended, from its events."""
    call: MessageStart | None = None
    reported, partial_text = NO_USAGE, ""
    for event in tail:
        if event.scope.turn_id != turn_id:
            continue
        match event.data:
            case MessageStart() as call:
                reported, partial_text = NO_USAGE, ""
            case MessageDelta(usage=usage) if usage is not None:
                reported = usage
            case TextDelta(text=text) | ThinkingDelta(text=text):
                partial_text += text
            case MessageStop() | TurnResumed():
                # It ended, or an earlier recovery has seen to it.
                call = None
            case _:
                pass
    return None if call is None else Cut(MessageId(call.message_id), call.model, at_least(reported, partial_text), call.asked)


def review(history: Sequence[Message], turn_id: TurnId) -> Done:
    own = [message for message in history if message.turn_id == turn_id]
    finished = {message.id: message for message in own if isinstance(message, AssistantMessage)}
    answered = {message.tool_call_id for message in own if isinstance(message, ToolResultMessage)}
    unanswered = tuple(
        message.tool_call
        for message in own
        if isinstance(message, ToolCallMessage)
        and message.parent_id in finished
        and message.tool_call.id not in answered
        and not message.tool_call.by_provider
    )
    call_messages = [message for message in own if isinstance(message, ToolCallMessage)]
    calls = [message.tool_call for message in call_messages]
    at_provider = [
        message for message in call_messages if message.tool_call.by_provider and message.tool_call.id not in answered
    ]
    alike = Counter((call.name, msgspec.json.encode(call.input, order="deterministic")) for call in calls)
    (name, _), times = max(alike.items(), key=lambda count: count[1], default=(("", b""), 0))
    return Done(
        unanswered=unanswered,
        produced=max((int(number) for message in own if (number := message.id.rpartition("_")[2]).isdecimal()), default=0),
        steps=len(finished),
        most_repeated=(name, times),
        usage=sum((message.usage or NO_USAGE for message in finished.values()), NO_USAGE),
        call_ids=frozenset(call.id for call in calls),
        at_provider=tuple(message.tool_call for message in at_provider),
        lost_at_provider=tuple(message.tool_call for message in at_provider if message.parent_id not in finished),
    )


def find_tool_use(placed: Sequence[PlacedCall]) -> tuple[int, frozenset[str]]:
    """Returns the time of a turn's tools in milliseconds, and the ids of the calls that its programs have made."""
    return max((call.tool_ms for call in placed), default=0), frozenset(call.call_id for call in placed if call.is_nested)


def find_started(events: Sequence[Event], turn_id: TurnId, pending: Sequence[ToolCall]) -> set[str]:
    """Returns those of the calls that have begun to run, or of which it is not known, with those that programs have made."""
    own = [event.data for event in events if event.scope.turn_id == turn_id]
    started = {data.tool_id for data in own if isinstance(data, ToolStarted)}
    asked_for = {data.tool_call_id for data in own if isinstance(data, ToolUseStop)}
    of_programs = {tool_id for tool_id in started if any(tool_id.startswith(f"{call.id}.") for call in pending)}
    return of_programs | {call.id for call in pending if call.id in started or call.id not in asked_for}
