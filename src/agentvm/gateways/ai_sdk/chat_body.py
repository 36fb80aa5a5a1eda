"""AI SDK chat body — the last message of a chat: of the user, or the assistant's with results and approvals. Pure."""

import hashlib
import re
from typing import Annotated, Any, ClassVar

import msgspec

from agentvm.errors import InvalidInput, Unprocessable
from agentvm.gateways.chosen_options import read_chosen
from agentvm.gateways.client_calls import CallerAnswer
from agentvm.gateways.media import file, picture
from agentvm.gateways.routes import Lenient
from agentvm.gateways.threads import key_of_change
from agentvm.model.ids import MessageId, NewId
from agentvm.model.message import TextPart, UserContent, UserPart
from agentvm.model.session import EXTERNAL_MAX
from agentvm.model.turn import TurnOptions

MESSAGE_ID_MAX = 100
REGENERATE = "regenerate-message"
ANSWER_ID_CHARACTERS_MAX = 38


class UiApproval(Lenient, frozen=True):
    id: str
    approved: bool | None = None
    reason: str | None = None


class UiPart(Lenient, frozen=True, rename="camel"):
    type: str
    text: str = ""
    url: str | None = None
    media_type: str | None = None
    filename: str | None = None
    state: str | None = None
    tool_call_id: str | None = None
    output: Any = None
    error_text: str | None = None
    provider_executed: bool | None = None
    approval: UiApproval | None = None


class UiMessage(Lenient, frozen=True):
    role: str
    id: Annotated[str, msgspec.Meta(max_length=MESSAGE_ID_MAX)] = ""
    parts: tuple[UiPart, ...] = ()


class UiTool(Lenient, frozen=True, rename="camel"):
    """A tool of the page, as the body of the transport lists it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    input_schema: dict[str, Any] | None = None


class UiChatBody(Lenient, frozen=True, rename="camel"):
    stream: ClassVar[bool] = True
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=EXTERNAL_MAX)]
    messages: tuple[UiMessage, ...] = ()
    trigger: str = "submit-message"
    message_id: str | None = None
    tools: tuple[UiTool, ...] | None = None

    @property
    def last(self) -> UiMessage:
        if not self.messages or self.messages[-1].role not in ("user", "assistant"):
            raise InvalidInput(
                "messages must end with a message of the user, or with answers to calls of the assistant's last one"
            )
        return self.messages[-1]


def read_answers(message: UiMessage) -> dict[str, CallerAnswer]:
    """Returns the results of the page's tools and the approvals in the assistant's message, by the ids of calls and waits."""
    answers: dict[str, CallerAnswer] = {}
    for part in message.parts:
        match part:
            case UiPart(state="approval-responded", approval=UiApproval(id=wait_id, approved=bool(approved), reason=reason)):
                answers[wait_id] = CallerAnswer(decision="approve" if approved else "deny", reason=None if approved else reason)
            case UiPart(tool_call_id=str(call_id), provider_executed=None | False, state="output-available", output=output):
                answers[call_id] = CallerAnswer(decision="answer", result=output)
            case UiPart(tool_call_id=str(call_id), provider_executed=None | False, state="output-error", error_text=text):
                answers[call_id] = CallerAnswer(decision="answer", result=f"The tool failed: {text or ''}")
            case _:
                pass
    if not answers:
        raise InvalidInput("The assistant's message at the end has no result of a tool and no answer to an approval")
    return answers


def read_content(message: UiMessage) -> UserContent:
    """Returns a message of the user."""
    parts = tuple(_part(part, number) for number, part in enumerate(message.parts) if part.type != "step-start")
    if all(isinstance(part, TextPart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    return parts


def _part(part: UiPart, number: int) -> UserPart:
    if part.type == "text":
        return TextPart(text=part.text)
    if part.type != "file" or part.url is None:
        raise Unprocessable(f"parts[{number}]: a part of type {part.type[:40]!r} is not supported here")
    where, media_type = f"parts[{number}].url", part.media_type
    if (media_type or "").startswith("image/"):
        return picture(part.url, where, media_type)
    return file(part.url, where, media_type, part.filename)


def read_options(body: UiChatBody) -> TurnOptions | None:
    """Returns the tools of the page; None for none."""
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters or tool.input_schema or {}}
        for tool in body.tools or ()
    ]
    system_texts = [part.text for message in body.messages if message.role == "system" for part in message.parts if part.text]
    options = read_chosen({"instructions": "\n\n".join(system_texts) or None, "tools": tools})
    return None if options == TurnOptions() else options


def edit_key(message_id: str, content: UserContent, replaced: MessageId) -> str:
    """Returns the name of a message that takes the place of an earlier one."""
    return key_of_change(message_id, hashlib.sha256(msgspec.json.encode((replaced, content))).hexdigest()[:32])


def is_edit(client_key: str | None) -> bool:
    """Returns whether a message was sent under such a name."""
    return client_key is not None and re.search(r":[0-9a-f]{32}$", client_key) is not None


def regenerate_key(body: UiChatBody, new_id: NewId) -> str:
    """Returns the name of a question that is answered again.

    An answer that is named is replaced, and its page has another one then, so the same request again is the same. A question
    may be answered again and again.
    """
    answer = body.message_id or ""
    change = answer if answer.startswith("turn_") and len(answer) <= ANSWER_ID_CHARACTERS_MAX else new_id("again")
    return key_of_change(body.last.id, change)
