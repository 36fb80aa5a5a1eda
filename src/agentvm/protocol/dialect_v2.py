"""Dialect 2.x — the JSON of events and messages as AgentX 2.x clients read it: notifications of JSON-RPC.

An agent of ours is an instance of theirs: `agent_x` here is `inst_x` there. Clients apply an event without an instance to every
conversation they show, so events of a conversation always have one. An assistant message holds its tool calls as parts; here
each call is a message of its own, so `rpc_peer` puts them together before they leave.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from agentvm.events import error, lifecycle, message, state, stream, turn
from agentvm.events.base import Event, EventScope
from agentvm.model.base import Record
from agentvm.model.ids import AgentId, MessageId, TurnId
from agentvm.model.message import AssistantMessage, AssistantPart, Citation, Message, ToolCall, ToolCallMessage
from agentvm.protocol.codec import Frame, encode
from agentvm.protocol.rpc import RpcProblem

_AGENT, _INSTANCE = "agent_", "inst_"
AgentEvent = lifecycle.AgentRegistered | lifecycle.AgentUnregistered
_AGENT_EVENTS: Final = (lifecycle.AgentRegistered, lifecycle.AgentUnregistered)
"""Events that name the agent in their data and not in their scope."""

_DROPPED: Final = frozenset(
    {
        stream.TextContentBlockStart,
        stream.TextContentBlockStop,
        message.MessagePersisted,
        state.ConversationQueued,
        state.ConversationThinking,
        state.ToolCompleted,
        state.ToolFailedEvent,
        lifecycle.SessionDestroyed,
        error.CommandError,
    }
)
"""Events that 2.x does not have, and whose names its clients might misunderstand."""

_CATEGORIES: Final = {
    stream.MessageStart: "message",
    stream.MessageDelta: "message",
    stream.MessageStop: "message",
    stream.ToolUseStart: "tool",
    stream.ToolUseStop: "tool",
    stream.ToolResultEvent: "tool",
    message.UserMessageEvent: "message",
}
"""Categories of events with the source `runtime` that differ from ours."""


_WITHIN: Final = frozenset(
    {
        stream.TextDelta,
        stream.ThinkingDelta,
        stream.ToolUseStart,
        stream.InputJsonDelta,
        stream.ToolUseStop,
        stream.MessageDelta,
        stream.MessageStop,
        state.ToolPlanned,
        state.ToolExecuting,
    }
)
"""Events of a model's answer while it is being made. They leave before the message that the answer becomes."""


class _Context(Record):
    instance_id: str | None = None
    image_id: str | None = None
    container_id: str | None = None
    session_id: str | None = None


class FoldedMessage(Record):
    """An assistant message with its calls as parts."""

    id: MessageId
    timestamp: int
    content: Sequence[AssistantPart | ToolCall]
    role: str = msgspec.field(default_factory=lambda: "assistant")
    subtype: str = msgspec.field(default_factory=lambda: "assistant")
    turn_id: TurnId | None = None
    citations: tuple[Citation, ...] | None = None


class FrameV2(Frame):
    """The notifications of one event. `part` is a message that calls may still be added to, or such a call."""

    __slots__ = ("ended", "event", "is_within", "part", "texts")

    def __init__(self, event: Event, texts: Sequence[str], part: AssistantMessage | ToolCallMessage | None = None) -> None:
        super().__init__(texts[0] if len(texts) == 1 else "".join(texts), event.scope.session_id, event.seq)
        self.event = event
        self.texts = texts
        self.part = part
        data = event.data
        self.is_within = type(data) in _WITHIN
        """Whether a message that waits for its parts may wait longer."""
        self.ended: TurnId | None = data.turn_id if isinstance(data, turn.TurnResponse) else None
        """The turn whose last event this is."""


class StreamFrame(FrameV2):
    """The notification of a piece of an answer. Most events are such: made in one go, without the general way."""

    __slots__ = ()

    def __init__(self, event: Event, data: stream.StreamEvent) -> None:
        kind, scope, seq = type(data), event.scope, event.seq
        recent = _recent_heads.get(kind)
        if recent is not None and recent[0] is scope:
            head = recent[1]
        else:
            head = _head(scope, data.type, "runtime", _CATEGORIES.get(kind, "stream"), None)
            _recent_heads[kind] = (scope, head)
        seq_text = f',"seq":{seq}' if seq else ""
        self.bare = f'{head}{event.timestamp},"data":{encode(data)}}}{seq_text}}}}}'
        self.session_id, self.seq, self._quoted = scope.session_id, seq, None
        self.event, self.texts, self.part, self.ended = event, (self.bare,), None, None
        self.is_within = kind in _WITHIN


_recent_heads: dict[type[stream.StreamEvent], tuple[EventScope, str]] = {}
"""The last head of each type, by the very scope that it is for: all pieces of a turn have one scope."""


def instance_of(agent_id: AgentId | str) -> str:
    return _INSTANCE + agent_id.removeprefix(_AGENT)


def agent_of(instance_id: str) -> AgentId:
    """Clients of 2.0 to 2.6 name it as it is named here."""
    return AgentId(_AGENT + instance_id.removeprefix(_INSTANCE).removeprefix(_AGENT))


_CONTEXT: Final = f'"context":{{"instanceId":"{_INSTANCE}'


def with_agent_id(text: str) -> str:
    """Returns a notification as clients of 2.0 to 2.6 read it: they know an instance as `agentId`.

    Other texts stay as they are. The context stands before the data of the event, so the first match is the context.
    """
    before, separator, after = text.partition(_CONTEXT)
    if not separator:
        return text
    name, quote, rest = after.partition('"')
    return f'{before}"context":{{"agentId":"{_AGENT}{name}","instanceId":"{_INSTANCE}{name}{quote}{rest}'


def is_instance(text: str) -> bool:
    return text.startswith(_INSTANCE)


def encode_event_v2(event: Event) -> Frame | None:
    """Returns the notifications of an event; None for one that is not sent to clients of 2.x."""
    data = event.data
    if isinstance(data, stream.StreamEvent):
        return StreamFrame(event, data)
    if not data.told or type(data) in _DROPPED:
        return None
    if isinstance(data, message.AssistantMessageEvent | message.ToolCallMessageEvent):
        part = data.message
        assert isinstance(part, AssistantMessage | ToolCallMessage)  # by the type of the event
        # The text is for the account of the outbox; it is written again when the calls are known.
        return FrameV2(event, [encode(part)], part)
    return FrameV2(event, [_notification(event, *shape) for shape in _shapes(event)])


def encode_folded(event: Event, parent: AssistantMessage | None, calls: Sequence[ToolCallMessage]) -> str:
    """Returns the notification of an assistant message and its calls. A message without a text may not have been told."""
    first = parent or calls[0]
    content = [*(parent.content if parent else ()), *(call.tool_call for call in calls)]
    message_id = parent.id if parent else calls[0].parent_id
    folded = _folded(message_id, first, *content)
    return _notification(event, "assistant_message", "agent", "message", folded)


def encode_send_error(problem: RpcProblem, code: str, image_id: str | None, instance_id: str | None, timestamp: int) -> Frame:
    """Returns the event of a message that was refused, for its sender: the clients show no other failure."""
    if instance_id is None and image_id is not None:
        # An event without an instance would be taken for one of every conversation.
        instance_id = _INSTANCE + image_id.removeprefix("img_")
    context = _Context(instance_id=instance_id, image_id=image_id)
    body = {"type": "error", "source": "runtime", "category": "error", "intent": "notification", "context": context}
    event = {**body, "timestamp": timestamp, "data": {"message": problem.message, "errorCode": code}}
    return Frame(encode({"jsonrpc": "2.0", "method": "stream.event", "params": {"topic": "global", "event": event}}))


def fold_messages(messages: Iterable[Message]) -> list[object]:
    """Returns a history in the form of 2.x. Calls stand before the message that they belong to, or after it."""
    folded: list[object] = []
    for item in messages:
        if not isinstance(item, AssistantMessage | ToolCallMessage):
            folded.append(item)
            continue
        message_id = item.id if isinstance(item, AssistantMessage) else item.parent_id
        last = folded[-1] if folded and isinstance(folded[-1], FoldedMessage) else None
        if last is None or last.id != message_id:
            folded.append(_folded(message_id, item, *_parts(item)))
        else:
            calls_last = isinstance(item, ToolCallMessage)
            content = (*last.content, *_parts(item)) if calls_last else (*_parts(item), *last.content)
            folded[-1] = msgspec.structs.replace(last, content=content)
    return folded


def _parts(item: AssistantMessage | ToolCallMessage) -> Sequence[AssistantPart | ToolCall]:
    return item.content if isinstance(item, AssistantMessage) else (item.tool_call,)


def _folded(message_id: MessageId, of: AssistantMessage | ToolCallMessage, *content: AssistantPart | ToolCall) -> FoldedMessage:
    citations = of.citations if isinstance(of, AssistantMessage) else None
    return FoldedMessage(id=message_id, timestamp=of.timestamp, content=content, turn_id=of.turn_id, citations=citations)


Shape = tuple[str, str, str, object]
"""Type, source, category, data."""


def _shapes(event: Event) -> Sequence[Shape]:
    data = event.data
    match data:
        case message.UserMessageEvent():
            return [("user_message", "runtime", "message", data.message)]
        case message.MessageEvent():
            return [(data.type, "agent", "message", data.message)]
        case state.StateEvent():
            return [(data.type, "agent", "state", data)]
        case turn.TurnRequest():
            return [(data.type, "agent", "turn", {**msgspec.to_builtins(data), "content": ""})]
        case lifecycle.AgentRegistered() | lifecycle.AgentUnregistered():
            return [_agent_shape(data)]
        case error.ErrorReceived():
            body = {"message": data.message, "errorCode": data.error_code}
            return [("error", "runtime", "error", body), (data.type, "runtime", "error", body)]
        case lifecycle.Interrupted():
            passed: Shape = ("interrupt", "runtime", "stream", {"instanceId": instance_of(data.agent_id)})
            stopped: Shape = ("interrupted", "runtime", "error", {"reason": "user"})
            return [passed] if data.turn_id is None else [passed, stopped]
        case lifecycle.SessionRewound():
            return [("rewind", "runtime", "stream", _rewind(event, data))]
        case _:
            return [(data.type, data.source, data.category, data)]


def _agent_shape(data: AgentEvent) -> Shape:
    instance_id = instance_of(data.agent_id)
    if isinstance(data, lifecycle.AgentUnregistered):
        return ("agent_destroyed", "runtime", "lifecycle", {"instanceId": instance_id})
    body = {"instanceId": instance_id, "imageId": data.image_id, "containerId": data.container_id}
    return ("agent_created", "runtime", "lifecycle", body)


def _rewind(event: Event, data: lifecycle.SessionRewound) -> dict[str, object]:
    return {"instanceId": _context(event.scope).instance_id, "messageId": data.kept_id, "truncatedCount": data.folded}


def _notification(event: Event, kind: str, source: str, category: str, data: object) -> str:
    about = event.data if isinstance(event.data, _AGENT_EVENTS) else None
    scope = event.scope
    if isinstance(event.data, lifecycle.Interrupted) and event.data.turn_id is not None:
        # Told by the session, and also one of the events of the turn that it stops.
        scope = msgspec.structs.replace(scope, turn_id=event.data.turn_id)
    head = _head(scope, kind, source, category, about)
    seq = f',"seq":{event.seq}' if event.seq else ""
    return f'{head}{event.timestamp},"data":{encode(data)}}}{seq}}}}}'


@lru_cache(maxsize=1_024)
def _head(scope: EventScope, kind: str, source: str, category: str, about: AgentEvent | None) -> str:
    """The beginning of a notification up to its time: the same for every delta of a turn."""
    context = _context(scope, about)
    event: dict[str, object] = {"type": kind, "source": source, "category": category, "intent": "notification"}
    if scope.turn_id is not None and source == "runtime":
        event["requestId"] = f"req_{scope.turn_id.removeprefix('turn_')}"
    params = {"topic": context.session_id or "global", "event": event | {"context": context}}
    text = encode({"jsonrpc": "2.0", "method": "stream.event", "params": params})
    return f'{text[: -len("}}}")]},"timestamp":'


def _context(scope: EventScope, about: AgentEvent | None = None) -> _Context:
    agent_id, image_id, session_id = scope.agent_id, scope.image_id, scope.session_id
    if about is not None:
        agent_id, image_id, session_id = about.agent_id, about.image_id, about.session_id
    instance_id = None if agent_id is None else instance_of(agent_id)
    if instance_id is None and session_id is not None:
        # No agent is in memory. An event without an instance would be taken for one of every conversation.
        instance_id = _INSTANCE + session_id.removeprefix("sess_")
    return _Context(instance_id=instance_id, image_id=image_id, container_id=scope.container_id, session_id=session_id)
