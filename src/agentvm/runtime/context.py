"""Context — what of a history goes into the next prompt.

The window policy: the system prompt always stays; the oldest whole exchanges are dropped first; the current one always
stays; a tool call is never separated from its result. An exchange is a user message and everything its turn produced.
"""

from collections.abc import Mapping, Sequence

import msgspec

from agentvm.drivers.base import AssistantSaid, Prompt, Said, ToolsAnswered, ToolSpec, UserSaid
from agentvm.model.attachment import referred
from agentvm.model.ids import TurnId
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
from agentvm.runtime.history import by_turn

Exchange = tuple[Said, ...]

_IMAGE_TOKENS = 1_600
_LOST = ToolOutput(type="error-text", value="No result: the call was interrupted before it finished.")


def build(
    history: Sequence[Message],
    current: TurnId,
    *,
    system: str | None,
    tools: Sequence[ToolSpec],
    budget: int,
    sizes: Mapping[str, int] = {},
) -> tuple[Said, ...]:
    """The conversation up to and including the current turn, as much of it as `budget` tokens hold.

    `sizes` are of the attachments that it refers to, by their digests.
    """
    exchanges = [_exchange(messages) for messages in _until(history, current)]
    left = budget - estimate_tokens(system or "") - sum(estimate_tokens(tool.description) + 50 for tool in tools)
    kept: list[Exchange] = []
    for exchange in reversed(exchanges):
        left -= weigh(exchange, sizes)
        if kept and left < 0:
            break
        kept.append(exchange)
    return tuple(said for exchange in reversed(kept) for said in exchange)


def most_tokens(prompt: Prompt) -> int:
    """More than the prompt can have: a token is at least one byte, and every message and tool comes with a few of its own."""
    text = 3 * (weigh(prompt.conversation) + estimate_tokens(prompt.system or ""))
    return text + len(msgspec.json.encode(prompt.tools)) + 50 * len(prompt.conversation) + 1_000


def weigh(said: Sequence[Said], sizes: Mapping[str, int] = {}) -> int:
    """About how many tokens the conversation has."""
    return sum(_weight(each, sizes) for each in said)


def _until(history: Sequence[Message], current: TurnId) -> list[list[Message]]:
    """The turns up to this one; messages still queued behind it left out."""
    turns = by_turn(history)
    end = next((place for place, messages in enumerate(turns) if messages[0].turn_id == current), len(turns) - 1)
    return turns[: end + 1]


def _exchange(messages: Sequence[Message]) -> Exchange:
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
    said: list[Said] = []
    for message in messages:
        match message:
            case UserMessage(content=content):
                said.append(UserSaid(content=content))
            case AssistantMessage(id=message_id, content=parts, text=text):
                said += _assistant(text, parts, calls.pop(message_id, []), results)
            case ToolCallMessage() | ToolResultMessage() | ErrorMessage():
                pass
    return tuple(said)


def _assistant(
    text: str, parts: Sequence[TextPart | ThinkingPart], calls: list[ToolCall], results: dict[str, ToolResult]
) -> list[Said]:
    thinking = tuple(part for part in parts if isinstance(part, ThinkingPart))
    if not text and not calls:
        return []
    said: list[Said] = [AssistantSaid(text=text, thinking=thinking, tool_calls=tuple(calls))]
    if calls:
        answers = tuple(results.get(call.id) or ToolResult(id=call.id, name=call.name, output=_LOST) for call in calls)
        said.append(ToolsAnswered(results=answers))
    return said


def _weight(said: Said, sizes: Mapping[str, int]) -> int:
    match said:
        case UserSaid(content=str(text)):
            return estimate_tokens(text)
        case UserSaid(content=tuple(parts)):
            return sum(_part_weight(part, sizes) for part in parts)
        case AssistantSaid(text=text, thinking=thinking, tool_calls=calls):
            inputs = sum(estimate_tokens(str(call.input)) for call in calls)
            return estimate_tokens(text) + sum(estimate_tokens(part.reasoning) for part in thinking) + inputs
        case ToolsAnswered(results=results):
            return sum(estimate_tokens(result.output.value) for result in results)
        case _:
            raise AssertionError(said)


def _part_weight(part: TextPart | ImagePart | FilePart, sizes: Mapping[str, int]) -> int:
    match part:
        case TextPart(text=text):
            return estimate_tokens(text)
        case ImagePart():
            return _IMAGE_TOKENS
        case FilePart(data=data):
            digest = referred(data)
            # A third of its bytes is a quarter of its base64.
            return len(data) // 4 if digest is None else sizes.get(digest, 0) // 3
