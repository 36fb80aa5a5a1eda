"""Index — the search entries of a message: facts, in the commit that stores it, and words, which may follow (`pending`).

Theory of operation. The index knows words and places, not texts. Every word is stored with the key of its container as a
prefix, so a search reads, counts and weighs only its own container. Messages of people and models are indexed completely,
results of tools by their beginning.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.message import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCallMessage,
    ToolResultMessage,
    UserMessage,
    decode_message,
)
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.sessions.plain_text import plain_text
from agentvm.storage.sql.words import terms

logger = get_logger(__name__)

TOOL_CHARACTERS = 2_000
"""Characters of a tool's result that can be found."""
PREVIEW_CHARACTERS = 140
"""Characters of the last message that lists show."""
COUNTED = ("assistant", "error")
"""Kinds of messages that count as unread."""

_ADD_FACTS = "INSERT INTO message_facts (position, session_key, at, kind, tool) VALUES (?, ?, ?, ?, ?)"
_ADD_PENDING = "INSERT INTO search_pending (position, session_key, tenant_id) VALUES (?, ?, ?)"
_BACKLOG = "SELECT next FROM search_backlog"
_SOME = """
SELECT m.position, m.session_key, s.tenant_id, m.body
FROM messages AS m JOIN sessions AS s ON s.session_key = m.session_key
WHERE m.position <= ? ORDER BY m.position DESC LIMIT ?
"""
_KNOWN = "SELECT 1 FROM message_facts WHERE position = ?"
_SET_PREVIEW = "UPDATE sessions SET preview = ? WHERE session_key = ? AND preview IS NULL"


class Entry(msgspec.Struct, frozen=True):
    """The facts and the text of a message for the index."""

    at: int
    kind: str
    tool: str | None
    text: str

    @property
    def preview(self) -> str | None:
        """The beginning of the text, for lists; None for tool messages."""
        if self.kind not in ("user", "assistant"):
            return None
        text = self.text[: 4 * PREVIEW_CHARACTERS]
        if self.kind == "assistant":
            text = plain_text(text)
        return " ".join(text.split())[:PREVIEW_CHARACTERS] or None


def preview_of(entries: Sequence[Entry]) -> str | None:
    """The preview of the last message that has one."""
    return next((preview for entry in reversed(entries) if (preview := entry.preview) is not None), None)


def key_of(tenant_id: TenantId, container_id: ContainerId) -> str:
    """The prefix of all words of a container."""
    named = f"{len(tenant_id)}:{tenant_id}:{container_id}"
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def entry_of(message: Message) -> Entry:
    """`silent` is an assistant's message without text, to which its tool calls refer."""
    at = message.timestamp
    match message:
        case UserMessage(content=str(text)):
            return Entry(at, "user", None, text)
        case UserMessage(content=parts):
            return Entry(at, "user", None, "\n".join(part.text for part in parts if isinstance(part, TextPart)))
        case AssistantMessage(text=text):
            return Entry(at, "assistant" if text.strip() else "silent", None, text)
        case ToolCallMessage(tool_call=call):
            return Entry(at, "tool-call", call.name, "")
        case ToolResultMessage(tool_result=result):
            return Entry(at, "tool-result", result.name, result.output.text[:TOOL_CHARACTERS])
        case _:
            return Entry(at, "error", None, "")


def words_of(container: str, text: str) -> str:
    """A text as the index takes it; `container` is the key of its container. '' for one without words."""
    cut = terms(text) if text else ()
    return container + f" {container}".join(cut) if cut else ""


def index(
    connection: Connection, tenant_id: TenantId, position: int, session_key: int, entry: Entry, words: str | None = None
) -> None:
    """Puts one message in; without `words`, these follow. They are cut before: all tenants share the writer."""
    connection.execute(_ADD_FACTS, (position, session_key, entry.at, entry.kind, entry.tool))
    if words:
        connection.search.add_messages([(position, words)])
    elif words is None and entry.text:
        connection.execute(_ADD_PENDING, (position, session_key, tenant_id))


def index_older(connection: Connection, limit: int) -> bool:
    """Notes the next messages from before there was a search, the newest first. Whether there may be more."""
    cut = connection.fetch(_BACKLOG)
    if not cut:
        return False
    messages = connection.fetch(_SOME, (cut[0][0], limit))
    for position, session_key, tenant_id, body in reversed(messages):
        # A place that was free again was given to a message that is in already.
        if not connection.fetch(_KNOWN, (position,)):
            _take_in(connection, tenant_id, position, session_key, body)
    _fill_previews(connection, messages)
    if len(messages) < limit:
        connection.execute("DELETE FROM search_backlog")
        return False
    connection.execute("UPDATE search_backlog SET next = ?", (messages[-1][0] - 1,))
    return True


def tend(connection: Connection, limit: int) -> bool:
    """Notes older messages, or merges small pieces of the index. Whether there may be more.

    A commit only adds to the index. So this has to be done every now and then, or a search has many pieces to look at.
    """
    if index_older(connection, limit):
        return True
    return connection.search.merge("messages", limit)


def _take_in(connection: Connection, tenant_id: TenantId, position: int, session_key: int, body: bytes) -> None:
    try:
        index(connection, tenant_id, position, session_key, entry_of(decode_message(body)))
    except msgspec.DecodeError as error:
        # It cannot be read anywhere else either; the others must not be kept from being found.
        logger.warning("message_not_indexed", position=position, error=str(error))


def _fill_previews(connection: Connection, newest_first: Sequence[tuple[Any, ...]]) -> None:
    for _, session_key, _, body in newest_first:
        try:
            preview = entry_of(decode_message(body)).preview
        except msgspec.DecodeError:
            continue
        if preview is not None:
            connection.execute(_SET_PREVIEW, (preview, session_key))
