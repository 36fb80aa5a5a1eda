"""Message pages — the messages of a session, as many at a time as memory and a frame hold.

Theory of operation. Nearly all sessions are small and are read at once. For a large one, bytes are reserved in the byte budget
first, because a page is in memory several times over until it is encoded. A single message may be larger than a page: it is
returned alone, if it fits into a frame.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agentvm.errors.bounds import InputTooLarge
from agentvm.model.ids import SessionId
from agentvm.model.message import Message
from agentvm.protocol.codec import FRAME_MAX_BYTES
from agentvm.sharing.reservation import RequestReservation
from agentvm.storage.sessions import PAGE_BYTES, MessagePage, MessageQuery

if TYPE_CHECKING:
    from agentvm.storage.sql.container import ContainerStore

SMALL_BYTES = 256 * 1024
"""A history up to this size is read without a reservation."""
HISTORY_BYTES = 32 * 1024 * 1024
HISTORY_MESSAGES = 20_000
"""Bounds of the newest messages that are read at once: a 1.x client shows the images of a conversation from this reply."""

PAGE_RESERVED_BYTES = 3 * PAGE_BYTES
HISTORY_RESERVED_BYTES = 2 * HISTORY_BYTES
MESSAGE_RESERVED_BYTES = 2 * FRAME_MAX_BYTES
"""Bytes to reserve. Content beyond a page is mostly base64, which is no larger as text than as a row."""


async def read_recent(
    reservation: RequestReservation, store: "ContainerStore", session_id: SessionId
) -> tuple[tuple[Message, ...], bool]:
    """Returns the newest messages, oldest first, and whether some were left out."""
    for max_bytes, reserved in ((SMALL_BYTES, 0), (PAGE_BYTES, PAGE_RESERVED_BYTES), (HISTORY_BYTES, HISTORY_RESERVED_BYTES)):
        await reservation.grow(reserved)
        messages, truncated = await store.list_recent_messages(session_id, max_bytes, limit=HISTORY_MESSAGES, strict=True)
        if not truncated or len(messages) >= HISTORY_MESSAGES:
            return messages, truncated
    if not messages:
        await reservation.grow(MESSAGE_RESERVED_BYTES)
        messages, truncated = await store.list_recent_messages(session_id, FRAME_MAX_BYTES, limit=1, strict=True)
    return messages, truncated


async def read_page(
    reservation: RequestReservation, read: Callable[[MessageQuery], Awaitable[MessagePage]], query: MessageQuery
) -> MessagePage:
    """Returns a page of messages; where they are large, fewer than the query allows."""
    page = await read(replace(query, max_bytes=SMALL_BYTES, strict=True))
    if page.cut:
        await reservation.grow(PAGE_RESERVED_BYTES)
        page = await read(replace(query, max_bytes=PAGE_BYTES, strict=True))
    if page.cut and not page.messages:
        await reservation.grow(MESSAGE_RESERVED_BYTES)
        page = await read(replace(query, limit=1, max_bytes=FRAME_MAX_BYTES, strict=True))
    if page.cut and not page.messages:
        raise InputTooLarge(f"The next message has more than {FRAME_MAX_BYTES:,} bytes; export the session to read it")
    return page
