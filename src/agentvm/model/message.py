"""Message — one entry of a session's history, in the shape AgentX 1.x clients read and show.

`subtype` tells the five kinds apart. A tool call names its parent, the assistant message of the same model
call; a tool result names its call.
"""

from typing import Literal

import msgspec

from agentvm.errors import InvalidInput
from agentvm.model.base import Record
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.usage import Usage


class TextPart(Record, tag="text", tag_field="type"):
    text: str


class ImagePart(Record, tag="image", tag_field="type"):
    """`data` is bare base64, an http(s) URL, or a reference to an uploaded file: `attachment:sha256:…`."""

    data: str
    media_type: str
    name: str | None = None


class FilePart(Record, tag="file", tag_field="type"):
    """`data` is bare base64, an http(s) URL, or a reference to an uploaded file: `attachment:sha256:…`."""

    data: str
    media_type: str
    filename: str | None = None


class ThinkingPart(Record, tag="thinking", tag_field="type"):
    """Reasoning of a model. `signature` lets the provider recognise its own reasoning when it is sent back."""

    reasoning: str
    signature: str | None = None


UserPart = TextPart | ImagePart | FilePart
UserContent = str | tuple[UserPart, ...]
AssistantPart = TextPart | ThinkingPart


class ToolCall(Record, tag="tool-call", tag_field="type"):
    id: str
    name: str
    input: dict[str, object]


OutputType = Literal["text", "error-text", "execution-denied"]


class ToolOutput(Record):
    type: OutputType
    value: str


class ToolResult(Record, tag="tool-result", tag_field="type"):
    id: str
    name: str
    output: ToolOutput
    tainted: bool = False
    """A stranger's text: it came from beyond this server."""


class _MessageBase(Record, tag_field="subtype"):
    """`turn_id` says which turn a message belongs to: a queued message is stored before the turn ahead of it has ended."""

    id: MessageId
    timestamp: int
    turn_id: TurnId | None = None


# `role` is a required member although its value is fixed: a default would be left out of the JSON.


class UserMessage(_MessageBase, tag="user"):
    role: Literal["user"]
    content: UserContent


class AssistantMessage(_MessageBase, tag="assistant"):
    role: Literal["assistant"]
    content: tuple[AssistantPart, ...]
    usage: Usage | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


class ToolCallMessage(_MessageBase, tag="tool-call"):
    role: Literal["assistant"]
    tool_call: ToolCall
    parent_id: MessageId


class ToolResultMessage(_MessageBase, tag="tool-result"):
    role: Literal["tool"]
    tool_call_id: str
    tool_result: ToolResult


class ErrorMessage(_MessageBase, tag="error"):
    role: Literal["error"]
    content: str
    error_code: str


Message = UserMessage | AssistantMessage | ToolCallMessage | ToolResultMessage | ErrorMessage

_URL_MAX = 10_000
"""Characters of data that may be other than ASCII: an address may be, base64 is not."""


def measure(content: UserContent) -> tuple[int, int]:
    """Returns the bytes of text in a user's message, and the bytes of images and files inside it.

    `InvalidInput` for data that is not base64: as a text it would take four times the memory.
    """
    if isinstance(content, str):
        return _size(content), 0
    text = inline = 0
    for part in content:
        match part:
            case TextPart():
                text += _size(part.text)
            case ImagePart(data=data, name=name) | FilePart(data=data, filename=name):
                if len(data) > _URL_MAX and not data.isascii():
                    raise InvalidInput("The data of an image or a file must be base64, an http(s) URL or an attachment")
                inline += len(data)
                text += _size(name or "") + _size(part.media_type)
    return text, inline


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def content_size(content: UserContent) -> int:
    """Returns the approximate characters of user content: texts, and the data of parts."""
    if isinstance(content, str):
        return len(content)
    return sum(len(part.text if isinstance(part, TextPart) else part.data) for part in content)


def rough_size(message: Message) -> int:
    """Returns the approximate bytes of a message in memory; cheap for any message."""
    match message:
        case UserMessage(content=str(text)) | ErrorMessage(content=text):
            return len(text)
        case UserMessage(content=parts):
            return sum(
                len(part.text if isinstance(part, TextPart) else part.data) for part in parts if not isinstance(part, str)
            )
        case AssistantMessage(content=parts):
            return sum(len(part.text if isinstance(part, TextPart) else part.reasoning) for part in parts)
        case ToolResultMessage(tool_result=result):
            return len(result.output.value)
        case ToolCallMessage():
            return 0


def encode_message(message: Message) -> bytes:
    return _encoder.encode(message)


def decode_message(body: bytes | str) -> Message:
    return _decoder.decode(body)


def repair_text(text: str) -> str:
    """The same text, except that half of a surrogate pair, which neither can carry, becomes the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
