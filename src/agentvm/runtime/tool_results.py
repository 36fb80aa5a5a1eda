"""Tool results — what a tool gave becomes what a message holds: checked, limited, and with its bytes stored."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from agentvm.errors import AgentVMError, ToolFailed
from agentvm.model.attachment import ATTACHMENT_NAME_MAX, check_media_type, reference_to
from agentvm.model.message import FilePart, ImagePart, LinkPart, OutputPart, TextPart, repair_text
from agentvm.resources.schema import misfits
from agentvm.runtime.calls import ToolOutcome
from agentvm.tools.base import (
    IMAGE_MAX_BYTES,
    IMAGES_MAX,
    RESULT_MAX_BYTES,
    CallResult,
    ResultFile,
    ResultImage,
    ResultLink,
    ResultPart,
    ResultText,
    sound,
)

PARTS_MAX = 200
QUOTED_MAX = 500
"""Characters of a result that does not fit its schema, in the error."""
SEEN_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types of pictures that models are shown; any other picture is a file."""

StoreFile = Callable[[bytes, str, str | None], Awaitable[str]]
"""Stores bytes, with their media type and their name, as an attachment; returns its digest."""

Spill = Callable[[bytes], Awaitable[str | None]]
"""Stores a long result as a file of the session; returns its path, None if there is nowhere to store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultKeeper:
    """Turns the results of one call into outcomes."""

    name: str
    output_max: int
    """Characters of text that the model is told."""
    file_max_bytes: int
    store: StoreFile
    spill: Spill
    output_schema: Mapping[str, object] | None = None

    async def keep(self, result: CallResult) -> ToolOutcome:
        """Returns the outcome of a result; `ToolFailed` for one that cannot be kept, with a text for the model."""
        if result.type == "content":
            return await self._content(result.parts)
        text = encode_result(self.name, result.value)
        if len(text) > RESULT_MAX_BYTES:
            raise ToolFailed(f"{self.name} answered with more than {RESULT_MAX_BYTES // 2**20} MiB")
        if self.output_schema is not None and not result.is_error:
            self._check(result.value, text)
        return await self._cut(result.value, text, is_error=result.is_error)

    def _check(self, value: object, text: str) -> None:
        faults = misfits("outputSchema", self.output_schema or {}, value)
        if faults:
            why = "; ".join(map(str, faults))
            raise ToolFailed(f"The result of {self.name} does not fit its outputSchema: {why}. It was: {_quoted(text)}")

    async def _cut(self, value: object, text: str, *, is_error: bool) -> ToolOutcome:
        if len(text) <= self.output_max:
            return ToolOutcome(text if isinstance(value, str) else value, is_error)
        path = await self.spill(text.encode())
        return ToolOutcome(cut(text, self.output_max, path), is_error)

    async def _content(self, parts: tuple[ResultPart, ...]) -> ToolOutcome:
        if len(parts) > PARTS_MAX:
            raise ToolFailed(f"{self.name} answered with more than {PARTS_MAX} parts")
        if sum(isinstance(part, ResultImage) for part in parts) > IMAGES_MAX:
            raise ToolFailed(f"{self.name} answered with more than {IMAGES_MAX} images")
        if sum(map(_size, parts)) > RESULT_MAX_BYTES:
            raise ToolFailed(f"{self.name} answered with more than {RESULT_MAX_BYTES // 2**20} MiB")
        accepted: list[OutputPart] = []
        left = self.output_max
        for part in parts:
            accepted.append(await self._part(part, left))
            left -= len(accepted[-1].text) if isinstance(accepted[-1], TextPart) else 0
        return ToolOutcome("", False, parts=tuple(accepted)) if accepted else ToolOutcome("", False)

    async def _part(self, part: ResultPart, left: int) -> OutputPart:
        match part:
            case ResultText(text=text):
                whole = sound(text)
                spilled = await self.spill(whole.encode()) if len(whole) > left else None
                return TextPart(text=cut(whole, max(0, left), spilled))
            case ResultLink(uri=uri, name=name):
                return LinkPart(uri=sound(uri), name=name)
            case ResultImage(data=data, media_type=media_type) if media_type in SEEN_TYPES:
                if len(data) > IMAGE_MAX_BYTES:
                    raise ToolFailed(f"{self.name} answered with an image of more than {IMAGE_MAX_BYTES // 2**20} MiB")
                return ImagePart(data=await self._stored(data, media_type, None), media_type=media_type)
            case ResultImage(data=data, media_type=media_type):
                return FilePart(data=await self._stored(data, media_type, None), media_type=media_type)
            case ResultFile(data=data, media_type=media_type, name=name):
                name = _file_name(name)
                return FilePart(data=await self._stored(data, media_type, name), media_type=media_type, filename=name)

    async def _stored(self, data: bytes, media_type: str, name: str | None) -> str:
        if not data:
            raise ToolFailed(f"{self.name} answered with an empty file")
        if len(data) > self.file_max_bytes:
            raise ToolFailed(f"{self.name} answered with a file of more than {self.file_max_bytes} bytes")
        try:
            return reference_to(await self.store(data, check_media_type(media_type), name))
        except AgentVMError as error:
            raise ToolFailed(f"A file of the result cannot be stored: {error}") from None


def encode_result(name: str, value: object) -> str:
    """Returns a result as text that JSON can carry; `ToolFailed` if it is no JSON, which could fail the turn."""
    if isinstance(value, str):
        return sound(value)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolFailed(f"{name} returned a result that is not JSON: {type(error).__name__}") from None


def cut(text: str, output_max: int, path: str | None = None) -> str:
    """Returns as much of the text as is kept; a note says what is missing, and where the rest is."""
    if len(text) <= output_max:
        return repair_text(text)
    rest = f"; all of it is in the file {path}" if path else ""
    return f"{repair_text(text[:output_max])}\n[cut off: the result has {len(text)} characters{rest}]"


def _quoted(text: str) -> str:
    return text if len(text) <= QUOTED_MAX else f"{text[:QUOTED_MAX]}…"


def _size(part: ResultPart) -> int:
    match part:
        case ResultText(text=text):
            return len(text)
        case ResultLink(uri=uri):
            return len(uri)
        case ResultImage(data=data) | ResultFile(data=data):
            return len(data)


def _file_name(name: str | None) -> str | None:
    """Returns a name that can be shown and sent in headers."""
    printable = "".join(character for character in name or "" if character.isprintable()).strip()
    return printable[:ATTACHMENT_NAME_MAX] or None
