"""Messages — a message has become part of the history. The event's data is the message itself."""

from agentvm.events.base import EventData
from agentvm.model import message as model
from agentvm.model.ids import MessageId, SessionId


class MessageEvent(EventData):
    """A message was stored; clients receive `message` as the event's data."""

    source = "agent"
    category = "message"
    message: model.Message


class UserMessageEvent(MessageEvent):
    type = "user_message"


class AssistantMessageEvent(MessageEvent):
    type = "assistant_message"


class ToolCallMessageEvent(MessageEvent):
    type = "tool_call_message"


class ToolResultMessageEvent(MessageEvent):
    type = "tool_result_message"


class ErrorMessageEvent(MessageEvent):
    type = "error_message"


class SilentMessageEvent(MessageEvent):
    """Stored, not sent: an assistant message without text, to which its tool calls refer."""

    type = "silent_message"
    told = False


class MessagePersisted(EventData):
    """The user's message is on disk."""

    type = "message_persisted"
    source = "session"
    category = "persist"
    intent = "result"
    session_id: SessionId
    message_id: MessageId
    saved_at: int
