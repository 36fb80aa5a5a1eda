"""Conversation — turns stored messages into a prompt's conversation, and estimates its tokens. Pure.

A tool call is never separated from its result: one without a result gets one that says it was lost.
"""

import base64
from collections.abc import Mapping, Sequence
from urllib.parse import unquote_to_bytes

import msgspec

from agentvm.drivers.base import AssistantEntry, ConversationEntry, Prompt, ToolResultsEntry, ToolSpec, UserEntry
from agentvm.model.attachment import is_url, referred_digest
from agentvm.model.ids import MessageId
from agentvm.model.message import (
    AssistantMessage,
    ContentOutput,
    ErrorMessage,
    ErrorTextOutput,
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
    UserPart,
    shown_part,
)
from agentvm.model.usage import estimate_tokens
from agentvm.sharing.cache import Cache

Exchange = tuple[ConversationEntry, ...]

ENCODED_TOOLS_MAX = 1_000
"""Sets of tools whose JSON is kept."""

MIN_THINKING_TOKENS = 1_024
"""Anthropic refuses to be asked to think with fewer."""

_IMAGE_TOKENS = 1_600
_URL_TOKENS = 25_000
"""Tokens of a document by URL, which cannot be opened here: ten pages."""
_LOST = ErrorTextOutput(value="No result: the call was interrupted before it finished.")


def thinking_tokens(budget: int | None) -> int | None:
    """Returns the thinking budget that a model is given; None without thinking."""
    return max(MIN_THINKING_TOKENS, budget) if budget else None


def share_window(window: int, requested: int, thinking: int | None) -> tuple[int, int]:
    """Returns the tokens for the answer, out of those requested, and the tokens left for the prompt."""
    max_tokens = min(requested, window // 2)
    return max_tokens, window - max_tokens - (thinking or 0)


def count_tokens(conversation: Sequence[ConversationEntry], sizes: Mapping[str, int] = {}) -> int:
    """About how many tokens the conversation has. `sizes` are of the attachments that it refers to, by their digests."""
    return sum([_weight(entry, sizes) for entry in conversation])


_encoded: Cache[int, tuple[tuple[ToolSpec, ...], bytes]] = Cache(ENCODED_TOOLS_MAX)


def encode_tools(tools: tuple[ToolSpec, ...]) -> bytes:
    """The tools as JSON, about as providers read them. Turns share their tools, so this is done once for each set."""
    cached = _encoded.get(id(tools))
    if cached is None or cached[0] is not tools:
        cached = (tools, msgspec.json.encode(tools))
        _encoded.put(id(tools), cached)
    return cached[1]


def estimate_input(prompt: Prompt, conversation: int | None = None) -> int:
    """About how many tokens a provider reads: the conversation, weighed unless its weight is known, system prompt and tools."""
    tools = estimate_tokens(encode_tools(prompt.tools).decode()) if prompt.tools else 0
    weight = count_tokens(prompt.conversation) if conversation is None else conversation
    form = 0 if prompt.output is None else estimate_tokens(msgspec.json.encode(prompt.output.schema).decode())
    return weight + estimate_tokens(prompt.system or "") + estimate_tokens(prompt.begun) + tools + form


def split_data_url(part: UserPart) -> UserPart:
    """Returns the part with bare base64 and the media type that it states, if its `data` is a `data:` URL."""
    if isinstance(part, TextPart) or not part.data[:5].lower() == "data:":
        return part
    about, comma, data = part.data[5:].partition(",")
    if not comma:
        return part
    *kinds, last = about.split(";")
    encoded = last.strip().lower() == "base64"
    media_type = ";".join(kinds if encoded else [*kinds, last]).strip()
    if not encoded:
        data = base64.b64encode(unquote_to_bytes(data)).decode()
    return msgspec.structs.replace(part, data=data, media_type=media_type or part.media_type)


def newest_user(conversation: Sequence[ConversationEntry]) -> UserEntry | None:
    return next((entry for entry in reversed(conversation) if isinstance(entry, UserEntry)), None)


def last_user_text(prompt: Prompt) -> str:
    """Returns the text of the last user message; empty without one."""
    entry = newest_user(prompt.conversation)
    content = "" if entry is None else entry.content
    return content if isinstance(content, str) else " ".join(part.text for part in content if isinstance(part, TextPart))


def conversation_of(messages: Sequence[Message]) -> Exchange:
    """Returns the entries of one exchange."""
    return tuple(entry for entry, _ in trace(messages))


def trace(messages: Sequence[Message]) -> list[tuple[ConversationEntry, MessageId]]:
    """Returns the entries of one exchange, each with its message; tool results belong to the message that called the tools."""
    calls: dict[str, list[ToolCall]] = {}
    results: dict[str, ToolResult] = {}
    for message in messages:
        match message:
            case ToolCallMessage(tool_call=ToolCall(by_provider=True)):
                pass
            case ToolCallMessage(parent_id=parent, tool_call=call):
                calls.setdefault(parent, []).append(call)
            case ToolResultMessage(tool_call_id=call_id, tool_result=result):
                results[call_id] = _plain_result(result)
            case UserMessage() | AssistantMessage() | ErrorMessage():
                pass
    entry: list[tuple[ConversationEntry, MessageId]] = []
    for message in messages:
        match message:
            case UserMessage(id=message_id, content=content):
                entry.append((UserEntry(content=content), message_id))
            case AssistantMessage(id=message_id):
                entry += [(part, message_id) for part in _assistant(message, calls.pop(message_id, []), results)]
            case ToolCallMessage() | ToolResultMessage() | ErrorMessage():
                pass
    return entry


def rendered_parts(output: ContentOutput) -> list[TextPart | ImagePart]:
    """Returns the parts of a result as models receive them: texts and pictures, and a note for every file and address."""
    return [part if isinstance(part, TextPart | ImagePart) else TextPart(text=shown_part(part)) for part in output.value]


def _plain_result(result: ToolResult) -> ToolResult:
    output = result.output
    if not isinstance(output, ContentOutput):
        return result
    return msgspec.structs.replace(result, output=ContentOutput(value=tuple(rendered_parts(output))))


def _assistant(message: AssistantMessage, calls: list[ToolCall], results: dict[str, ToolResult]) -> list[ConversationEntry]:
    text, content = message.text, message.provider_content
    thinking = tuple(part for part in message.content if isinstance(part, ThinkingPart))
    if not text and not calls and content is None:
        return []
    entries: list[ConversationEntry] = [
        AssistantEntry(text=text, thinking=thinking, tool_calls=tuple(calls), provider_content=content)
    ]
    if calls:
        answers = tuple(results.get(call.id) or ToolResult(id=call.id, name=call.name, output=_LOST) for call in calls)
        entries.append(ToolResultsEntry(results=answers))
    return entries


def _weight(entry: ConversationEntry, sizes: Mapping[str, int]) -> int:
    match entry:
        case UserEntry(content=str(text)):
            return estimate_tokens(text)
        case UserEntry(content=tuple(parts)):
            return sum(_part_weight(part, sizes) for part in parts)
        case AssistantEntry(text=text, thinking=thinking, tool_calls=calls, provider_content=content):
            if content is not None:
                # Of another provider it is less; its text is part of it.
                return estimate_tokens(content.blocks) + sum(estimate_tokens(str(call.input)) for call in calls)
            if not thinking and not calls:
                return estimate_tokens(text)
            inputs = sum(estimate_tokens(str(call.input)) for call in calls)
            return estimate_tokens(text) + sum(estimate_tokens(part.reasoning) for part in thinking) + inputs
        case ToolResultsEntry(results=results):
            return sum(_result_weight(result.output, sizes) for result in results)
        case _:
            raise AssertionError(entry)


def _result_weight(output: ToolOutput, sizes: Mapping[str, int]) -> int:
    if isinstance(output, ContentOutput):
        return sum(_part_weight(part, sizes) for part in rendered_parts(output))
    return estimate_tokens(output.text)


def _part_weight(part: UserPart, sizes: Mapping[str, int]) -> int:
    match part:
        case TextPart(text=text):
            return estimate_tokens(text)
        case ImagePart():
            return _IMAGE_TOKENS
        case FilePart(data=data) if is_url(data):
            return _URL_TOKENS
        case FilePart(data=data):
            digest = referred_digest(data)
            # A third of its bytes is a quarter of its base64.
            return len(data) // 4 if digest is None else sizes.get(digest, 0) // 3
