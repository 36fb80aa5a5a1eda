"""State — the state of a conversation, for user interfaces: "thinking", "responding", "idle"."""

from typing import Literal

from agentvm.events.base import EventData


class StateEvent(EventData):
    source = "agent"
    category = "state"


class ConversationQueued(StateEvent):
    """The message waits for the turn before it."""

    type = "conversation_queued"
    message_id: str


class ConversationStart(StateEvent):
    """Once per model call, not per turn."""

    type = "conversation_start"
    message_id: str


class ConversationThinking(StateEvent):
    type = "conversation_thinking"


class ConversationResponding(StateEvent):
    type = "conversation_responding"


class ConversationEnd(StateEvent):
    type = "conversation_end"
    reason: Literal["completed", "interrupted"]


class ToolPlanned(StateEvent):
    type = "tool_planned"
    tool_id: str
    tool_name: str


class ToolExecuting(StateEvent):
    """Sent when the call begins to stream, so `input` is still empty; `tool_use_stop` has it whole."""

    type = "tool_executing"
    tool_id: str
    tool_name: str
    input: dict[str, object]
    parent_id: str | None = None
    """The program that makes the call; the input is then whole, unless it is long."""


class ToolCompleted(StateEvent):
    type = "tool_completed"
    tool_id: str
    tool_name: str
    result: object
    parent_id: str | None = None
    """The program that has made the call."""


class ToolFailedEvent(StateEvent):
    type = "tool_failed"
    tool_id: str
    tool_name: str
    error: str
    parent_id: str | None = None
    """The program that has made the call."""
