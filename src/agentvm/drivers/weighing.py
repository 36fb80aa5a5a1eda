"""Weighing — the most tokens that a prompt can have, for what is set aside before a call. Pure.

A token has at least one byte, so text has at most as many tokens as bytes. Pictures and documents are weighed as the most that
their provider counts for one; a document that nobody here can look into as all that fits into the model's window.
"""

import base64
import binascii
import re
import zlib

import msgspec

from agentvm.drivers.base import AssistantSaid, Prompt, Said, ToolsAnswered, UserSaid
from agentvm.model.attachment import is_text, is_url
from agentvm.model.message import FilePart, ImagePart, TextPart, UserPart

PROMPT_TOKENS = 50
"""Around the messages of a prompt."""

SAID_TOKENS = 20
"""Around one message, tool call or result."""

TOOLS_TOKENS = 600
"""Providers tell a model that has tools how to use them; Anthropic's text is the longest, of up to 530 tokens."""

PAGE_TOKENS = 8_000
"""Of one page of a PDF: up to 3,000 of its text, by the provider's own documentation, and 4,800 of its picture."""

SCANNED_BYTES_MAX = 8 * 1024 * 1024
"""Of a PDF whose pages are counted: the loop stands still meanwhile. A larger one counts as a whole window."""

IMAGE_TOKENS: dict[str, tuple[tuple[str, int], ...]] = {
    "anthropic": (("", 4_800),),
    "openai": (("gpt-4o-mini", 48_200), ("gpt-", 4_000), ("chatgpt-", 4_000), ("o1", 4_000), ("o3", 4_000), ("o4", 4_000)),
}
"""The most that one picture counts, by driver and how the model's name begins."""

ANY_IMAGE_TOKENS = 16_400
"""With any other model: that of the open models that cut pictures finest."""

_REASONS = re.compile(r"o\d|gpt-[5-9]")
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_COUNT = re.compile(rb"/Count\s+(\d{1,6})")
_PACKED = re.compile(rb"/ObjStm.{0,2000}?stream\r?\n", re.DOTALL)


def most_input(prompt: Prompt, *, driver: str, window: int) -> int:
    """More tokens than the prompt can have. Its attachments must be filled in."""
    image = _image_tokens(driver, prompt.model)
    total = PROMPT_TOKENS + _bytes(prompt.system or "") + sum(_said(said, image, window) for said in prompt.conversation)
    # The embedded model is told of no tools.
    if prompt.tools and driver != "local":
        total += TOOLS_TOKENS + len(msgspec.json.encode(prompt.tools)) + SAID_TOKENS * len(prompt.tools)
    return total


def hidden_tokens(prompt: Prompt, *, driver: str) -> int:
    """The most tokens that a model may think with and not show: those are in no piece of its answer, and are charged."""
    return prompt.max_tokens if driver == "openai" and _REASONS.match(prompt.model.rpartition("/")[2]) else 0


def count_pages(data: str) -> int | None:
    """The pages of a PDF in base64; None when they cannot be counted."""
    if len(data) > SCANNED_BYTES_MAX:
        return None
    try:
        body = base64.b64decode(data, validate=True)
    except binascii.Error:
        return None
    if not body.startswith(b"%PDF") or b"/Encrypt" in body:
        return None
    objects = _unpack(body)
    if objects is None:
        return None
    pages = sum(len(_PAGE.findall(part)) for part in (body, *objects))
    # A page may be used several times, and the tree of pages says how many there are then.
    counts = (int(count) for part in (body, *objects) for count in _COUNT.findall(part))
    return max((pages, *counts)) or None


def _unpack(body: bytes) -> list[bytes] | None:
    """The objects that are stored together and compressed, which pages may be among; None when they cannot be read."""
    found: list[bytes] = []
    left = SCANNED_BYTES_MAX
    for packed in _PACKED.finditer(body):
        inflating = zlib.decompressobj()
        try:
            objects = inflating.decompress(body[packed.end() :], left)
        except zlib.error:
            return None
        left -= len(objects)
        if left <= 0 or not inflating.eof:
            return None
        found.append(objects)
    return None if len(found) != body.count(b"/ObjStm") else found


def _said(said: Said, image: int, window: int) -> int:
    match said:
        case UserSaid(content=str(text)):
            return SAID_TOKENS + _bytes(text)
        case UserSaid(content=tuple(parts)):
            return SAID_TOKENS + sum(SAID_TOKENS + _part(part, image, window) for part in parts)
        case AssistantSaid(text=text, thinking=thinking, tool_calls=calls):
            # A signature holds what was thought, as only the provider can read it.
            thought = sum(_bytes(part.reasoning) + len(part.signature or "") for part in thinking)
            asked = sum(2 * SAID_TOKENS + len(msgspec.json.encode(call)) for call in calls)
            return SAID_TOKENS + _bytes(text) + thought + asked
        case ToolsAnswered(results=results):
            return sum(
                SAID_TOKENS + _bytes(result.id) + _bytes(result.name) + _bytes(result.output.value) for result in results
            )
        case _:
            raise AssertionError(said)


def _part(part: UserPart, image: int, window: int) -> int:
    match part:
        case TextPart(text=text):
            return _bytes(text)
        case ImagePart():
            return image
        case FilePart(data=data, media_type=media_type, filename=filename):
            if is_url(data):
                return window
            if is_text(media_type):
                return len(data) + _bytes(filename or "")
            pages = count_pages(data) if media_type == "application/pdf" else None
            return window if pages is None else min(window, pages * PAGE_TOKENS)


def _image_tokens(driver: str, model: str) -> int:
    name = model.rpartition("/")[2]
    found = (tokens for prefix, tokens in IMAGE_TOKENS.get(driver, ()) if name.startswith(prefix))
    return next(found, ANY_IMAGE_TOKENS)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
