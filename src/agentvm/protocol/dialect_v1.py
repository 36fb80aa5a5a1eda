"""Dialect 1.x — the JSON of events and replies as AgentX 1.x clients read it."""

import msgspec

from agentvm.events.base import Event, EventScope
from agentvm.events.message import MessageEvent
from agentvm.model.base import Record
from agentvm.model.message import (
    AssistantMessage,
    ContentOutput,
    DeniedOutput,
    ErrorJsonOutput,
    ErrorTextOutput,
    JsonOutput,
    Message,
    TextOutput,
    ToolResultMessage,
)
from agentvm.protocol.codec import Frame, encode
from agentvm.protocol.requests import Reply

_encoder = msgspec.json.Encoder()

SLICE_ITEMS_MAX = 100


class _Envelope(msgspec.Struct, frozen=True):
    type: str
    timestamp: int
    data: object
    source: str
    category: str
    intent: str
    context: EventScope
    cursor: str | msgspec.UnsetType = msgspec.UNSET


class _ReplyEnvelope(msgspec.Struct, frozen=True):
    type: str
    timestamp: int
    data: msgspec.Raw
    source: str = "command"
    category: str = "response"
    intent: str = "result"


class _RequestId(Record):
    request_id: str


def encode_event(event: Event) -> Frame | None:
    """Returns the frame of an event; None for an event that is stored and not sent."""
    return encode_stored_events(event) if event.data.told else None


def encode_stored_events(event: Event) -> Frame:
    kind = event.data
    data = _flat(kind.message) if isinstance(kind, MessageEvent) else kind
    cursor = str(event.seq) if event.seq else msgspec.UNSET
    envelope = _Envelope(kind.type, event.timestamp, data, kind.source, kind.category, kind.intent, event.scope, cursor)
    return Frame(encode(envelope), event.scope.session_id, event.seq)


def encode_reply(command_name: str, request_id: str | None, reply: Reply, timestamp: int) -> Frame:
    body = _encode_reply(reply)
    if request_id is not None:
        head = _encoder.encode(_RequestId(request_id=request_id))
        body = head if body == b"{}" else head[:-1] + b"," + body[1:]
    return Frame(encode(_ReplyEnvelope(f"{command_name}_response", timestamp, msgspec.Raw(body))))


def _encode_reply(reply: Reply) -> bytes:
    """Encodes a long list in slices, so that other threads run in between."""
    members = [(name, getattr(reply, name)) for name in reply.__struct_fields__]
    if not any(isinstance(member, tuple) for _, member in members):
        return _encoder.encode(reply)
    if any(name == "messages" for name, _ in members):
        members = [(name, tuple(map(_flat, value)) if name == "messages" else value) for name, value in members]
        reply = msgspec.structs.replace(reply, **dict(members))
    long = {
        name: _encode_list(member) for name, member in members if isinstance(member, tuple) and len(member) > SLICE_ITEMS_MAX
    }
    return _encoder.encode(msgspec.structs.replace(reply, **long) if long else reply)


def _encode_list(items: tuple[object, ...]) -> msgspec.Raw:
    slices = (_encoder.encode(items[start : start + SLICE_ITEMS_MAX])[1:-1] for start in range(0, len(items), SLICE_ITEMS_MAX))
    return msgspec.Raw(b"[" + b",".join(slices) + b"]")


def _flat(message: Message) -> object:
    """Returns a message as 1.x clients read it: they know results as text, as an error's text, and as content parts."""
    if isinstance(message, AssistantMessage) and message.provider_content is not None:
        # It is long, and only its provider can read it.
        return msgspec.structs.replace(message, provider_content=None)
    if not isinstance(message, ToolResultMessage):
        return message
    output = message.tool_result.output
    match output:
        case JsonOutput():
            flat: object = TextOutput(value=output.text)
        case ErrorJsonOutput():
            flat = ErrorTextOutput(value=output.text)
        case DeniedOutput():
            flat = DeniedOutput(reason=output.text, value=output.text)
        case TextOutput() | ErrorTextOutput() | ContentOutput():
            return message
    return msgspec.structs.replace(message, tool_result=msgspec.structs.replace(message.tool_result, output=flat))


def encode_hello(timestamp: int) -> Frame:
    """Returns the probe: every client ignores it, and a client that knows the reliable wrapper acknowledges it."""
    return Frame(encode({"type": "server_hello", "timestamp": timestamp, "data": {}}))
