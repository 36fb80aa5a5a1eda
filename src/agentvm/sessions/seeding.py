"""Seeding — creates a session with a history that a client sends, converted to messages of this server."""

from collections.abc import Callable, Sequence
from typing import Literal

from agentvm.errors import InvalidInput, shorten
from agentvm.model.base import Record
from agentvm.model.ids import MessageId
from agentvm.model.message import (
    AssistantMessage,
    Message,
    TextOutput,
    TextPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserContent,
    UserMessage,
)

SEEDS_MAX = 2_000


class SeedMessage(Record):
    """One message of the history. `tool_calls` are those of an assistant's message, `tool_call_id` is for a tool's result."""

    role: Literal["user", "assistant", "tool"]
    content: UserContent = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


def seeded(seeds: Sequence[SeedMessage], new_id: Callable[[str], str], now: int) -> list[Message]:
    """Returns the messages; `InvalidInput` for a result without its call."""
    names: dict[str, str] = {}
    messages: list[Message] = []
    for seed in seeds:
        message_id = MessageId(new_id("msg"))
        match seed.role:
            case "user":
                messages.append(UserMessage(id=message_id, timestamp=now, role="user", content=seed.content))
            case "assistant":
                parts = (TextPart(text=text),) if (text := text_of(seed.content)) else ()
                messages.append(AssistantMessage(id=message_id, timestamp=now, role="assistant", content=parts))
                for call in seed.tool_calls:
                    names[call.id] = call.name
                    called = ToolCallMessage(
                        id=MessageId(new_id("msg")), timestamp=now, role="assistant", tool_call=call, parent_id=message_id
                    )
                    messages.append(called)
            case "tool":
                call_id = seed.tool_call_id or ""
                if call_id not in names:
                    raise InvalidInput(f"There is no tool call {shorten(call_id)!r} before its result")
                result = ToolResult(id=call_id, name=names[call_id], output=TextOutput(value=text_of(seed.content)))
                messages.append(
                    ToolResultMessage(id=message_id, timestamp=now, role="tool", tool_call_id=call_id, tool_result=result)
                )
    return messages


def text_of(content: UserContent) -> str:
    """Returns the text of a message's content."""
    return content if isinstance(content, str) else "".join(part.text for part in content if isinstance(part, TextPart))
