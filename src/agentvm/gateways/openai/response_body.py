"""Response body — the input of a response as content, seeds, results and options of this server. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agentvm.errors import InvalidInput, Unprocessable
from agentvm.gateways.chosen_options import read_chosen
from agentvm.gateways.embedded_json import read_arguments
from agentvm.gateways.media import file, picture, read_data_url
from agentvm.gateways.openai.chat_body import output_of
from agentvm.gateways.openai.choices import ToolChoice, read_effort, read_tools
from agentvm.gateways.routes import Lenient
from agentvm.model.message import FilePart, TextPart, ToolCall, UserContent, UserPart
from agentvm.model.turn import TurnOptions
from agentvm.sessions.seeding import SeedMessage, text_of

PAIRS_MAX, NAME_MAX, VALUE_MAX = 16, 64, 512
"""Bounds of metadata, which are those of the dialect."""
IGNORED = frozenset({"reasoning", "mcp_list_tools", "compaction"})
"""Items that a client sends back and that mean nothing here."""


class InputPart(Lenient, frozen=True):
    type: str = "input_text"
    text: str | None = None
    image_url: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


class InputItem(Lenient, frozen=True):
    type: str = "message"
    role: str | None = None
    content: str | tuple[InputPart, ...] | None = None
    call_id: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | tuple[InputPart, ...] | None = None
    error: Any = None


class Reasoning(Lenient, frozen=True):
    effort: str | None = None


class FunctionTool(Lenient, frozen=True):
    type: str = "function"
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ConversationName(Lenient, frozen=True):
    id: str


class TextOptions(Lenient, frozen=True):
    format: dict[str, Any] | None = None


class ResponseBody(Lenient, frozen=True):
    """The members that are read; see docs/openai.md for those that are ignored and those that are refused."""

    model: str
    input: str | tuple[InputItem, ...] = ()
    instructions: str | None = None
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationName | None = None
    tools: tuple[FunctionTool, ...] | None = None
    tool_choice: ToolChoice = None
    metadata: dict[str, str] | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning: Reasoning | None = None
    text: TextOptions | None = None
    prompt: dict[str, Any] | None = None
    user: str | None = None
    safety_identifier: str | None = None

    @property
    def conversation_id(self) -> str | None:
        return self.conversation.id if isinstance(self.conversation, ConversationName) else self.conversation


class ResponseAbout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a request that its response repeats and that no option says; kept with the turn."""

    model: str
    previous: str | None = None
    background: bool = False
    store: bool = True
    metadata: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class ResponseInput:
    """The input of a request: earlier messages, and the last message, or the results of the caller's tools by their calls."""

    history: tuple[SeedMessage, ...]
    last: tuple[SeedMessage, ...]
    """Messages of the user, or results."""
    instructions: str | None = None

    @property
    def content(self) -> UserContent:
        return "" if self.results else _joined(self.last)

    @property
    def results(self) -> dict[str, str]:
        return {seed.tool_call_id or "": str(seed.content) for seed in self.last if seed.role == "tool"}


def read_input(body: ResponseBody) -> ResponseInput:
    """Splits the input; `InvalidInput` for one without a message of the user or results at its end."""
    if isinstance(body.input, str):
        return ResponseInput((), (SeedMessage(role="user", content=body.input),), body.instructions)
    seeds, instructions = read_items(body.input)
    system_text = "\n\n".join(filter(None, (body.instructions, instructions))) or None
    start = len(seeds)
    while start > 0 and seeds[start - 1].role == seeds[-1].role != "assistant":
        start -= 1
    last = seeds[start:]
    if not last:
        raise InvalidInput("input must end with a message of the user, or with results of tools")
    if last[0].role == "user" and start > 0 and seeds[start - 1].role == "tool" and body.previous_response_id:
        raise Unprocessable("Results of tools and a message of the user cannot be sent together; send the results first")
    return ResponseInput(seeds[:start], last, system_text)


def read_items(items: Sequence[InputItem]) -> tuple[tuple[SeedMessage, ...], str | None]:
    """Returns the messages, and the text of those of the system."""
    seeds: list[SeedMessage] = []
    instructions: list[str] = []
    for item in items:
        if item.type == "message" and item.role in ("system", "developer"):
            instructions.append(text_of(_content(item.content)))
        elif item.type not in IGNORED:
            for seed in _seeds(item):
                if seed.tool_calls and seeds and seeds[-1].role == "assistant":
                    # Calls belong to the message before them.
                    calls = (*seeds[-1].tool_calls, *seed.tool_calls)
                    seeds[-1] = msgspec.structs.replace(seeds[-1], tool_calls=calls)
                else:
                    seeds.append(seed)
    return tuple(seeds), "\n\n".join(filter(None, instructions)) or None


def read_response_options(body: ResponseBody, response_input: ResponseInput) -> TurnOptions:
    """Returns the options that the request chooses for its turn."""
    _refuse(body)
    about = ResponseAbout(
        model=body.model,
        previous=body.previous_response_id,
        background=bool(body.background),
        store=body.store is not False,
        metadata=body.metadata or {},
    )
    effort = None if body.reasoning is None else body.reasoning.effort
    chosen = {
        "temperature": body.temperature,
        "maxTokens": body.max_output_tokens,
        "thinking": read_effort(effort, "reasoning.effort"),
        "instructions": response_input.instructions,
        **read_tools(body.tool_choice, map(_tool, body.tools or ())),
        "output": output_of(None if body.text is None else body.text.format, "text.format"),
        "clientData": msgspec.json.encode(about).decode(),
    }
    return read_chosen(chosen, "max_output_tokens")


def about_of(options: TurnOptions | None, model: str) -> ResponseAbout:
    """Returns the data that was kept with a turn; for a turn of another client, `model` alone."""
    try:
        return msgspec.json.decode(options.client_data if options and options.client_data else "", type=ResponseAbout)
    except (msgspec.DecodeError, RecursionError):
        return ResponseAbout(model=model)


def _refuse(body: ResponseBody) -> None:
    """Refuses members that would change the answer and are not supported here."""
    if body.previous_response_id is not None and body.conversation is not None:
        raise InvalidInput("previous_response_id and conversation exclude each other")
    if body.background and body.store is False:
        raise InvalidInput("A response in the background is stored: background excludes store: false")
    if body.prompt is not None:
        raise Unprocessable("prompt is not supported here; leave it out")
    check_metadata(body.metadata or {})


def check_metadata(pairs: Mapping[str, str]) -> None:
    if len(pairs) > PAIRS_MAX or any(len(name) > NAME_MAX or len(value) > VALUE_MAX for name, value in pairs.items()):
        raise InvalidInput(f"metadata has at most {PAIRS_MAX} pairs: names of {NAME_MAX} characters, values of {VALUE_MAX}")


def _tool(tool: FunctionTool) -> dict[str, object]:
    if tool.type != "function" or tool.name is None:
        raise Unprocessable("Only tools of type function are supported here")
    return {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters or {}}


def _seeds(item: InputItem) -> list[SeedMessage]:
    match item.type:
        case "message" if item.role == "user":
            return [SeedMessage(role="user", content=_content(item.content))]
        case "message" if item.role == "assistant":
            return [SeedMessage(role="assistant", content=text_of(_content(item.content)))]
        case "function_call":
            return [SeedMessage(role="assistant", tool_calls=(_call(item, item.call_id),))]
        case "function_call_output":
            return [SeedMessage(role="tool", content=text_of(_content(item.output)), tool_call_id=item.call_id)]
        case "mcp_call":
            output = text_of(_content(item.output)) or ("" if item.error is None else msgspec.json.encode(item.error).decode())
            called = SeedMessage(role="assistant", tool_calls=(_call(item, item.id),))
            return [called, SeedMessage(role="tool", content=output, tool_call_id=item.id or "")]
        case "message":
            raise InvalidInput(f"input: the role {(item.role or '')[:40]!r} is not known here")
        case _:
            raise Unprocessable(f"Input of type {item.type[:40]!r} is not supported here")


def _call(item: InputItem, call_id: str | None) -> ToolCall:
    return ToolCall(id=call_id or "", name=item.name or "", input=read_arguments(item.arguments or ""))


def _content(content: str | tuple[InputPart, ...] | None) -> UserContent:
    if not isinstance(content, tuple):
        return content or ""
    parts = tuple(_part(part, number) for number, part in enumerate(content))
    return text_of(parts) if all(isinstance(part, TextPart) for part in parts) else parts


def _part(part: InputPart, number: int) -> UserPart:
    if part.type in ("input_text", "output_text", "text", "summary_text", "refusal"):
        return TextPart(text=part.text or "")
    if part.type == "input_image" and part.image_url is not None:
        return picture(part.image_url, f"content[{number}].image_url")
    if part.type == "input_file" and part.file_data is not None:
        media_type, data = read_data_url(part.file_data)
        return FilePart(data=data, media_type=media_type, filename=part.filename)
    if part.type == "input_file" and part.file_url is not None:
        return file(part.file_url, f"content[{number}].file_url", name=part.filename)
    raise Unprocessable(f"Content of type {part.type[:40]!r} is not supported here")


def _joined(seeds: Sequence[SeedMessage]) -> UserContent:
    """Returns several messages of the user as one."""
    if len(seeds) == 1:
        return seeds[0].content
    if all(isinstance(seed.content, str) for seed in seeds):
        return "\n\n".join(str(seed.content) for seed in seeds)
    parts: list[UserPart] = []
    for seed in seeds:
        parts += (TextPart(text=seed.content),) if isinstance(seed.content, str) else seed.content
    return tuple(parts)
