"""Conversation — stored messages as a model is told them, and about how many tokens that takes. Pure.

A tool call is never separated from its result: one that has none is told to be lost.
"""

from collections.abc import Mapping, Sequence

import msgspec

from agentvm.drivers.base import AssistantEntry, ConversationEntry, Prompt, ToolResultsEntry, UserEntry
from agentvm.model.attachment import is_url, referred
from agentvm.model.ids import MessageId
from agentvm.model.message import (
    AssistantMessage,
    ErrorMessage,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolOutput,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from agentvm.model.usage import estimate_tokens

Exchange = tuple[ConversationEntry, ...]

MIN_THINKING_TOKENS = 1_024
"""Anthropic refuses to be asked to think with fewer."""

_IMAGE_TOKENS = 1_600
_URL_TOKENS = 25_000
"""Of a document by URL, which nobody here can look into: ten pages."""
_LOST = ToolOutput(type="error-text", value="No result: the call was interrupted before it finished.")


def thinking_tokens(wanted: int | None) -> int | None:
    """With how many tokens a model is asked to think; None for one that is not asked to."""
    return max(MIN_THINKING_TOKENS, wanted) if wanted else None


def share_window(window: int, wanted: int, thinking: int | None) -> tuple[int, int]:
    """How many tokens an answer may have of those wanted, and how many are left for what the model is told."""
    max_tokens = min(wanted, window // 2)
    return max_tokens, window - max_tokens - (thinking or 0)


def weigh(said: Sequence[ConversationEntry], sizes: Mapping[str, int] = {}) -> int:
    """About how many tokens the conversation has. `sizes` are of the attachments that it refers to, by their digests."""
    return sum(_weight(each, sizes) for each in said)


def estimate_input(prompt: Prompt) -> int:
    """About how many tokens a provider reads: the conversation, the system prompt and the tools."""
    tools = estimate_tokens(msgspec.json.encode(prompt.tools).decode()) if prompt.tools else 0
    return weigh(prompt.conversation) + estimate_tokens(prompt.system or "") + estimate_tokens(prompt.begun) + tools


def tell(messages: Sequence[Message]) -> Exchange:
    """One exchange."""
    return tuple(said for said, _ in trace(messages))


def trace(messages: Sequence[Message]) -> list[tuple[ConversationEntry, MessageId]]:
    """One exchange, and the message that each thing was said in; results of tools are of the one that asked for them."""
    calls: dict[str, list[ToolCall]] = {}
    results: dict[str, ToolResult] = {}
    for message in messages:
        match message:
            case ToolCallMessage(parent_id=parent, tool_call=call):
                calls.setdefault(parent, []).append(call)
            case ToolResultMessage(tool_call_id=call_id, tool_result=result):
                results[call_id] = result
            case UserMessage() | AssistantMessage() | ErrorMessage():
                pass
    said: list[tuple[ConversationEntry, MessageId]] = []
    for message in messages:
        match message:
            case UserMessage(id=message_id, content=content):
                said.append((UserEntry(content=content), message_id))
            case AssistantMessage(id=message_id, content=parts, text=text):
                said += [(each, message_id) for each in _assistant(text, parts, calls.pop(message_id, []), results)]
            case ToolCallMessage() | ToolResultMessage() | ErrorMessage():
                pass
    return said


def _assistant(
    text: str, parts: Sequence[TextPart | ThinkingPart], calls: list[ToolCall], results: dict[str, ToolResult]
) -> list[ConversationEntry]:
    thinking = tuple(part for part in parts if isinstance(part, ThinkingPart))
    if not text and not calls:
        return []
    said: list[ConversationEntry] = [AssistantEntry(text=text, thinking=thinking, tool_calls=tuple(calls))]
    if calls:
        answers = tuple(results.get(call.id) or ToolResult(id=call.id, name=call.name, output=_LOST) for call in calls)
        said.append(ToolResultsEntry(results=answers))
    return said


def _weight(said: ConversationEntry, sizes: Mapping[str, int]) -> int:
    match said:
        case UserEntry(content=str(text)):
            return estimate_tokens(text)
        case UserEntry(content=tuple(parts)):
            return sum(_part_weight(part, sizes) for part in parts)
        case AssistantEntry(text=text, thinking=thinking, tool_calls=calls):
            inputs = sum(estimate_tokens(str(call.input)) for call in calls)
            return estimate_tokens(text) + sum(estimate_tokens(part.reasoning) for part in thinking) + inputs
        case ToolResultsEntry(results=results):
            return sum(estimate_tokens(result.output.value) for result in results)
        case _:
            raise AssertionError(said)


def _part_weight(part: TextPart | ImagePart | FilePart, sizes: Mapping[str, int]) -> int:
    match part:
        case TextPart(text=text):
            return estimate_tokens(text)
        case ImagePart():
            return _IMAGE_TOKENS
        case FilePart(data=data) if is_url(data):
            return _URL_TOKENS
        case FilePart(data=data):
            digest = referred(data)
            # A third of its bytes is a quarter of its base64.
            return len(data) // 4 if digest is None else sizes.get(digest, 0) // 3
