"""AG-UI input — the input of a run: a message of the user, results of tools of the page, answers to interrupts. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from agentvm.errors import InvalidInput, Unprocessable
from agentvm.gateways.chosen_options import read_chosen
from agentvm.gateways.client_calls import CallerAnswer
from agentvm.gateways.media import check_base64, file, picture
from agentvm.gateways.routes import Lenient
from agentvm.model.message import FilePart, ImagePart, TextPart, UserContent, UserPart
from agentvm.model.session import EXTERNAL_MAX
from agentvm.model.turn import TurnOptions

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=EXTERNAL_MAX)]
RUN_MAX = 200


class PartSource(Lenient, frozen=True, rename="camel"):
    value: str
    type: str = "url"
    mime_type: str | None = None


class AgUiPart(Lenient, frozen=True, rename="camel"):
    type: str
    text: str = ""
    source: PartSource | None = None


class AgUiMessage(Lenient, frozen=True, rename="camel"):
    role: str
    content: Any = None
    tool_call_id: str | None = None
    error: str | None = None


class AgUiTool(Lenient, frozen=True):
    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class AgUiContext(Lenient, frozen=True):
    description: str = ""
    value: str = ""


class ResumeEntry(Lenient, frozen=True, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"] = "resolved"
    payload: Any = None


class AgUiBody(Lenient, frozen=True, rename="camel"):
    stream: ClassVar[bool] = True
    thread_id: _Name
    run_id: Annotated[str, msgspec.Meta(min_length=1, max_length=RUN_MAX)]
    messages: tuple[AgUiMessage, ...] = ()
    tools: tuple[AgUiTool, ...] | None = None
    context: tuple[AgUiContext, ...] | None = None
    resume: tuple[ResumeEntry, ...] | None = None


def read_answers(body: AgUiBody) -> dict[str, CallerAnswer]:
    """Returns the results of the page's tools at the end of the messages, and the answers to interrupts, by their names."""
    answers: dict[str, CallerAnswer] = {}
    for message in reversed(body.messages):
        if message.role != "tool":
            break
        result = message.error or text_of(message.content)
        answers[message.tool_call_id or ""] = CallerAnswer(decision="answer", result=result)
    return answers | {entry.interrupt_id: _answer(entry) for entry in body.resume or ()}


def _answer(entry: ResumeEntry) -> CallerAnswer:
    payload = entry.payload
    about: Mapping[str, Any] = payload if isinstance(payload, dict) else {}
    if entry.status == "cancelled" or payload is False or about.get("approved") is False:
        reason = about.get("reason")
        return CallerAnswer(decision="deny", reason=reason if isinstance(reason, str) else None)
    if isinstance(edited := about.get("editedArgs"), dict):
        return CallerAnswer(decision="edit", input=edited)
    if payload is None or payload is True or about.get("approved") is True:
        return CallerAnswer(decision="approve")
    return CallerAnswer(decision="answer", result=payload)


def read_content(body: AgUiBody) -> UserContent:
    """Returns the last message, which is the user's; `InvalidInput` for another."""
    if not body.messages or body.messages[-1].role != "user":
        raise InvalidInput("messages must end with a message of the user, or with the results of tools; or give resume")
    content = body.messages[-1].content
    if isinstance(content, str):
        return content
    try:
        parts = msgspec.convert(content, tuple[AgUiPart, ...])
    except msgspec.ValidationError:
        raise InvalidInput("The content of a message is a text or a list of parts") from None
    return tuple(_part(part, number) for number, part in enumerate(parts))


def _part(part: AgUiPart, number: int) -> UserPart:
    where = f"content[{number}].source"
    match part.type, part.source:
        case "text", _:
            return TextPart(text=part.text)
        case "image", PartSource(type="data", value=value, mime_type=media_type):
            return ImagePart(data=check_base64(value), media_type=media_type or "image/png")
        case "image", PartSource(type="url", value=value, mime_type=media_type):
            return picture(value, where, media_type)
        case "document" | "audio" | "video", PartSource(type="data", value=value, mime_type=media_type):
            return FilePart(data=check_base64(value), media_type=media_type or "application/octet-stream")
        case "document" | "audio" | "video", PartSource(type="url", value=value, mime_type=media_type):
            return file(value, where, media_type)
        case _:
            raise Unprocessable(
                f"content[{number}]: a part of type {part.type[:40]!r} from such a source is not supported here"
            )


def text_of(content: Any) -> str:
    """Returns the text of a message in any of its forms."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def read_options(body: AgUiBody) -> TurnOptions | None:
    """Returns the page's tools, and its context and instructions for the agent; None for nothing."""
    system_texts = [text_of(message.content) for message in body.messages if message.role in ("system", "developer")]
    system_texts += [f"{about.description}: {about.value}" for about in body.context or ()]
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters or {}} for tool in body.tools or ()
    ]
    options = read_chosen({"instructions": "\n\n".join(filter(None, system_texts)) or None, "tools": tools})
    return None if options == TurnOptions() else options
