"""A2A messages — calls of clients, and the parts of their messages. Pure."""

import hashlib
from datetime import datetime
from math import floor
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.validation import explain
from agentvm.gateways.a2a.errors import A2aCode, CallRefused
from agentvm.gateways.client_calls import CallerAnswer
from agentvm.gateways.media import check_base64
from agentvm.gateways.routes import Lenient
from agentvm.model.message import FilePart, ImagePart, TextPart, UserContent
from agentvm.model.wait import AnswerDecision
from agentvm.operations.message import ClientKey
from agentvm.operations.tool import WaitView

CONTEXT_MAX = 256
PAGE_MAX, PAGE_DEFAULT = 100, 50
OUTPUT_MODES: Final = ("text/plain",)
"""Media types of answers."""
UNSPECIFIED: Final = "TASK_STATE_UNSPECIFIED"
_DIGEST_CHARACTERS: Final = 32
_DECISIONS: Final[tuple[AnswerDecision, ...]] = ("approve", "edit", "deny", "answer")

P = TypeVar("P", bound=Lenient)


class A2aMessage(Lenient, frozen=True):
    """A call by JSON-RPC."""

    jsonrpc: Literal["2.0"]
    method: str
    id: str | int | None = None
    params: dict[str, Any] | None = None

    @property
    def tenant(self) -> str | None:
        """The user of the caller that a call is for."""
        named = (self.params or {}).get("tenant")
        return named if isinstance(named, str) and named else None

    @property
    def stream(self) -> bool:
        """Whether the answer is a stream."""
        return self.method in ("SendStreamingMessage", "SubscribeToTask")

    def read(self, kind: type[P]) -> P:
        """Returns the parameters; `InvalidInput` when they are not of that kind."""
        try:
            return msgspec.convert(self.params or {}, kind)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"params: {explain(error, kind)}") from None


class A2aPart(Lenient, frozen=True, rename="camel"):
    text: str | None = None
    raw: str | None = None
    """Bytes in base64."""
    url: str | None = None
    data: Any = None
    filename: str | None = None
    media_type: str = "application/octet-stream"


class A2aInput(Lenient, frozen=True, rename="camel"):
    """A message of a client."""

    message_id: ClientKey
    parts: tuple[A2aPart, ...]
    role: str = "ROLE_USER"
    context_id: str = ""
    task_id: str = ""


class SendConfiguration(Lenient, frozen=True, rename="camel"):
    return_immediately: bool = False
    accepted_output_modes: tuple[str, ...] = ()
    task_push_notification_config: Any = None


class A2aSendParams(Lenient, frozen=True, rename="camel"):
    message: A2aInput
    configuration: SendConfiguration = SendConfiguration()


class TaskParams(Lenient, frozen=True, rename="camel"):
    id: str


class TaskListParams(Lenient, frozen=True, rename="camel"):
    context_id: str = ""
    status: str = UNSPECIFIED
    status_timestamp_after: datetime | None = None
    page_size: Annotated[int, msgspec.Meta(ge=0, le=PAGE_MAX)] = 0
    page_token: str = ""
    include_artifacts: bool = False

    @property
    def changed_since(self) -> int | None:
        """The first ms that is after the timestamp."""
        at = self.status_timestamp_after
        return None if at is None else floor(at.timestamp() * 1000) + 1


def context_of(message: A2aInput) -> str:
    """Returns the context of a message. One without a context begins its own, the same if it is sent again."""
    if len(message.context_id) > CONTEXT_MAX:
        raise InvalidInput(f"contextId has at most {CONTEXT_MAX} characters")
    digest = hashlib.sha256(message.message_id.encode("utf-8", "surrogatepass")).hexdigest()
    return message.context_id or f"ctx-{digest[:_DIGEST_CHARACTERS]}"


def check_output(configuration: SendConfiguration) -> None:
    """Refuses a message whose sender takes no answer of a media type that answers have."""
    accepted = {mode.split(";")[0].strip().lower() for mode in configuration.accepted_output_modes}
    if accepted and accepted.isdisjoint({*OUTPUT_MODES, "text/*", "*/*", "text"}):
        raise CallRefused(A2aCode.CONTENT_TYPE_NOT_SUPPORTED, f"Answers are {', '.join(OUTPUT_MODES)}")


def content_of(message: A2aInput) -> UserContent:
    """Returns the content of a message; `CallRefused` for parts that cannot be taken."""
    if message.role not in ("ROLE_USER", "ROLE_UNSPECIFIED"):
        raise InvalidInput("message.role must be ROLE_USER")
    parts = [_part(part) for part in message.parts]
    if not parts:
        raise InvalidInput("message.parts is empty")
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return "\n".join(texts) if len(texts) == len(parts) else tuple(parts)


def _part(part: A2aPart) -> TextPart | ImagePart | FilePart:
    if part.text is not None:
        return TextPart(text=part.text)
    if part.raw is not None:
        check_base64(part.raw)
        if part.media_type.startswith("image/"):
            return ImagePart(data=part.raw, media_type=part.media_type, name=part.filename)
        return FilePart(data=part.raw, media_type=part.media_type, filename=part.filename)
    if part.url is not None:
        raise CallRefused(A2aCode.CONTENT_TYPE_NOT_SUPPORTED, "Files are taken as bytes (raw), not by an address (url)")
    return TextPart(text=msgspec.json.encode(part.data).decode())


def answers_of(message: A2aInput, waits: list[WaitView]) -> dict[str, CallerAnswer]:
    """Returns the answers to the calls that wait: data parts with a `waitId`, or one text for all that have none.

    A text approves a call only if it is `approve`; any other denies it, and is the reason.
    """
    answers: dict[str, CallerAnswer] = {}
    for part in message.parts:
        if isinstance(part.data, dict) and isinstance(part.data.get("waitId"), str):
            decision = part.data.get("decision", "answer")
            if decision not in _DECISIONS:
                raise InvalidInput(f"decision must be one of {', '.join(_DECISIONS)}")
            changed, reason = part.data.get("input"), part.data.get("reason")
            answers[part.data["waitId"]] = CallerAnswer(
                decision=decision,
                result=part.data.get("result"),
                input=changed if isinstance(changed, dict) else None,
                reason=reason if isinstance(reason, str) else None,
            )
    text = "\n".join(part.text for part in message.parts if part.text is not None)
    for wait in waits if text else ():
        if wait.wait_id not in answers:
            answers[wait.wait_id] = _text_answer(wait, text)
    return answers


def _text_answer(wait: WaitView, text: str) -> CallerAnswer:
    if wait.kind not in ("approval", "consent"):
        return CallerAnswer(decision="answer", result=text)
    return CallerAnswer(decision="approve") if text.strip().lower() == "approve" else CallerAnswer(decision="deny", reason=text)
