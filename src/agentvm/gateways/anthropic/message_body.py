"""Message body — a request of the Messages API: the most that it can use, and its changes on the way. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec

from agentvm.drivers.weighing import ENTRY_TOKENS, IMAGE_TOKENS, PAGE_TOKENS, PROMPT_TOKENS, TOOLS_TOKENS, count_pages
from agentvm.gateways.relaying import members_of
from agentvm.gateways.routes import Lenient
from agentvm.model.provider_tool import uses_of

MODEL_MAX = 256
NESTED_MAX = 8
"""Levels of blocks inside blocks; providers take fewer."""
_PICTURE_TOKENS = IMAGE_TOKENS["anthropic"][0][1]


class MessageEntry(Lenient, frozen=True):
    content: Any = ""
    """A text, or blocks of many kinds; the provider checks them."""


class MessageTool(Lenient, frozen=True):
    type: str | None = None
    max_uses: int | None = None


class MessagesBody(Lenient, frozen=True):
    """A request for a message, or for the number of its tokens."""

    model: str
    messages: tuple[MessageEntry, ...]
    max_tokens: int | None = None
    stream: bool = False
    tools: tuple[MessageTool, ...] = ()


def most_input(body: MessagesBody, size: int, window: int) -> int:
    """Returns more tokens than the request can have: a token has at least a byte, and files count by their kind."""
    weight, spared = 0, 0
    for kind, source in (file for entry in body.messages for file in _files(entry.content, NESTED_MAX)):
        data = source.get("data")
        text = data if isinstance(data, str) else ""
        if kind == "image":
            weight, spared = weight + _PICTURE_TOKENS, spared + len(text)
        elif source.get("type") not in ("text", "content"):
            pages = count_pages(text) if text else None
            weight, spared = weight + (window if pages is None else min(window, pages * PAGE_TOKENS)), spared + len(text)
    around = PROMPT_TOKENS + ENTRY_TOKENS * len(body.messages) + TOOLS_TOKENS * len(body.tools)
    return around + max(0, size - spared) + weight


def most_searches(body: MessagesBody) -> int:
    """Returns how often the provider may search by itself."""
    searching = (tool for tool in body.tools if (tool.type or "").startswith("web_search"))
    return sum(uses_of({} if tool.max_uses is None else {"max_uses": tool.max_uses}) for tool in searching)


def rewritten(content: bytes, model: str, end_user: str | None) -> bytes:
    """Returns the request for its provider: all as it was but the name of the model and, with `end_user`, of the user."""
    members = members_of(content)
    members["model"] = msgspec.Raw(msgspec.json.encode(model))
    if end_user is not None:
        members["metadata"] = msgspec.Raw(msgspec.json.encode({"user_id": end_user}))
    return msgspec.json.encode(members)


def _files(content: Any, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the kind and the source of each picture and document, also of those inside results and documents."""
    if not isinstance(content, list) or not depth:
        return
    for block in content:
        if not isinstance(block, dict):
            continue
        source = block.get("source")
        if isinstance(source, dict):
            yield str(block.get("type")), source
            yield from _files(source.get("content"), depth - 1)
        yield from _files(block.get("content"), depth - 1)
