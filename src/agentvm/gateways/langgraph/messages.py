"""LangGraph messages — the messages of a session in the shapes of LangChain. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from agentvm.model.message import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallMessage,
    ToolResultMessage,
    UserContent,
    UserMessage,
    UserPart,
    is_failure,
)
from agentvm.model.usage import NO_USAGE, Usage

LangMessage = dict[str, Any]
START = "start"
"""The checkpoint before the first message."""


def moment(at: int) -> str:
    """Returns a time as LangGraph writes it."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat()


def human(message_id: str, content: UserContent) -> LangMessage:
    text_or_blocks = content if isinstance(content, str) else [_block(part) for part in content]
    return {
        "type": "human",
        "id": message_id,
        "content": text_or_blocks,
        "additional_kwargs": {},
        "response_metadata": {},
        "name": None,
    }


def answer(
    message_id: str, text: str, calls: Sequence[LangMessage] = (), usage: Usage | None = None, thinking: str = ""
) -> LangMessage:
    """Returns a message of the model with its calls."""
    return {
        "type": "ai",
        "id": message_id,
        "content": text,
        "additional_kwargs": {"reasoning_content": thinking} if thinking else {},
        "response_metadata": {},
        "name": None,
        "tool_calls": list(calls),
        "invalid_tool_calls": [],
        "usage_metadata": None if usage is None or usage == NO_USAGE else usage_of(usage),
    }


def call(call_id: str, name: str, args: dict[str, Any]) -> LangMessage:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def result(message_id: str, call_id: str, name: str, text: str, *, is_error: bool) -> LangMessage:
    """Returns the result of a call."""
    return {
        "type": "tool",
        "id": message_id,
        "content": text,
        "name": name,
        "tool_call_id": call_id,
        "status": "error" if is_error else "success",
        "artifact": None,
        "additional_kwargs": {},
        "response_metadata": {},
    }


def usage_of(usage: Usage) -> dict[str, Any]:
    """Returns the tokens in the words of LangChain, where those of the cache are part of the input."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": read,
        "output_tokens": usage.output_tokens,
        "total_tokens": read + usage.output_tokens,
        "input_token_details": {"cache_read": usage.cache_read_tokens, "cache_creation": usage.cache_write_tokens},
        "output_token_details": {"reasoning": usage.thinking_tokens},
    }


def messages_of(messages: Iterable[Message]) -> list[LangMessage]:
    """Returns a history. A message of the model has its calls, which are stored before it; errors are no messages."""
    listed: list[LangMessage] = []
    history, calls = tuple(messages), dict[str, list[LangMessage]]()
    for message in history:
        if isinstance(message, ToolCallMessage) and not message.tool_call.by_provider:
            tool_call = message.tool_call
            calls.setdefault(message.parent_id, []).append(call(tool_call.id, tool_call.name, tool_call.input))
    for message in history:
        match message:
            case UserMessage(id=message_id, content=content):
                listed.append(human(message_id, content))
            case AssistantMessage(id=message_id, text=text, usage=usage, content=parts):
                thinking = "".join(part.reasoning for part in parts if isinstance(part, ThinkingPart))
                listed.append(answer(message_id, text, calls.get(message_id, ()), usage, thinking))
            case ToolResultMessage(id=message_id, tool_call_id=call_id, tool_result=ended):
                output = ended.output
                listed.append(result(message_id, call_id, ended.name, output.text, is_error=is_failure(output)))
            case _:
                pass
    return listed


def up_to_turn(messages: Sequence[Message], turn_id: str, *, whole: bool) -> Iterator[Message]:
    """Yields the messages that a turn has seen: those of turns before it, then its question, then with `whole` its own.

    A message that waits behind a running turn is stored before that turn's answer.
    """
    rank: dict[str, int] = {}
    for message in messages:
        if message.turn_id is not None:
            rank.setdefault(message.turn_id, len(rank))
    last = rank.get(turn_id, len(rank))
    own = [message for message in messages if message.turn_id == turn_id]
    yield from (message for message in messages if message.turn_id is None or rank[message.turn_id] < last)
    yield from (message for message in own if whole or isinstance(message, UserMessage))


def _block(part: UserPart) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(data=data, media_type=media_type):
            return {"type": "image_url", "image_url": {"url": _address(data, media_type)}}
        case FilePart(data=data, media_type=media_type, filename=name):
            block = {"type": "file", "source_type": "base64", "mime_type": media_type, "data": data}
            return {**block, "metadata": {"filename": name}}


def _address(data: str, media_type: str) -> str:
    is_address = data.startswith(("http://", "https://", "attachment:"))
    return data if is_address else f"data:{media_type};base64,{data}"
