"""Stream — the output of a model, while it is produced."""

from agentvm.events.base import EventData
from agentvm.model.usage import Usage


class StreamEvent(EventData):
    source = "agent"
    category = "stream"


class MessageStart(StreamEvent):
    """`model` is the provider's name for itself, `asked` the `<provider>/<model>` that was called.

    `asked_at` is the time of the call; `attempt` counts the unanswered calls before it, and is absent for the first. `text` is
    the beginning of a message that continues after a restart: it was sent under another id before. `draft` says that the
    message must fit a schema: if it does not, the next message of the turn takes its place.
    """

    type = "message_start"
    message_id: str
    model: str
    asked: str | None = None
    asked_at: int | None = None
    attempt: int = 1
    text: str | None = None
    draft: bool = False


class MessageDelta(StreamEvent):
    type = "message_delta"
    usage: Usage


class MessageStop(StreamEvent):
    type = "message_stop"
    stop_reason: str


# 1.x sends the two block boundaries with category "state"; clients that filter by category rely on it.


class TextContentBlockStart(EventData):
    type = "text_content_block_start"
    source = "agent"
    category = "state"


class TextContentBlockStop(EventData):
    type = "text_content_block_stop"
    source = "agent"
    category = "state"


class TextDelta(StreamEvent):
    type = "text_delta"
    text: str


class ThinkingDelta(StreamEvent):
    type = "thinking_delta"
    text: str


class ToolUseStart(StreamEvent):
    type = "tool_use_start"
    tool_call_id: str
    tool_name: str


class InputJsonDelta(StreamEvent):
    type = "input_json_delta"
    partial_json: str


class ToolUseStop(StreamEvent):
    type = "tool_use_stop"
    tool_call_id: str
    tool_name: str
    input: dict[str, object]


class ToolResultEvent(StreamEvent):
    type = "tool_result"
    tool_call_id: str
    result: object
    is_error: bool
