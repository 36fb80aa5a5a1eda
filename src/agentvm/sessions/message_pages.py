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
"""Of the newest messages that are read at once: a 1.x client shows the pictures of a conversation from this one reply."""

ROOM_FOR_PAGE = 3 * PAGE_BYTES
ROOM_FOR_HISTORY = 2 * HISTORY_BYTES
ROOM_FOR_ONE = 2 * FRAME_MAX_BYTES
"""Bytes to reserve. What is larger than a page is mostly base64, which as a text is no larger than as a row."""


async def read_recent(
    room: RequestReservation, store: "ContainerStore", session_id: SessionId
) -> tuple[tuple[Message, ...], bool]:
    """The newest messages, oldest first, and whether some were left out."""
    for max_bytes, reserved in ((SMALL_BYTES, 0), (PAGE_BYTES, ROOM_FOR_PAGE), (HISTORY_BYTES, ROOM_FOR_HISTORY)):
        await room.grow(reserved)
        messages, truncated = await store.list_recent_messages(session_id, max_bytes, limit=HISTORY_MESSAGES, strict=True)
        if not truncated or len(messages) >= HISTORY_MESSAGES:
            return messages, truncated
    if not messages:
        await room.grow(ROOM_FOR_ONE)
        messages, truncated = await store.list_recent_messages(session_id, FRAME_MAX_BYTES, limit=1, strict=True)
    return messages, truncated


async def read_page(
    room: RequestReservation, read: Callable[[MessageQuery], Awaitable[MessagePage]], wanted: MessageQuery
) -> MessagePage:
    """A page of messages; where they are large, of fewer than `wanted` allows."""
    page = await read(replace(wanted, max_bytes=SMALL_BYTES, strict=True))
    if page.cut:
        await room.grow(ROOM_FOR_PAGE)
        page = await read(replace(wanted, max_bytes=PAGE_BYTES, strict=True))
    if page.cut and not page.messages:
        await room.grow(ROOM_FOR_ONE)
        page = await read(replace(wanted, limit=1, max_bytes=FRAME_MAX_BYTES, strict=True))
    if page.cut and not page.messages:
        raise InputTooLarge(f"The next message has more than {FRAME_MAX_BYTES:,} bytes; export the session to read it")
    return page
