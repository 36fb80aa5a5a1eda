"""Weighing — the most tokens that a prompt can have, for the reservation before a call. Pure.

A token has at least one byte, so text has at most as many tokens as bytes. Images and documents count as the most that their
provider counts for one; a document that cannot be opened here as the whole of the model's window.
"""

import base64
import re
import zlib
from collections.abc import Sequence
from itertools import islice

import msgspec

from agentvm.drivers.base import AssistantEntry, ConversationEntry, Prompt, ToolResultsEntry, UserEntry
from agentvm.drivers.conversation import encode_tools, rendered_parts, split_data_url
from agentvm.drivers.output_schema import output_instruction
from agentvm.model.attachment import is_text, is_url
from agentvm.model.message import ContentOutput, FilePart, ImagePart, ProviderContent, TextPart, ToolOutput, UserPart
from agentvm.model.provider_tool import uses_of

PROMPT_TOKENS = 50
"""Around the messages of a prompt."""

ENTRY_TOKENS = 20
"""Around one message, tool call or result."""

TOOLS_TOKENS = 600
"""Providers tell a model that has tools how to use them; Anthropic's text is the longest, of up to 530 tokens."""

PAGE_TOKENS = 8_000
"""Tokens of one page of a PDF: up to 3,000 of its text, by the provider's own documentation, and 4,800 of its image."""

SCANNED_BYTES_MAX = 4 * 1024 * 1024
"""Maximum bytes of PDFs in one prompt whose pages are counted, because counting blocks the event loop. The rest counts as a
whole window."""

STREAMS_MAX = 64
"""Compressed objects of a PDF that are looked into; a document with more counts as a whole window."""

ESCAPES_MAX = 10_000
"""Escaped characters of names in a PDF, likewise."""

HEAD_BYTES_MAX = 2_000
"""Between the name of a compressed object and its bytes."""

IMAGE_TOKENS: dict[str, tuple[tuple[str, int], ...]] = {
    "anthropic": (("", 4_800),),
    "openai": (("gpt-4o-mini", 48_200), ("gpt-", 4_000), ("chatgpt-", 4_000), ("o1", 4_000), ("o3", 4_000), ("o4", 4_000)),
}
"""The most that one picture counts, by driver and how the model's name begins."""

ANY_IMAGE_TOKENS = 16_400
"""Tokens of an image with any other model: those of the open models that cut images finest."""

_EMBEDDED = "smollm2-135m"
"""The default embedded model, which is told of no tools."""
_REASONS = re.compile(r"o\d|gpt-[5-9]")
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_COUNT = re.compile(rb"/Count\s+(\d{1,6})")
_ESCAPED = re.compile(rb"#([0-9A-Fa-f]{2})")


def most_of_text(entries: Sequence[ConversationEntry]) -> int:
    """More tokens than these can have, which hold no files."""
    return sum(_entry_tokens(entry, 0, 0, _Budget()) for entry in entries)


def most_input(prompt: Prompt, *, driver: str, window: int, conversation: int | None = None) -> int:
    """More tokens than the prompt can have; `conversation` is the most of its conversation, if that is known already.

    Its attachments must be filled in.
    """
    image, budget = image_tokens(driver, prompt.model), _Budget()
    total = PROMPT_TOKENS + _bytes(prompt.system or "") + _bytes(prompt.begun)
    if prompt.output is not None:
        # Told to the model, and given to the provider besides, which may tell it in its own words.
        total += 2 * (_bytes(output_instruction(prompt.output)) + TOOLS_TOKENS)
    if conversation is None:
        conversation = sum(_entry_tokens(entry, image, window, budget) for entry in prompt.conversation)
    total += conversation
    total += TOOLS_TOKENS * len(prompt.provider_tools)
    if prompt.tools and not (driver == "local" and prompt.model == _EMBEDDED):
        total += TOOLS_TOKENS + len(encode_tools(prompt.tools)) + ENTRY_TOKENS * len(prompt.tools)
    return total


def most_searches(prompt: Prompt) -> int:
    """Returns the most searches that the provider makes by itself in one call."""
    return sum(uses_of(tool.options) for tool in prompt.provider_tools if tool.type.startswith("web_search"))


def hidden_tokens(prompt: Prompt, *, driver: str) -> int:
    """Returns the most tokens that a model may think with and not show: they are charged, but in no piece of its answer."""
    return prompt.max_tokens if driver == "openai" and _REASONS.match(prompt.model.rpartition("/")[2]) else 0


def count_pages(data: str) -> int | None:
    """The pages of a PDF in base64; None when they cannot be counted."""
    if len(data) > SCANNED_BYTES_MAX:
        return None
    try:
        body = base64.b64decode(data, validate=True)
    except ValueError:
        return None
    if not body.startswith(b"%PDF"):
        return None
    named = _unescape(body)
    if named is None or b"/Encrypt" in named:
        return None
    objects = _unpack(named)
    if objects is None:
        return None
    parts = (named, *(_unescape(raw) or raw for raw in objects))
    pages = sum(len(_PAGE.findall(part)) for part in parts)
    # A page may be used several times, and the tree of pages says how many there are then.
    counts = (int(count) for part in parts for count in _COUNT.findall(part))
    return max((pages, *counts)) or None


def _unescape(body: bytes) -> bytes | None:
    """Decodes names as readers do: any character of a name may be written as its number. None for too many."""
    if b"#" not in body:
        return body
    escapes = list(islice(_ESCAPED.finditer(body), ESCAPES_MAX + 1))
    if len(escapes) > ESCAPES_MAX:
        return None
    pieces: list[bytes] = []
    last = 0
    for match in escapes:
        pieces += (body[last : match.start()], bytes((int(match[1], 16),)))
        last = match.end()
    # Beside the original bytes: compressed data contains some escapes by chance, and replacing them would hide its content.
    return body + b"\n" + b"".join((*pieces, body[last:])) if escapes else body


def _unpack(body: bytes) -> list[bytes] | None:
    """The objects that are stored together and compressed, which pages may be among; None when they cannot be read."""
    bodies: list[bytes] = []
    left, at = SCANNED_BYTES_MAX, body.find(b"/ObjStm")
    while at >= 0:
        begin = body.find(b"stream", at, at + HEAD_BYTES_MAX)
        end = body.find(b"endstream", begin + len(b"stream"))
        if begin < 0 or end < 0 or len(bodies) == STREAMS_MAX:
            return None
        inflating = zlib.decompressobj()
        try:
            objects = inflating.decompress(body[begin + len(b"stream") : end].lstrip(b"\r\n"), left)
        except zlib.error:
            return None
        left -= len(objects)
        if left <= 0 or not inflating.eof:
            return None
        bodies.append(objects)
        at = body.find(b"/ObjStm", end)
    return bodies


class _Budget:
    """Bytes of documents that may still be looked into for one prompt."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = SCANNED_BYTES_MAX

    def pages(self, data: str) -> int | None:
        self.left -= len(data)
        return count_pages(data) if self.left >= 0 else None


def _entry_tokens(entry: ConversationEntry, image: int, window: int, budget: _Budget) -> int:
    match entry:
        case UserEntry(content=str(text)):
            return ENTRY_TOKENS + _bytes(text)
        case UserEntry(content=tuple(parts)):
            return ENTRY_TOKENS + sum(ENTRY_TOKENS + _part(part, image, window, budget) for part in parts)
        case AssistantEntry(provider_content=ProviderContent(blocks=blocks), tool_calls=calls):
            return ENTRY_TOKENS + _bytes(blocks) + sum(2 * ENTRY_TOKENS + len(msgspec.json.encode(call)) for call in calls)
        case AssistantEntry(text=text, thinking=thinking, tool_calls=calls):
            if not thinking and not calls:
                return ENTRY_TOKENS + _bytes(text)
            # A signature holds the thinking in a form that only the provider can read.
            thought = sum(_bytes(part.reasoning) + len(part.signature or "") for part in thinking)
            calls_tokens = sum(2 * ENTRY_TOKENS + len(msgspec.json.encode(call)) for call in calls)
            return ENTRY_TOKENS + _bytes(text) + thought + calls_tokens
        case ToolResultsEntry(results=results):
            return sum(
                ENTRY_TOKENS + _bytes(result.id) + _bytes(result.name) + _output(result.output, image, window, budget)
                for result in results
            )
        case _:
            raise AssertionError(entry)


def _output(output: ToolOutput, image: int, window: int, budget: _Budget) -> int:
    if not isinstance(output, ContentOutput):
        return _bytes(output.text)
    # A picture may stand in a message of its own, under a line that names its tool.
    return sum(2 * ENTRY_TOKENS + _part(part, image, window, budget) for part in rendered_parts(output))


def _part(part: UserPart, image: int, window: int, budget: _Budget) -> int:
    # Measured in the form that a provider is sent, not by the size that a part claims.
    match split_data_url(part):
        case TextPart(text=text):
            return _bytes(text)
        case ImagePart():
            return image
        case FilePart(data=data, media_type=media_type, filename=filename):
            if is_url(data):
                return window
            if is_text(media_type):
                return len(data) + _bytes(filename or "")
            pages = budget.pages(data) if media_type == "application/pdf" else None
            return window if pages is None else min(window, pages * PAGE_TOKENS)


def image_tokens(driver: str, model: str) -> int:
    """Returns the most that one picture counts with a model."""
    name = model.rpartition("/")[2]
    matches = (tokens for prefix, tokens in IMAGE_TOKENS.get(driver, ()) if name.startswith(prefix))
    return next(matches, ANY_IMAGE_TOKENS)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
