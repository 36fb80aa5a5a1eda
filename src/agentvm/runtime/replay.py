"""Replay — the events a subscriber has missed, from memory while the turn runs and from the log afterwards."""

import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from agentvm.errors import RecordUnreadable, SessionNotFound
from agentvm.events.base import Event
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.model.message import Message, encode_message
from agentvm.protocol.codec import Frame
from agentvm.runtime.channel import Encode
from agentvm.runtime.chunk import decode_events, named_messages, open_chunk
from agentvm.runtime.pages import Pages, ReplayPage
from agentvm.runtime.session_log import SessionLog
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.storage.base import LogChunk
from agentvm.storage.sql.log import LogStore
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

OpenLog = Callable[[TenantId, ContainerId, SessionId], Awaitable[SessionLog]]
OpenMirror = Callable[[TenantId, ContainerId, SessionId, int], Awaitable[SessionLog]]

PAGE_EVENTS_MAX = 500
"""Events handed out at a time."""


@dataclass(frozen=True, slots=True)
class Missed:
    """`last` is the end of the log; `events` follow the asker's cursor without a gap, and there are none if `lost`."""

    events: list[Event]
    last: int
    lost: bool = False
    """The events right after the cursor are no longer there, or the cursor is from another history."""
    page: ReplayPage | None = None
    """The page that the events are from."""

    def frames(self, encode: Encode) -> list[Frame | None]:
        """Returns the events in a dialect."""
        if self.page is None or not self.events:
            return [encode(event) for event in self.events]
        start = self.events[0].seq - self.page.events[0].seq
        return self.page.frames(start, start + len(self.events), encode)


class Replay:
    """Reads the events after a cursor."""

    def __init__(
        self,
        store: Store,
        find_log: Callable[[TenantId, SessionId], SessionLog | None],
        open_log: OpenLog | None = None,
    ) -> None:
        """With `open_log`, logs that were read a moment ago stay in memory, and are read again without the store."""
        self._store = store
        self._find_log = find_log
        self._open_log = open_log
        self.mirror: OpenMirror | None = None
        """In a cluster: opens the log of a session with the events of another node, at least up to a cursor."""
        self.refresh: OpenLog | None = None
        """In a cluster: opens the log of a session with all that the database has of it now."""
        self._pages = Pages()
        self._reading: KeyedLock[tuple[TenantId, SessionId]] = KeyedLock()

    def read_nowait(self, tenant_id: TenantId, session_id: SessionId, after: int) -> Missed | None:
        """Returns the next page after the cursor if it is in memory."""
        log = self._find_log(tenant_id, session_id)
        if log is None:
            return None
        if after == log.committed:
            return Missed([], after)
        if log.tail and log.tail[0].seq <= after + 1 <= log.committed:
            start = after + 1 - log.tail[0].seq
            events = [event for event in log.tail[start : start + PAGE_EVENTS_MAX] if event.seq <= log.committed]
            return Missed(events, log.committed)
        page = self._pages.find(tenant_id, session_id, after + 1)
        return None if page is None else _part(page, after, log.committed)

    async def read(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, after: int) -> Missed:
        """The next page after the cursor. `SessionNotFound` if the session is gone."""
        page = await self._read(tenant_id, container_id, session_id, after)
        if page is None:
            # While one place was looked at, what is asked for may have gone from it to the other: once more.
            page = await self._read(tenant_id, container_id, session_id, after)
        return page or Missed([], self.last(tenant_id, session_id) or after, lost=True)

    async def _read(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, after: int) -> Missed | None:
        """None when they are in neither place, although events follow the cursor."""
        missed = self.read_nowait(tenant_id, session_id, after)
        if missed is not None:
            return missed
        # One reads, the others wait and find it read.
        async with self._reading.hold((tenant_id, session_id)):
            missed = self.read_nowait(tenant_id, session_id, after)
            return missed or await self._read_stored(tenant_id, container_id, session_id, after)

    async def _read_stored(
        self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, after: int
    ) -> Missed | None:
        mirrored = None if self.mirror is None else await self.mirror(tenant_id, container_id, session_id, after)
        if mirrored is not None and (missed := self.read_nowait(tenant_id, session_id, after)) is not None:
            return missed
        log = self._store.tenant(tenant_id).container(container_id).log(session_id)
        first, last = await log.range()
        live = self._find_log(tenant_id, session_id)
        end = last if live is None else max(last, live.committed)
        if after > end and mirrored is not None:
            # Told by another node, and on its way from the journal of that one into the log.
            return None
        if after > end or after < first - 1:
            return Missed([], end, lost=True)
        try:
            page = self._pages.find(tenant_id, session_id, after + 1)
            if page is None:
                live = None if self._open_log is None else await self._open_log(tenant_id, container_id, session_id)
                for chunk in await log.read(after, 1):
                    page = await _decode(log, chunk, tenant_id, session_id, live)
                    self._pages.add(tenant_id, session_id, page)
        except RecordUnreadable as error:
            logger.error("log_unreadable", session_id=session_id, after=after, error=str(error))
            return Missed([], end, lost=True)
        except SessionNotFound:
            # Gone with its session, which is then not there; or because it was too old to be kept.
            await log.range()
            return Missed([], end, lost=True)
        if page is None:
            return Missed([], end) if after >= end else None
        if page.events[0].seq > after + 1:
            # Something in between could not be read.
            return Missed([], end, lost=True)
        return _part(page, after, end)

    async def has_more(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, after: int) -> bool:
        """Asks the database whether another node has stored events after the cursor that have not arrived here."""
        return self.refresh is not None and (await self.refresh(tenant_id, container_id, session_id)).committed > after

    def forget(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """The session was deleted: nothing of it is kept."""
        self._pages.forget(tenant_id, session_id)

    def is_current(self, tenant_id: TenantId, session_id: SessionId, cursor: int, last: int) -> bool:
        """Whether nothing more was told than the cursor says, as far as is known without waiting."""
        log = self._find_log(tenant_id, session_id)
        return cursor >= (last if log is None else log.committed)

    def last(self, tenant_id: TenantId, session_id: SessionId) -> int | None:
        """The last event that was told, if the session's log is in memory."""
        log = self._find_log(tenant_id, session_id)
        return None if log is None else log.committed


def _part(page: ReplayPage, after: int, last: int) -> Missed:
    start = after + 1 - page.events[0].seq
    return Missed(page.events[start : start + PAGE_EVENTS_MAX], last, page=page)


async def _decode(
    log: LogStore, chunk: LogChunk, tenant_id: TenantId, session_id: SessionId, live: SessionLog | None
) -> ReplayPage:
    """`RecordUnreadable` if the stored chunk is damaged; `SessionNotFound` if its session was deleted."""
    if not chunk.body:
        raise SessionNotFound(session_id)
    try:
        body = open_chunk(chunk.body)
        named = named_messages(body)
    except (zlib.error, msgspec.DecodeError) as error:
        raise RecordUnreadable(f"A part of the log cannot be read: {error}") from error
    messages: dict[str, Message] = {message.id: message for message in await log.get_messages(named)}
    if len(messages) < len(named):
        # Deleted, perhaps between the two reads.
        raise SessionNotFound(session_id)
    content = len(body) + sum(len(encode_message(message)) for message in messages.values())
    try:
        return ReplayPage(decode_events(body, tenant_id, messages), content, live)
    except (msgspec.DecodeError, KeyError, IndexError) as error:
        raise RecordUnreadable(f"A part of the log cannot be read: {error!r}") from error
