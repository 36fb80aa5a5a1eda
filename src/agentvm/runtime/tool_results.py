"""Tool results — converts the result of a tool into a message: validated, limited, and with its bytes stored."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from agentvm.errors import AgentVMError, ToolFailed
from agentvm.model.attachment import ATTACHMENT_NAME_MAX, check_media_type, reference_to
from agentvm.model.long_json import unfolded
from agentvm.model.message import FilePart, ImagePart, LinkPart, OutputPart, TextPart, repair_text
from agentvm.resources.schema import misfits
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.tool_input import DEPTH_MAX, depth_of, depth_of_text
from agentvm.sharing.large_work import go_through
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
    plain_text,
)

PARTS_MAX = 200
QUOTED_MAX = 2_000
"""Characters of a result that does not fit its schema, in the error."""
UNFOLDED_MAX_CHARACTERS = 1024 * 1024
"""Characters of JSON that become objects; more stays text."""
SEEN_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types of pictures that models are shown; any other picture is a file."""

_ESCAPED = re.compile(r"\\(?:u00[01]|[bf])|[\x7f-\x9f]")
"""Control characters in the text of JSON, other than tabs and line breaks; or a backslash before the text of one."""
_PIECE = re.compile(r"\\u00[01][0-9a-f]|\\.|[\x7f-\x9f]")
"""A character of the text of JSON that is not written as it is, or a control character."""

StoreFile = Callable[[bytes, str, str | None], Awaitable[str]]
"""Stores bytes, with their media type and their name, as an attachment; returns its digest."""

Spill = Callable[[bytes], Awaitable[str | None]]
"""Stores a long result as a file of the session; returns its path, None if there is nowhere to store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultKeeper:
    """Turns the results of one call into outcomes."""

    name: str
    owner: str
    """The tenant; results that are large are gone through in turn."""
    output_max: int
    """Characters of text that the model receives."""
    file_max_bytes: int
    store: StoreFile
    spill: Spill
    output_schema: Mapping[str, object] | None = None

    async def keep(self, result: CallResult) -> ToolOutcome:
        """Returns the outcome of a result; `ToolFailed` for one that cannot be kept, with a text for the model."""
        if result.type == "content":
            if self.output_schema is not None:
                text = encode_result(self.name, result.value)
                await go_through(self.owner, len(text), partial(self._check, result.value, text))
            return await self._content(result.parts)
        text = encode_result(self.name, result.value)
        if len(text) > RESULT_MAX_BYTES:
            raise ToolFailed(f"{self.name} answered with more than {RESULT_MAX_BYTES // 2**20} MiB")
        value, text = await go_through(self.owner, len(text), partial(self._plain, result, text))
        return await self._cut(value, text, is_error=result.is_error)

    def _plain(self, result: CallResult, text: str) -> tuple[object, str]:
        """Returns a result without control characters, and the same as text."""
        value: object = text
        if not isinstance(result.value, str):
            value, text = plain_json(result.value, text)
            if isinstance(value, msgspec.Raw) and len(text) <= UNFOLDED_MAX_CHARACTERS:
                value = self._unfolded(value)
                text = encode_result(self.name, value)
            if self._depth(value, text) > DEPTH_MAX:
                raise ToolFailed(f"{self.name} answered with JSON that is nested more than {DEPTH_MAX} levels deep")
        if self.output_schema is not None and not result.is_error:
            self._check(value, text)
        return value, text

    def _unfolded(self, value: object) -> object:
        try:
            return unfolded(value)
        except ValueError as error:
            raise ToolFailed(f"{self.name} answered with JSON that cannot be read: {error}") from None

    def _depth(self, value: object, text: str) -> int:
        if not isinstance(value, msgspec.Raw):
            return depth_of(value)
        return depth_of_text(text) if len(text) <= self.output_max else 0

    def _check(self, value: object, text: str) -> None:
        faults = misfits("outputSchema", self.output_schema or {}, self._unfolded(value))
        if faults:
            why = "; ".join(map(str, faults))
            raise ToolFailed(f"The result of {self.name} does not fit its outputSchema: {why}. It was: {_quoted(text)}")

    async def _cut(self, value: object, text: str, *, is_error: bool) -> ToolOutcome:
        if len(text) <= self.output_max:
            return ToolOutcome(value, is_error)
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
                whole = plain_text(text)
                spilled = await self.spill(whole.encode()) if len(whole) > left else None
                return TextPart(text=cut(whole, max(0, left), spilled))
            case ResultLink(uri=uri, name=name):
                return LinkPart(uri=plain_text(uri), name=None if name is None else plain_text(name))
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
        return plain_text(value)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolFailed(f"{name} returned a result that is not JSON: {type(error).__name__}") from None


def plain_json(value: object, text: str) -> tuple[object, str]:
    """Returns a value without control characters, and the same as text; `text` is the value in JSON."""
    if _ESCAPED.search(text) is None:
        return value, text
    text = _PIECE.sub(_without_control, text)
    return msgspec.Raw(text.encode()), text


def _without_control(piece: re.Match[str]) -> str:
    return piece[0] if piece[0][0] == "\\" and piece[0][1] not in "ubf" else ""


def cut(text: str, output_max: int, path: str | None = None) -> str:
    """Returns as much of the text as is kept; a note gives the length of the rest, and its place."""
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
