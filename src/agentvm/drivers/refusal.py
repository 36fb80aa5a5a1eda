"""Refusal — what of a prompt a provider does not take, as far as its error says so. Pure.

Providers name an entry of `messages` by its number, and a part of it: `messages.3.content.1.image` says Anthropic,
`messages[3].content[1].image_url` or the same with dots OpenAI. Who made the request knows what these numbers stand for.
"""

import re
from collections.abc import Sequence
from typing import Literal

from agentvm.errors import ProviderBadRequest

MessageOrigin = tuple[int | None, tuple[int | None, ...]]
"""Where an entry of a request came from: the number of what was said, and the number of the part behind each of its blocks."""

RefusalKind = Literal["media", "tools", "unknown"]
"""What is refused: pictures and files, calls of tools, or something that the error does not tell."""

_PLACE = re.compile(r"\bmessages\.?\[?(\d+)\]?(?:\.content\.?\[?(\d+)\]?)?")
_MEDIA = re.compile(
    r"(?i)\b(images?|pictures?|photos?|pdfs?|documents?|files?|media[ _]?types?|mime|base64|audio|video|image_url|file_data)\b"
)
_TOOLS = re.compile(r"(?i)\b(tool_use|tool_result|tool_calls?|tool_call_id|tool_use_id|function_call|role 'tool')")
# About the request as a whole: nothing that was said is to blame, and nothing that is left out would help.
_ELSEWHERE = re.compile(
    r"(?i)context[ _](length|window|size)|too long|too many tokens|max(imum)?[ _](completion[ _])?tokens|temperature|credit|"
    r"billing|quota|\bmodel\b.*(not (exist|found|support)|unknown|invalid|decommissioned|deprecat)|api[ _-]?version"
)
_ELSEWHERE_REASONS = frozenset(
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
    """Notes in the error what of the prompt it names, if it does, and what it is about."""
    _locate(error, origins)
    error.kind = _kind_of(error)


def _locate(error: ProviderBadRequest, origins: Sequence[MessageOrigin]) -> None:
    found = _PLACE.search(error.param) or _PLACE.search(error.said)
    if found is None:
        return
    number = int(found[1])
    if number >= len(origins):
        return
    said, parts = origins[number]
    if said is None:
        return
    block = None if found[2] is None else int(found[2])
    error.place = (said, parts[block] if block is not None and block < len(parts) else None)


def _kind_of(error: ProviderBadRequest) -> RefusalKind | None:
    if error.place is None and (error.reason in _ELSEWHERE_REASONS or not error.said):
        return None
    if error.place is None and _ELSEWHERE.search(error.said):
        return None
    if _TOOLS.search(f"{error.said} {error.param}"):
        return "tools"
    return "media" if _MEDIA.search(f"{error.said} {error.param} {error.reason.replace('_', ' ')}") else "unknown"
