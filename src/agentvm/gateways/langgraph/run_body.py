"""Run body — a message of a LangGraph client to a thread, as content, seeds and options of this server. Pure."""

import base64
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from agentvm.errors import InvalidInput, NotAvailable, Unprocessable
from agentvm.errors.validation import explain
from agentvm.gateways.chosen_options import read_chosen
from agentvm.gateways.media import picture
from agentvm.gateways.routes import KEY_MAX, Lenient
from agentvm.model.message import FilePart, ImagePart, TextPart, ToolCall, UserContent, UserPart
from agentvm.model.turn import TurnOptions
from agentvm.sessions.seeding import SeedMessage, text_of

ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "tool": "tool", "system": "system"}
END = "__end__"
"""The place in a graph at which a run that waits goes no further."""
MODES = frozenset({"values", "messages", "messages-tuple", "updates"})
"""The modes that have events here."""
EMPTY_MODES = frozenset({"custom", "events", "tasks", "checkpoints", "debug", "tools", "lifecycle"})
"""The modes that are accepted and stay empty."""

StreamModes = str | tuple[str, ...] | None


class RunCheckpoint(Lenient, frozen=True):
    checkpoint_id: str | None = None


class RunCommand(Lenient, frozen=True):
    """`Command` of LangGraph: a resume has an empty `goto` and `update`."""

    resume: Any = None
    goto: Any = None
    update: Any = None


class RunConfig(Lenient, frozen=True):
    configurable: dict[str, Any] | None = None


class RunBody(Lenient, frozen=True):
    """The members that are read; see docs/langgraph.md for those that are ignored and those that are refused."""

    assistant_id: str
    input: dict[str, Any] | None = None
    command: RunCommand | None = None
    config: RunConfig | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    stream_mode: StreamModes = None
    checkpoint: RunCheckpoint | None = None
    checkpoint_id: str | None = None
    multitask_strategy: Literal["reject", "interrupt", "rollback", "enqueue"] | None = None
    if_not_exists: Literal["create", "reject"] | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    on_completion: Literal["delete", "keep", "complete"] | None = None
    after_seconds: float | None = None
    webhook: str | None = None
    interrupt_before: str | list[str] | None = None
    interrupt_after: str | list[str] | None = None

    @property
    def head(self) -> str | None:
        """The message that the run continues from."""
        configurable = (self.config and self.config.configurable) or {}
        chosen = self.checkpoint_id or (self.checkpoint and self.checkpoint.checkpoint_id) or configurable.get("checkpoint_id")
        return chosen if isinstance(chosen, str) else None


class LangToolCall(Lenient, frozen=True):
    id: str | None = None
    name: str = ""
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class ClientMessage(Lenient, frozen=True):
    """A message as clients write it: with `type` or with `role`."""

    type: str | None = None
    role: str | None = None
    id: str | None = None
    content: str | list[Any] | None = None
    tool_calls: tuple[LangToolCall, ...] | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class RunInput:
    """The input of a run: the history of a new thread, and the new message."""

    seeds: tuple[SeedMessage, ...]
    content: UserContent
    key: str | None
    instructions: str | None


def check_run(body: RunBody) -> None:
    """Refuses members that would change the run and are not supported here."""
    if body.webhook:
        raise NotAvailable("This server has no webhooks for runs")
    read_modes(body.stream_mode)
    refused = {
        "interrupt_before": bool(body.interrupt_before),
        "interrupt_after": bool(body.interrupt_after),
        "after_seconds": bool(body.after_seconds),
        "command.goto": body.command is not None and bool(body.command.goto) and body.command.goto != END,
        "command.update": body.command is not None and bool(body.command.update),
    }
    for name, is_given in refused.items():
        if is_given:
            raise Unprocessable(f"{name} is not supported here; leave it out")


def read_modes(chosen: StreamModes) -> frozenset[str]:
    """Returns the chosen modes that have events here; `InvalidInput` for an unknown one."""
    named = frozenset((chosen,) if isinstance(chosen, str) else chosen or ("values",))
    if unknown := sorted(named - MODES - EMPTY_MODES):
        raise InvalidInput(f"stream_mode: {unknown[0][:40]!r} is not known here; there are {', '.join(sorted(MODES))}")
    return named & MODES


def read_options(body: RunBody, instructions: str | None) -> TurnOptions | None:
    """Returns the options that the run chooses for its turn; None for none."""
    chosen = {**((body.config and body.config.configurable) or {}), **(body.context or {})}
    about = {"model": chosen.get("model"), "temperature": chosen.get("temperature"), "maxTokens": chosen.get("max_tokens")}
    tools = chosen.get("tools") or ()
    options = read_chosen({**about, "instructions": instructions, "tools": tools}, where="config.configurable")
    return None if options == TurnOptions() else options


def read_messages(values: dict[str, Any] | None) -> list[ClientMessage]:
    """Returns the messages of an input; `InvalidInput` for other shapes."""
    messages = (values or {}).get("messages", [])
    listed = messages if isinstance(messages, list) else [messages]
    try:
        return [msgspec.convert(_spelled(message), ClientMessage) for message in listed]
    except msgspec.ValidationError as error:
        raise InvalidInput(f"input.messages: {explain(error, ClientMessage)}") from None


def read_input(values: dict[str, Any] | None, stored_ids: Collection[str]) -> RunInput:
    """Splits an input into the history of a new thread and the new message.

    Messages up to the last one that the thread has, by their ids, are not read again.
    """
    messages = read_messages(values)
    system = [text_of(read_content(message.content)) for message in messages if _role(message) == "system"]
    messages = [message for message in messages if _role(message) != "system"]
    start = max((index + 1 for index, message in enumerate(messages) if message.id in stored_ids), default=0)
    news = messages[start:]
    end = len(news)
    while end > 0 and _role(news[end - 1]) == "user":
        end -= 1
    last = news[end:]
    if not last:
        raise InvalidInput("input.messages must end with a new message of type human")
    contents = [read_content(message.content) for message in last]
    content = contents[0] if len(contents) == 1 else _joined(contents)
    key = last[-1].id
    return RunInput(read_seeds(news[:end]), content, key if key and len(key) <= KEY_MAX else None, "\n\n".join(system) or None)


def read_seeds(messages: list[ClientMessage]) -> tuple[SeedMessage, ...]:
    return tuple(_seed(message) for message in messages)


def _spelled(message: Any) -> Any:
    """Returns a message that was written as a text, or as a pair of role and text, as an object."""
    match message:
        case str():
            return {"type": "human", "content": message}
        case [str(role), content]:
            return {"type": role, "content": content}
        case _:
            return message


def _role(message: ClientMessage) -> str:
    name = message.type or message.role or ""
    role = ROLES.get(name)
    if role is None:
        raise InvalidInput(f"input.messages: the type {name[:40]!r} is not known here")
    return role


def _seed(message: ClientMessage) -> SeedMessage:
    content = read_content(message.content)
    match _role(message):
        case "assistant":
            calls = tuple(ToolCall(id=spec.id or "", name=spec.name, input=spec.args) for spec in message.tool_calls or ())
            return SeedMessage(role="assistant", content=text_of(content), tool_calls=calls)
        case "tool":
            return SeedMessage(role="tool", content=text_of(content), tool_call_id=message.tool_call_id)
        case _:
            return SeedMessage(role="user", content=content)


def _joined(contents: list[UserContent]) -> UserContent:
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(map(text_of, contents))
    parts: list[UserPart] = []
    for content in contents:
        parts += (TextPart(text=content),) if isinstance(content, str) else content
    return tuple(parts)


def read_content(content: str | list[Any] | None) -> UserContent:
    """Returns the content of a message; `Unprocessable` for parts that cannot be read here."""
    if not isinstance(content, list):
        return content or ""
    parts = tuple(_part(part) for part in content)
    return text_of(parts) if all(isinstance(part, TextPart) for part in parts) else parts


def _part(part: Any) -> UserPart:
    match part:
        case str():
            return TextPart(text=part)
        case {"type": "text", "text": str(text)}:
            return TextPart(text=text)
        case {"type": "image_url", "image_url": str(url) | {"url": str(url)}}:
            return picture(url, "image_url")
        case {"type": "image", "url": str(url)}:
            return picture(url, "image_url")
        case {"type": "image", "data": str(data)} | {"type": "image", "base64": str(data)}:
            return ImagePart(data=_checked(data), media_type=_media_type(part, "image/png"))
        case {"type": "file", "data": str(data)} | {"type": "file", "base64": str(data)}:
            about = part.get("metadata")
            name = (about.get("filename") or about.get("name")) if isinstance(about, dict) else None
            media_type = _media_type(part, "application/octet-stream")
            return FilePart(data=_checked(data), media_type=media_type, filename=name if isinstance(name, str) else None)
        case _:
            kind = part.get("type") if isinstance(part, dict) else part
            raise Unprocessable(f"Content of type {str(kind)[:40]!r} is not supported here")


def _media_type(part: dict[str, Any], default: str) -> str:
    return str(part.get("mime_type") or part.get("mimeType") or default)


def _checked(data: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        raise InvalidInput("The data of a picture or a file is base64") from None
    return data
