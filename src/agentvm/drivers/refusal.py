"""Refusal — the part of a prompt that a provider refuses, as far as its error says so. Pure.

Providers name an entry of `messages` by its number, and a part of it: `messages.3.content.1.image` for Anthropic,
`messages[3].content[1].image_url` or the same with dots for OpenAI. The builder of the request knows the origin of each
number.
"""

import re
from collections.abc import Sequence
from typing import Literal

from agentvm.errors import ProviderBadRequest

MessageOrigin = tuple[int | None, tuple[int | None, ...]]
"""The origin of an entry of a request: the number of the conversation entry, and the number of the part behind each block."""

RefusalKind = Literal["media", "tools", "unknown"]
"""The refused part: images and files, tool calls, or unknown."""

_PLACE = re.compile(r"\bmessages\.?\[?(\d+)\]?(?:\.content\.?\[?(\d+)\]?)?")
_MEDIA = re.compile(
    r"(?i)\b(images?|pictures?|photos?|pdfs?|documents?|files?|media[ _]?types?|mime|base64|audio|video|image_url|file_data)\b"
)
_TOOLS = re.compile(r"(?i)\b(tool_use|tool_result|tool_calls?|tool_call_id|tool_use_id|function_call|role 'tool')")
# About the request as a whole: no entry is at fault, and leaving one out would not help.
_UNRELATED = re.compile(
    r"(?i)context[ _](length|window|size)|too long|too many tokens|max(imum)?[ _](completion[ _])?tokens|temperature|credit|"
    r"billing|quota|\bmodel\b.*(not (exist|found|support)|unknown|invalid|decommissioned|deprecat)|api[ _-]?version"
)
_UNRELATED_REASONS = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_not_found",
        "not_found_error",
        "unsupported_parameter",
        "unknown_parameter",
        "string_above_max_length",
        "invalid_prompt",
        "content_policy_violation",
        "content_filter",
    }
)


def explain(error: ProviderBadRequest, origins: Sequence[MessageOrigin]) -> None:
    """Adds to the error the entry and the kind that it names, if it does."""
    _locate(error, origins)
    error.kind = _kind_of(error)


def _locate(error: ProviderBadRequest, origins: Sequence[MessageOrigin]) -> None:
    match = _PLACE.search(error.param) or _PLACE.search(error.provider_message)
    if match is None:
        return
    number = int(match[1])
    if number >= len(origins):
        return
    entry, parts = origins[number]
    if entry is None:
        return
    block = None if match[2] is None else int(match[2])
    error.place = (entry, parts[block] if block is not None and block < len(parts) else None)


def _kind_of(error: ProviderBadRequest) -> RefusalKind | None:
    if error.place is None and (error.reason in _UNRELATED_REASONS or not error.provider_message):
        return None
    if error.place is None and _UNRELATED.search(error.provider_message):
        return None
    if _TOOLS.search(f"{error.provider_message} {error.param}"):
        return "tools"
    return "media" if _MEDIA.search(f"{error.provider_message} {error.param} {error.reason.replace('_', ' ')}") else "unknown"
