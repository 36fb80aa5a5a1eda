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

_encoder = msgspec.json.Encoder()


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


class ProviderContent(Record):
    """A message as its provider wrote it, with the results of the provider's own tools. Opaque: it goes back unchanged."""

    provider: str
    """The only provider that it is sent to."""
    blocks: str
    """A JSON array."""
    container: str | None = None
    """The provider's name for the sandbox of the message."""


class ToolCall(Record, tag="tool-call", tag_field="type"):
    id: str
    name: str
    input: dict[str, object]
    problem: str | None = None
    """Why the input that the model wrote cannot be used. `input` is empty then, and the tool does not run."""
    by_provider: bool = False
    """Whether the provider of the model ran it: it is part of the message that called it, and has no event of its own."""


class LinkPart(Record, tag="link", tag_field="type"):
    """An address that a tool names. It has not been fetched."""

    uri: str
    name: str | None = None


OutputPart = TextPart | ImagePart | FilePart | LinkPart


class _Output(Record, tag_field="type"):
    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)


class _OutputOfText(_Output):
    value: str

    @property
    def text(self) -> str:
        return self.value


class _OutputOfJson(_Output):
    value: object

    @property
    def text(self) -> str:
        return _encoder.encode(self.value).decode()


class TextOutput(_OutputOfText, tag="text"):
    pass


class ErrorTextOutput(_OutputOfText, tag="error-text"):
    pass


class JsonOutput(_OutputOfJson, tag="json"):
    pass


class ErrorJsonOutput(_OutputOfJson, tag="error-json"):
    pass


class ContentOutput(_Output, tag="content"):
    """Texts, pictures and files in the order of the tool. Bytes are attachments of the container: `attachment:sha256:…`."""

    value: tuple[OutputPart, ...]

    @property
    def text(self) -> str:
        """The texts, with a note in place of each picture and file."""
        return "\n".join(map(shown_part, self.value))


class DeniedOutput(_Output, tag="execution-denied"):
    """The call was not made. Servers before `reason` wrote the same into `value`."""

    reason: str = ""
    value: str = ""

    @property
    def text(self) -> str:
        return self.reason or self.value


ToolOutput = TextOutput | JsonOutput | ContentOutput | ErrorTextOutput | ErrorJsonOutput | DeniedOutput
"""The result of a call in the shapes of AgentX 2.x."""


class ToolResult(Record, tag="tool-result", tag_field="type"):
    id: str
    name: str
    output: ToolOutput
    tainted: bool = False
    """Untrusted text: it came from beyond this server."""
    agent: str | None = None
    """The agent that answers from here on, by its URI; empty for the image itself. Absent unless the call was a handoff."""


class _MessageBase(Record, tag_field="subtype"):
    """`turn_id` says which turn a message belongs to: a queued message is stored before the turn ahead of it has ended."""

    id: MessageId
    timestamp: int
    turn_id: TurnId | None = None


# `role` is a required member although its value is fixed: a default would be left out of the JSON.


class UserMessage(_MessageBase, tag="user"):
    role: Literal["user"]
    content: UserContent
    tainted: bool = False
    """Whether it contains untrusted text: the body of a trigger."""


class Citation(Record):
    """A passage that an answer names as `[n]`; `cite` opens exactly its range."""

    n: int
    cite: str


class AssistantMessage(_MessageBase, tag="assistant"):
    role: Literal["assistant"]
    content: tuple[AssistantPart, ...]
    usage: Usage | None = None
    provider_content: ProviderContent | None = None
    citations: tuple[Citation, ...] | None = None
    """Passages of knowledge bases that the text names, of those that its turn received."""

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


def is_foreign(message: Message) -> bool:
    """Returns whether a message contains untrusted text: a result from outside this server, or the body of a trigger."""
    match message:
        case ToolResultMessage(tool_result=result):
            return result.tainted
        case UserMessage(tainted=tainted):
            return tainted
        case _:
            return False


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
        case AssistantMessage(content=parts, provider_content=provider):
            own = 0 if provider is None else len(provider.blocks)
            return own + sum(len(part.text if isinstance(part, TextPart) else part.reasoning) for part in parts)
        case ToolResultMessage(tool_result=result):
            return _output_size(result.output)
        case ToolCallMessage():
            return 0


def _output_size(output: ToolOutput) -> int:
    match output:
        case TextOutput(value=text) | ErrorTextOutput(value=text):
            return len(text)
        case _:
            return len(output.text)


def shown_part(part: OutputPart) -> str:
    """Returns a part as text; a picture or a file by its name and type, and how to refer to it."""
    match part:
        case TextPart(text=text):
            return text
        case LinkPart(uri=uri, name=name):
            return f"{name}: {uri}" if name else uri
        case ImagePart(media_type=media_type, data=data, name=name) | FilePart(media_type=media_type, data=data, filename=name):
            about = ", ".join(text for text in (name, media_type) if text)
            return f"[{about}: {data}]" if data.startswith("attachment:") else f"[{about}]"


def is_failure(output: ToolOutput) -> bool:
    """Returns whether the call failed, or was not made."""
    return isinstance(output, ErrorTextOutput | ErrorJsonOutput)


def parts_of(message: Message) -> tuple[OutputPart, ...]:
    """Returns the parts of a message that may be pictures and files: those of its sender, or of a tool's result."""
    match message:
        case UserMessage(content=tuple(parts)):
            return parts
        case ToolResultMessage(tool_result=ToolResult(output=ContentOutput(value=parts))):
            return parts
        case _:
            return ()


def with_parts(message: Message, parts: tuple[OutputPart, ...]) -> Message:
    """Returns the message with other parts in place of `parts_of`."""
    match message:
        case UserMessage():
            return msgspec.structs.replace(message, content=parts)
        case ToolResultMessage(tool_result=result):
            output = ContentOutput(value=parts)
            return msgspec.structs.replace(message, tool_result=msgspec.structs.replace(result, output=output))
        case _:
            return message


def encode_message(message: Message) -> bytes:
    return _encoder.encode(message)


def decode_message(body: bytes | str) -> Message:
    return _decoder.decode(body)


def repair_text(text: str) -> str:
    """The same text, except that half of a surrogate pair, which neither can carry, becomes the replacement character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
