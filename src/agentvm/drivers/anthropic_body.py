"""Anthropic body — a prompt as the JSON of a Messages request."""

import re
from collections.abc import Sequence

import msgspec

from agentvm.drivers.anthropic_blocks import tool_json
from agentvm.drivers.base import AssistantEntry, ConversationEntry, Prompt, ToolResultsEntry, UserEntry
from agentvm.drivers.chat_body import CONTINUE_INSTRUCTION, PartRenderer, RequestJson, file_text
from agentvm.drivers.conversation import newest_user, rendered_parts, thinking_tokens
from agentvm.drivers.failures import Failures
from agentvm.drivers.output_schema import Schema, enforced_schema, strict_tools, system_with_schema
from agentvm.drivers.refusal import MessageOrigin
from agentvm.model.attachment import is_text, is_url
from agentvm.model.message import (
    ContentOutput,
    FilePart,
    ImagePart,
    ProviderContent,
    TextPart,
    ThinkingPart,
    ToolResult,
    UserContent,
    UserPart,
    is_failure,
)
from agentvm.model.turn import ANY_TOOL

_CACHED: RequestJson = {"type": "ephemeral"}
_NOTHING: RequestJson = {"type": "text", "text": "(nothing)"}

# Anthropic takes no other characters in an id; ids made by another provider may come with a moved conversation.
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")

_REDACTED = "redacted:"


def redacted_mark(data: str) -> str:
    """The signature of thinking that only the provider can read. The colon keeps it apart from a real one (base64)."""
    return f"{_REDACTED}{data}"


def messages_body(prompt: Prompt, failures: Failures) -> RequestJson:
    """The whole request.

    The prefix that every call of an agent shares is marked for the provider's cache: tools and system prompt. The mark on
    the last block lets the next call read this one's conversation from the cache too.
    """
    newest = newest_user(prompt.conversation)
    messages = [
        message
        for entry in prompt.conversation
        for message in _message(entry, PartRenderer(failures, lenient=entry is not newest))
    ]
    last = prompt.conversation[-1] if prompt.conversation else None
    if isinstance(last, AssistantEntry) and last.provider_content is not None and _own_content(last, failures) is None:
        # Another provider was interrupted in the middle of its answer.
        messages.append({"role": "user", "content": [{"type": "text", "text": CONTINUE_INSTRUCTION}]})
    if messages and messages[0]["role"] == "assistant":
        # The provider wants the user to begin; a conversation that came from elsewhere may begin with a greeting.
        messages.insert(0, {"role": "user", "content": [dict(_NOTHING)]})
    if prompt.begun.strip():
        # Not as the beginning of the answer itself: not all models take that, and none that thinks first.
        messages.append({"role": "assistant", "content": [{"type": "text", "text": prompt.begun.rstrip()}]})
        messages.append({"role": "user", "content": [{"type": "text", "text": CONTINUE_INSTRUCTION}]})
    _mark_last(messages)
    body: RequestJson = {"model": prompt.model, "max_tokens": prompt.max_tokens, "messages": messages, "stream": True}
    choice = prompt.tool_choice if prompt.tools else None
    if prompt.thinking and choice is None and not _continues_without_thinking(prompt.conversation):
        # The thinking budget is part of the answer's limit.
        budget = thinking_tokens(prompt.thinking) or 0
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        body["max_tokens"] = prompt.max_tokens + budget
    elif prompt.temperature is not None:
        # Not beside thinking, which takes none (and no choice of a tool), and not above 1, where this provider's scale ends.
        body["temperature"] = min(prompt.temperature, 1.0)
    if prompt.stop:
        body["stop_sequences"] = list(prompt.stop)
    schema = enforced_schema(prompt.output.schema) if prompt.output is not None and prompt.constrains else None
    if schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if system := prompt.system if schema is not None else system_with_schema(prompt):
        body["system"] = [{"type": "text", "text": system, "cache_control": _CACHED}]
    body |= _tools(prompt, choice, schema)
    if (container := _container(prompt.conversation, failures)) is not None:
        body["container"] = container
    return body


def _tools(prompt: Prompt, choice: str | None, answer: Schema | None) -> RequestJson:
    """Returns the tools, and the one that has to be called."""
    strict = strict_tools(prompt.tools, answer) if prompt.constrains else ()
    tools: list[RequestJson] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        | ({"strict": True} if tool.name in strict else {})
        for tool in prompt.tools
    ]
    tools += [tool_json(tool) for tool in prompt.provider_tools]
    if not tools:
        return {}
    tools[-1]["cache_control"] = _CACHED
    if choice is None:
        return {"tools": tools}
    return {"tools": tools, "tool_choice": {"type": "any"} if choice == ANY_TOOL else {"type": "tool", "name": choice}}


def origins(prompt: Prompt, provider: str = "anthropic") -> list[MessageOrigin]:
    """Returns the origin of each message of the request."""
    sources: list[MessageOrigin] = []
    for number, entry in enumerate(prompt.conversation):
        match entry:
            case UserEntry(content=tuple(parts)):
                indexes = tuple(place for place, part in enumerate(parts) if not _is_blank(part))
                sources.append((number, indexes or (None,)))
            case AssistantEntry() if not _assistant_blocks(entry, provider):
                pass
            case _:
                sources.append((number, ()))
    begins_late = sources and isinstance(prompt.conversation[sources[0][0] or 0], AssistantEntry)
    return [(None, ()), *sources] if begins_late else sources


def _continues_without_thinking(conversation: Sequence[ConversationEntry]) -> bool:
    """Whether the tools that are being answered were asked for by another provider.

    With thinking on, Anthropic refuses results of calls that its own signed thinking does not precede.
    """
    request = next((entry for entry in reversed(conversation) if not isinstance(entry, ToolResultsEntry)), None)
    return isinstance(request, AssistantEntry) and bool(request.tool_calls) and not any(map(_thinking, request.thinking))


def _mark_last(messages: list[RequestJson]) -> None:
    # Not in an answer, which goes back unchanged.
    if messages and messages[-1]["role"] == "user" and isinstance(blocks := messages[-1]["content"], list) and blocks:
        blocks[-1]["cache_control"] = _CACHED


def _message(entry: ConversationEntry, reader: PartRenderer) -> list[RequestJson]:
    match entry:
        case UserEntry(content=content):
            return [{"role": "user", "content": _user_blocks(content, reader)}]
        case AssistantEntry():
            blocks = _assistant_blocks(entry, reader.failures.provider)
            return [{"role": "assistant", "content": blocks}] if blocks else []
        case ToolResultsEntry(results=results):
            return [{"role": "user", "content": [_result(result, reader) for result in results]}]


def _own_content(entry: AssistantEntry, failures: Failures) -> ProviderContent | None:
    content = entry.provider_content
    return content if content is not None and content.provider == failures.provider else None


def _container(conversation: Sequence[ConversationEntry], failures: Failures) -> str | None:
    """Returns the sandbox at the provider in which the answer to the newest message was begun."""
    for entry in reversed(conversation):
        if isinstance(entry, UserEntry):
            break
        if isinstance(entry, AssistantEntry) and (own := _own_content(entry, failures)) is not None and own.container:
            return own.container
    return None


def _assistant_blocks(entry: AssistantEntry, provider: str) -> list[RequestJson]:
    # A text block of white space alone is refused, and so is a message without blocks.
    text: list[RequestJson] = [{"type": "text", "text": entry.text}] if entry.text.strip() else []
    calls: list[RequestJson] = [
        {"type": "tool_use", "id": _FOREIGN.sub("_", call.id), "name": call.name, "input": call.input}
        for call in entry.tool_calls
    ]
    content = entry.provider_content
    if content is not None and content.provider == provider:
        return [*msgspec.json.decode(content.blocks, type=list[RequestJson]), *calls]
    if not text and not calls:
        return []
    return [*(block for part in entry.thinking for block in _thinking(part)), *text, *calls]


def _thinking(part: ThinkingPart) -> list[RequestJson]:
    """Returns the blocks that Anthropic signed: it refuses any other thinking, for example another provider's."""
    if not part.signature:
        return []
    if part.signature.startswith(_REDACTED):
        return [{"type": "redacted_thinking", "data": part.signature.removeprefix(_REDACTED)}]
    if ":" in part.signature:
        return []
    return [{"type": "thinking", "thinking": part.reasoning, "signature": part.signature}]


def _result(result: ToolResult, reader: PartRenderer) -> RequestJson:
    output = result.output
    content: object = output.text
    if isinstance(output, ContentOutput):
        blocks = [reader.render(part, _user_block) for part in rendered_parts(output)]
        content = [block for block in blocks if block["type"] != "text" or str(block["text"]).strip()]
    block: RequestJson = {"type": "tool_result", "tool_use_id": _FOREIGN.sub("_", result.id), "content": content}
    if is_failure(output):
        block["is_error"] = True
    return block


def _user_blocks(content: UserContent, reader: PartRenderer) -> list[RequestJson]:
    parts = (TextPart(text=content),) if isinstance(content, str) else content
    # A blank text block is refused, and so is a message without blocks.
    visible = [part for part in parts if not _is_blank(part)]
    return [reader.render(part, _user_block) for part in visible] or [dict(_NOTHING)]


def _is_blank(part: UserPart) -> bool:
    return isinstance(part, TextPart) and not part.text.strip()


def _user_block(part: UserPart, failures: Failures) -> RequestJson:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(data=data, media_type=media_type):
            return {"type": "image", "source": _source(data, media_type)}
        case FilePart(data=data, media_type="application/pdf" as media_type, filename=filename):
            document: RequestJson = {"type": "document", "source": _source(data, media_type)}
            return {**document, "title": filename} if filename else document
        case FilePart(data=data, media_type=media_type) if is_text(media_type) and not is_url(data):
            return {"type": "text", "text": file_text(part, failures)}
        case FilePart(media_type=media_type):
            raise failures.bad_request(f"a file of type {media_type}; attach a PDF or the content of a text file")


def _source(data: str, media_type: str) -> RequestJson:
    if is_url(data):
        return {"type": "url", "url": data}
    return {"type": "base64", "media_type": media_type, "data": data}
