"""Pages — parts of logs that were read a moment ago: when thousands come back at once, each part is read and encoded once."""

from collections import OrderedDict

from agentvm.events.base import Event
from agentvm.model.ids import SessionId, TenantId
from agentvm.protocol.codec import Frame
from agentvm.protocol.dialect_v1 import encode_told

MOST_EVENTS = 20_000
"""Kept of all pages together; a few tens of megabytes."""


class Page:
    """The events of one chunk of a log, and their frames as far as somebody has asked for them."""

    __slots__ = ("_frames", "events")

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self._frames: dict[int, Frame] = {}

    def frame(self, event: Event) -> Frame:
        found = self._frames.get(event.seq)
        if found is None:
            found = self._frames[event.seq] = encode_told(event)
        return found


class Pages:
    """The pages that were used last. A log never changes where it was written, so they are never wrong."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[TenantId, SessionId], list[Page]] = OrderedDict()
        self._events = 0

    def find(self, tenant_id: TenantId, session_id: SessionId, seq: int) -> Page | None:
        """The one with this event."""
        key = (tenant_id, session_id)
        for page in self._sessions.get(key, ()):
            if page.events[0].seq <= seq <= page.events[-1].seq:
                self._sessions.move_to_end(key)
                return page
        return None

    def add(self, tenant_id: TenantId, session_id: SessionId, page: Page) -> None:
        if len(page.events) > MOST_EVENTS or self.find(tenant_id, session_id, page.events[0].seq) is not None:
            return
        self._sessions.setdefault((tenant_id, session_id), []).append(page)
        self._sessions.move_to_end((tenant_id, session_id))
        self._events += len(page.events)
        while self._events > MOST_EVENTS:
            oldest, left = next(iter(self._sessions.items()))
            self._events -= len(left.pop(0).events)
            if not left:
                del self._sessions[oldest]
