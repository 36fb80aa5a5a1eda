"""Chat body — the messages of a chat completion as content, seeds and options of this server. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agentvm.errors import InvalidInput, Unprocessable
from agentvm.gateways.chosen_options import read_chosen
from agentvm.gateways.embedded_json import read_arguments
from agentvm.gateways.media import picture, read_data_url
from agentvm.gateways.openai.choices import ToolChoice, read_effort, read_tools
from agentvm.gateways.routes import Lenient
from agentvm.model.message import FilePart, TextPart, ToolCall, UserContent, UserPart
from agentvm.model.turn import TurnOptions
from agentvm.sessions.seeding import SeedMessage, text_of

ANY_OBJECT = "answer"
"""The name of an answer that may be any JSON object."""


class ImageUrl(Lenient, frozen=True):
    url: str


class FileData(Lenient, frozen=True):
    file_data: str | None = None
    filename: str | None = None


class ContentPart(Lenient, frozen=True):
    type: str = "text"
    text: str | None = None
    image_url: ImageUrl | str | None = None
    file: FileData | None = None


class FunctionCall(Lenient, frozen=True):
    name: str
    arguments: str = "{}"


class ChatToolCall(Lenient, frozen=True):
    id: str
    function: FunctionCall | None = None


class ChatMessage(Lenient, frozen=True):
    role: str
    content: str | tuple[ContentPart, ...] | None = None
    tool_calls: tuple[ChatToolCall, ...] | None = None
    tool_call_id: str | None = None


class FunctionSpec(Lenient, frozen=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ChatTool(Lenient, frozen=True):
    type: str = "function"
    function: FunctionSpec | None = None


class StreamOptions(Lenient, frozen=True):
    include_usage: bool = False


class ChatBody(Lenient, frozen=True):
    """The members that are read; see docs/openai.md for those that are ignored and those that are refused."""

    model: str
    messages: tuple[ChatMessage, ...]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    stop: str | tuple[str, ...] | None = None
    reasoning_effort: str | None = None
    tools: tuple[ChatTool, ...] | None = None
    tool_choice: ToolChoice = None
    user: str | None = None
    safety_identifier: str | None = None
    n: int | None = None
    logprobs: bool | None = None
    functions: list[Any] | None = None
    audio: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ChatConversation:
    """The messages of a request: the history, and the last message, or the results of the caller's tools."""

    history: tuple[SeedMessage, ...]
    last: tuple[SeedMessage, ...]

    @property
    def content(self) -> UserContent:
        return self.last[0].content

    @property
    def results(self) -> tuple[SeedMessage, ...]:
        """The results of tools, if the request continues with them."""
        return self.last if self.last[0].role == "tool" else ()


def read_conversation(body: ChatBody) -> ChatConversation:
    """Splits the messages; `InvalidInput` for none, or for a last one of the assistant."""
    seeds = tuple(_seed(message) for message in body.messages if message.role not in ("system", "developer"))
    if not seeds or seeds[-1].role == "assistant":
        raise InvalidInput("messages must end with a message of the user, or with the results of tools")
    start = len(seeds) - 1
    while start > 0 and seeds[start].role == "tool" == seeds[start - 1].role:
        start -= 1
    return ChatConversation(seeds[:start], seeds[start:])


def read_options(body: ChatBody) -> TurnOptions | None:
    """Returns the options that the request chooses for its turn; None for none."""
    _refuse(body)
    system_texts = [text_of(_content(message.content)) for message in body.messages if message.role in ("system", "developer")]
    chosen = {
        "temperature": body.temperature,
        "maxTokens": body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens,
        "thinking": read_effort(body.reasoning_effort, "reasoning_effort"),
        "stop": (body.stop,) if isinstance(body.stop, str) else body.stop or (),
        "instructions": "\n\n".join(filter(None, system_texts)) or None,
        **read_tools(body.tool_choice, map(_tool, body.tools or ())),
        "output": output_of(body.response_format, "response_format"),
    }
    options = read_chosen(chosen, "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens")
    return None if options == TurnOptions() else options


def output_of(value: dict[str, Any] | None, member: str) -> dict[str, object] | None:
    """Returns the form of the answer that a request wants; None for text.

    Chat completions have name and schema in a member of their own, responses beside the type.
    """
    match (value or {}).get("type", "text"):
        case "text":
            return None
        case "json_object":
            return {"name": ANY_OBJECT, "schema": {"type": "object"}}
        case "json_schema":
            form = (value or {}).get("json_schema", value)
            if not isinstance(form, dict) or not isinstance(form.get("schema"), dict):
                raise Unprocessable(f"{member}: the schema is missing")
            return {"name": form.get("name", ANY_OBJECT), "schema": form["schema"]}
        case other:
            raise Unprocessable(f"{member}: the type {str(other)[:40]!r} is not supported here")


def _refuse(body: ChatBody) -> None:
    """Refuses members that would change the answer and are not supported here."""
    refused = {
        "n": body.n is not None and body.n != 1,
        "logprobs": bool(body.logprobs),
        "functions": bool(body.functions),
        "audio": body.audio is not None,
    }
    for name, is_given in refused.items():
        if is_given:
            raise InvalidInput(f"{name} is not supported here; leave it out")


def _tool(tool: ChatTool) -> dict[str, object]:
    if tool.type != "function" or tool.function is None:
        raise Unprocessable("Only tools of type function are supported here")
    spec = tool.function
    return {"name": spec.name, "description": spec.description or "", "parameters": spec.parameters or {}}


def _seed(message: ChatMessage) -> SeedMessage:
    match message.role:
        case "user":
            return SeedMessage(role="user", content=_content(message.content))
        case "assistant":
            calls = tuple(_call(call) for call in message.tool_calls or ())
            return SeedMessage(role="assistant", content=text_of(_content(message.content)), tool_calls=calls)
        case "tool":
            return SeedMessage(role="tool", content=text_of(_content(message.content)), tool_call_id=message.tool_call_id)
        case _:
            raise InvalidInput(f"messages: the role {message.role[:40]!r} is not known here")


def _call(call: ChatToolCall) -> ToolCall:
    spec = call.function
    if spec is None:
        return ToolCall(id=call.id, name="", input={})
    return ToolCall(id=call.id, name=spec.name, input=read_arguments(spec.arguments))


def _content(content: str | tuple[ContentPart, ...] | None) -> UserContent:
    if not isinstance(content, tuple):
        return content or ""
    parts = tuple(_part(part, number) for number, part in enumerate(content))
    if all(isinstance(part, TextPart) for part in parts):
        return text_of(parts)
    return parts


def _part(part: ContentPart, number: int) -> UserPart:
    if part.type == "text":
        return TextPart(text=part.text or "")
    if part.type == "image_url" and part.image_url is not None:
        url = part.image_url if isinstance(part.image_url, str) else part.image_url.url
        return picture(url, f"content[{number}].image_url")
    if part.type == "file" and part.file is not None and part.file.file_data is not None:
        media_type, data = read_data_url(part.file.file_data)
        return FilePart(data=data, media_type=media_type, filename=part.file.filename)
    raise Unprocessable(f"Content of type {part.type[:40]!r} is not supported here")


def digest_of(model: str, seeds: Sequence[SeedMessage]) -> str:
    """Returns the name of a history: equal histories with the same model have the same one."""
    digest = hashlib.sha256(model.encode())
    for seed in seeds:
        text = text_of(seed.content).strip() if seed.role != "user" else seed.content
        calls = [(call.id, call.name) for call in seed.tool_calls]
        digest.update(msgspec.json.encode((seed.role, text, calls, seed.tool_call_id)))
    return digest.hexdigest()
