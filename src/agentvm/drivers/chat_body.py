"""Chat body — a prompt as the JSON of a chat-completions request."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from agentvm.drivers.base import AssistantEntry, ConversationEntry, Prompt, ToolResultsEntry, ToolSpec, UserEntry
from agentvm.drivers.conversation import newest_user, rendered_parts, split_data_url
from agentvm.drivers.failures import Failures
from agentvm.drivers.output_schema import enforced_schema, is_enforced, requires_all, system_with_schema
from agentvm.drivers.refusal import MessageOrigin
from agentvm.errors import ProviderBadRequest
from agentvm.model.attachment import is_text, is_url
from agentvm.model.message import (
    ContentOutput,
    FilePart,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    UserContent,
    UserPart,
)
from agentvm.model.turn import ANY_TOOL, OutputFormat

RequestJson = dict[str, object]

TokenLimit = Literal["max_tokens", "max_completion_tokens"]

CONTINUE_INSTRUCTION = (
    "Your answer above was cut off. Go on from exactly where it stopped: "
    "write only what is still missing of it, and repeat nothing."
)
"""The instruction after the beginning of an unfinished answer."""

_MARK = "field:"


def reasoning_mark(field: str) -> str:
    """Returns a signature for reasoning without one: the name of the field it came in, and must go back in.

    DeepSeek refuses a tool call that comes back without its `reasoning_content`; OpenAI has no such field. The colon keeps it
    apart from a real signature, which is base64.
    """
    return f"{_MARK}{field}"


def chat_body(
    prompt: Prompt, failures: Failures, *, limit: TokenLimit = "max_tokens", speech_only: bool = False
) -> RequestJson:
    """Returns the whole request. `speech_only` is for models without tools and files: tool results become text."""
    messages: list[RequestJson] = []
    # Also beside a schema that is to be enforced: many servers of this protocol ignore that one, and small models need both.
    if system := system_with_schema(prompt):
        messages.append({"role": "system", "content": system})
    field = None if speech_only else _reasoning_field(prompt.conversation)
    newest, continued = newest_user(prompt.conversation), _continued(prompt.conversation)
    for number, entry in enumerate(prompt.conversation):
        reader = PartRenderer(failures, lenient=entry is not newest)
        rendered = _text_messages(entry, reader) if speech_only else _messages(entry, field, reader)
        if number in continued and rendered:
            before = messages.pop()["content"]
            rendered = [{**rendered[0], "content": "\n\n".join(filter(None, (str(before), str(rendered[0]["content"]))))}]
        messages += rendered
    last = prompt.conversation[-1] if prompt.conversation else None
    if isinstance(last, AssistantEntry) and last.provider_content is not None:
        # Another provider was interrupted in the middle of its answer.
        messages.append({"role": "user", "content": CONTINUE_INSTRUCTION})
    if prompt.begun.strip():
        messages += [{"role": "assistant", "content": prompt.begun.rstrip()}, {"role": "user", "content": CONTINUE_INSTRUCTION}]
    body: RequestJson = {
        "model": prompt.model,
        "messages": messages,
        limit: prompt.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if prompt.stop:
        body["stop"] = list(prompt.stop)
    if prompt.temperature is not None:
        body["temperature"] = prompt.temperature
    if prompt.tools and not speech_only:
        # Of the servers with this protocol only OpenAI, which has a limit of its own, is known to enforce the input of tools.
        strict = prompt.constrains and limit == "max_completion_tokens"
        body["tools"] = [_tool(tool, strict=strict) for tool in prompt.tools]
        if (choice := prompt.tool_choice) is not None:
            body["tool_choice"] = choice if choice == ANY_TOOL else {"type": "function", "function": {"name": choice}}
    if prompt.output is not None and prompt.constrains:
        body |= _response_format(prompt.output)
    return body


def _response_format(form: OutputFormat) -> RequestJson:
    """Returns the member that enforces the schema; none for a schema that this protocol cannot express."""
    schema = enforced_schema(form.schema)
    if schema is None:
        return {}
    named: RequestJson = {"name": form.name, "schema": schema, "strict": requires_all(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _continued(conversation: tuple[ConversationEntry, ...]) -> set[int]:
    """Returns which entries continue with the message before, as a repaired answer does: some models want users in between."""
    numbers: set[int] = set()
    before: ConversationEntry | None = None
    for number, entry in enumerate(conversation):
        if isinstance(entry, AssistantEntry) and not entry.text and not entry.tool_calls:
            continue
        if isinstance(entry, AssistantEntry) and isinstance(before, AssistantEntry) and not before.tool_calls:
            numbers.add(number)
        before = entry
    return numbers


def origins(prompt: Prompt) -> list[MessageOrigin]:
    """Returns the origin of each message of the request; of an answer that was repaired its last."""
    sources: list[MessageOrigin] = [(None, ())] if system_with_schema(prompt) else []
    continued = _continued(prompt.conversation)
    for number, entry in enumerate(prompt.conversation):
        if number in continued:
            sources.pop()
        match entry:
            case UserEntry(content=tuple(parts)):
                sources.append((number, tuple(range(len(parts)))))
            case ToolResultsEntry(results=results):
                sources += [(number, ())] * (len(results) + any(_images_of(result) for result in results))
            case AssistantEntry(text="", tool_calls=()):
                pass
            case _:
                sources.append((number, ()))
    return sources


def estimate_prompt(body: RequestJson) -> int:
    """A guess for providers that do not count: four bytes of JSON a token, right within a third for prose and code."""
    return -(-len(msgspec.json.encode((body["messages"], body.get("tools")))) // 4)


@dataclass(frozen=True, slots=True)
class PartRenderer:
    """Renders parts of user content. A part that the provider cannot take is an error in the current message, but an older
    one, which cannot be changed any more, must not fail for ever: there it becomes a note."""

    failures: Failures
    lenient: bool

    def render(self, part: UserPart, how: Callable[[UserPart, Failures], RequestJson]) -> RequestJson:
        try:
            return how(split_data_url(part), self.failures)
        except ProviderBadRequest:
            if not self.lenient:
                raise
            return {"type": "text", "text": placeholder_of(part)}


def placeholder_of(part: UserPart) -> str:
    """Returns the note in place of a part that cannot be sent."""
    match part:
        case TextPart(text=text):
            return text
        case ImagePart(name=name, media_type=media_type) | FilePart(filename=name, media_type=media_type):
            return f"[{name or media_type}: this model cannot read it]"


def _tool(tool: ToolSpec, *, strict: bool) -> RequestJson:
    function: RequestJson = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    if strict and is_enforced(tool) and requires_all(tool.input_schema):
        function["strict"] = True
    return {"type": "function", "function": function}


def _messages(entry: ConversationEntry, reasoning_field: str | None, reader: PartRenderer) -> list[RequestJson]:
    match entry:
        case UserEntry(content=content):
            return [{"role": "user", "content": _content(content, reader)}]
        case AssistantEntry():
            return _assistant(entry, reasoning_field)
        case ToolResultsEntry(results=results):
            messages: list[RequestJson] = [
                {"role": "tool", "tool_call_id": result.id, "content": result.output.text} for result in results
            ]
            # A result of this protocol is a text: pictures follow in a message of their own, after every result.
            seen = [block for result in results for block in _seen(result, reader)]
            return [*messages, {"role": "user", "content": seen}] if seen else messages


def _images_of(result: ToolResult) -> list[ImagePart]:
    output = result.output
    return [part for part in output.value if isinstance(part, ImagePart)] if isinstance(output, ContentOutput) else []


def _seen(result: ToolResult, reader: PartRenderer) -> list[RequestJson]:
    images = [reader.render(part, _part) for part in _images_of(result)]
    return [{"type": "text", "text": f"From the result of {result.name} ({result.id}):"}, *images] if images else []


def _assistant(entry: AssistantEntry, reasoning_field: str | None) -> list[RequestJson]:
    if not entry.text and not entry.tool_calls:
        return []
    message: RequestJson = {"role": "assistant", "content": entry.text}
    if entry.tool_calls:
        message["tool_calls"] = [_call(call) for call in entry.tool_calls]
        if reasoning_field is not None:
            # Present even when empty: the providers that want it want it in every message with calls.
            message[reasoning_field] = "".join(part.reasoning for part in entry.thinking if _field_of(part) is not None)
    return [message]


def _call(call: ToolCall) -> RequestJson:
    arguments = msgspec.json.encode(call.input).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _field_of(part: ThinkingPart) -> str | None:
    return part.signature.removeprefix(_MARK) if part.signature and part.signature.startswith(_MARK) else None


def _reasoning_field(conversation: tuple[ConversationEntry, ...]) -> str | None:
    """The field in which this conversation's provider returns its reasoning; None if it returns none."""
    for entry in reversed(conversation):
        if isinstance(entry, AssistantEntry):
            for part in entry.thinking:
                if field := _field_of(part):
                    return field
    return None


def _content(content: UserContent, reader: PartRenderer) -> object:
    return content if isinstance(content, str) else [reader.render(part, _part) for part in content]


def _part(part: UserPart, failures: Failures) -> RequestJson:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(data=data, media_type=media_type):
            return {"type": "image_url", "image_url": {"url": data if is_url(data) else f"data:{media_type};base64,{data}"}}
        case FilePart(data=data, media_type=media_type, filename=filename):
            if is_url(data):
                raise failures.bad_request(f"the file {filename or media_type} by URL; attach its content instead")
            if is_text(media_type):
                return {"type": "text", "text": file_text(part, failures)}
            file: RequestJson = {"filename": filename or "file", "file_data": f"data:{media_type};base64,{data}"}
            return {"type": "file", "file": file}


def _text_messages(entry: ConversationEntry, reader: PartRenderer) -> list[RequestJson]:
    match entry:
        case UserEntry(content=str(text)):
            return [{"role": "user", "content": text}]
        case UserEntry(content=parts):
            blocks = [reader.render(part, _text_part) for part in parts if not isinstance(part, str)]
            return [{"role": "user", "content": "\n".join(str(block["text"]) for block in blocks)}]
        case AssistantEntry(text=text):
            return [{"role": "assistant", "content": text}] if text else []
        case ToolResultsEntry(results=results):
            return [{"role": "user", "content": "\n".join(f"{result.name}: {_spoken(result, reader)}" for result in results)}]


def _spoken(result: ToolResult, reader: PartRenderer) -> str:
    output = result.output
    if not isinstance(output, ContentOutput):
        return output.text
    return "\n".join(str(reader.render(part, _text_part)["text"]) for part in rendered_parts(output))


def _text_part(part: UserPart, failures: Failures) -> RequestJson:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case FilePart(media_type=media_type) if is_text(media_type) and not is_url(part.data):
            return {"type": "text", "text": file_text(part, failures)}
        case _:
            raise failures.bad_request(f"a part of type {part.media_type}; this model reads text only")


def file_text(part: FilePart, failures: Failures) -> str:
    """The content of an attached text file, under its name."""
    try:
        text = base64.b64decode(part.data, validate=True).decode()
    except ValueError:
        raise failures.bad_request(f"the file {part.filename or part.media_type}: it is not base64 of UTF-8 text") from None
    return f"{part.filename}:\n{text}" if part.filename else text
