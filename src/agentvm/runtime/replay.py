"""Replay — the events a subscriber has missed, from memory while the turn runs and from the log afterwards."""

from collections.abc import Callable
from dataclasses import dataclass

from agentvm.errors import SessionNotFound
from agentvm.events.base import Event
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.model.message import Message
from agentvm.runtime.chunk import decode_events, named_messages, open_chunk
from agentvm.runtime.session_log import SessionLog
from agentvm.storage.base import Store

PAGE = 500
"""Events handed out at a time."""


@dataclass(frozen=True, slots=True)
class Missed:
    """`last` is the end of the log; `events` follow the asker's cursor without a gap, and there are none if `lost`."""

    events: list[Event]
    last: int
    lost: bool = False
    """The events right after the cursor are no longer there, or the cursor is from another history."""


class Replay:
    """Reads what happened after a cursor."""

    def __init__(self, store: Store, find_log: Callable[[TenantId, SessionId], SessionLog | None]) -> None:
        self._store = store
        self._find_log = find_log

    async def read(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, after: int) -> Missed:
        """The next page after the cursor. `SessionNotFound` if the session is gone."""
        found = self._from_memory(tenant_id, session_id, after)
        if found is not None:
            return found
        log = self._store.tenant(tenant_id).container(container_id).log(session_id)
        first, last = await log.range()
        live = self._find_log(tenant_id, session_id)
        end = last if live is None else max(last, live.committed)
        if after > end or after < first - 1:
            return Missed([], end, lost=True)
        events: list[Event] = []
        for chunk in await log.read(after, 1):
            body = open_chunk(chunk.body)
            named = named_messages(body)
            messages: dict[str, Message] = {message.id: message for message in await log.get_messages(named)}
            if len(messages) < len(named):
                # Deleted between the two reads: messages go only with their session.
                raise SessionNotFound(session_id)
            events += decode_events(body, tenant_id, messages)
        events = [event for event in events if event.seq > after]
        if events and events[0].seq > after + 1:
            # Something in between could not be read.
            return Missed([], end, lost=True)
        return Missed(events[:PAGE], end)

    def is_current(self, tenant_id: TenantId, session_id: SessionId, cursor: int, last: int) -> bool:
        """Whether nothing more was told than the cursor says, as far as is known without waiting."""
        log = self._find_log(tenant_id, session_id)
        return cursor >= (last if log is None else log.committed)

    def last(self, tenant_id: TenantId, session_id: SessionId) -> int | None:
        """The last event that was told, if the session's log is in memory."""
        log = self._find_log(tenant_id, session_id)
        return None if log is None else log.committed

    def _from_memory(self, tenant_id: TenantId, session_id: SessionId, after: int) -> Missed | None:
        log = self._find_log(tenant_id, session_id)
        if log is None:
            return None
        if after == log.committed:
            return Missed([], after)
        if not log.tail or not log.tail[0].seq <= after + 1 <= log.committed:
            return None
        start = after + 1 - log.tail[0].seq
        told = [event for event in log.tail[start : start + PAGE] if event.seq <= log.committed]
        return Missed(told, log.committed)
