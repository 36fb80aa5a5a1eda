"""Transcript — exchanges as text, for a model that summarizes them. Pure.

It leaves out thinking, and has only the beginning and the end of the inputs and results of tools.
"""

from collections.abc import Sequence

import msgspec

from agentvm.model.message import (
    AssistantMessage,
    ErrorMessage,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolCallMessage,
    ToolResultMessage,
    UserContent,
    UserMessage,
)
from agentvm.model.usage import estimate_tokens

TOOL_INPUT_MAX_BYTES = 400
"""Bytes of a tool's input."""
TOOL_RESULT_MAX_BYTES = 1_500
"""Bytes of a tool's result."""
_GAP = " […] "


def transcribe(exchange: Sequence[Message]) -> str:
    """Returns the text of one exchange."""
    return "\n\n".join(line for message in exchange if (line := _line(message)))


def take(exchanges: Sequence[Sequence[Message]], room: int) -> tuple[int, str]:
    """Returns how many of the first exchanges fit into `room` tokens, and their text. One at least, shortened if need be."""
    texts: list[str] = []
    left = room
    for exchange in exchanges:
        text = transcribe(exchange)
        left -= estimate_tokens(text) + 1
        if texts and left < 0:
            break
        texts.append(text)
    return len(texts), shorten("\n\n".join(texts), 3 * room)


def shorten(text: str, most: int) -> str:
    """Returns at most that many bytes: of a longer text the beginning and the end."""
    body = text.encode()
    if len(body) <= most:
        return text
    room = max(most - len(_GAP.encode()), 0)
    head, tail = body[: room - room // 3], body[len(body) - room // 3 :]
    return f"{head.decode(errors='ignore')}{_GAP}{tail.decode(errors='ignore')}"


def _line(message: Message) -> str:
    match message:
        case UserMessage(content=content):
            return f"User: {_content(content)}"
        case AssistantMessage(text=text):
            return f"Assistant: {text}" if text.strip() else ""
        case ToolCallMessage(tool_call=call):
            return f"Assistant calls {call.name}: {shorten(msgspec.json.encode(call.input).decode(), TOOL_INPUT_MAX_BYTES)}"
        case ToolResultMessage(tool_result=result):
            return f"{result.name} answers: {shorten(result.output.text, TOOL_RESULT_MAX_BYTES)}"
        case ErrorMessage(error_code=code):
            return f"The answer failed: {code}"


def _content(content: UserContent) -> str:
    return content if isinstance(content, str) else "\n".join(_part(part) for part in content)


def _part(part: TextPart | ImagePart | FilePart) -> str:
    match part:
        case TextPart(text=text):
            return text
        case ImagePart(name=name):
            return f"[image {name or ''}]".replace(" ]", "]")
        case FilePart(filename=name):
            return f"[file {name or ''}]".replace(" ]", "]")
