"""Pages — a cache of log pages: when thousands of clients reconnect, each page is read once, and encoded once per dialect."""

from collections import OrderedDict

from agentvm.events.base import Event
from agentvm.model.ids import SessionId, TenantId
from agentvm.protocol.codec import Frame
from agentvm.runtime.channel import Encode
from agentvm.runtime.session_log import SessionLog

PAGES_MAX_BYTES = 32 * 1024 * 1024
"""Kept of all pages together, about; a page of more than a quarter of it is not kept."""

EVENT_BYTES = 1_100
"""Memory of a short event with its two frames, the bare and the quoted."""

COPIES_FACTOR = 3
"""The text of an event is in memory this many times: in the event and in both of its frames."""


_UNMADE = Frame("")
"""A frame that was not requested yet."""


class ReplayPage:
    """The events of one chunk of a log, and their frames as far as they were requested."""

    __slots__ = ("_frames", "_log", "events", "size")

    def __init__(self, events: list[Event], content: int, log: SessionLog | None = None) -> None:
        """`content` is how many bytes of text, pictures and the like the events hold.

        A `log` stays in memory as long as the page does, so that it is known where the log ends without a look at the store.
        """
        self.events = events
        self.size = EVENT_BYTES * len(events) + COPIES_FACTOR * content
        """Bytes that it takes at most, about: frames are made later, and counted from the beginning."""
        self._log = log
        self._frames: dict[Encode, list[Frame | None]] = {}

    def frames(self, start: int, stop: int, encode: Encode) -> list[Frame | None]:
        """Returns these of its events in a dialect, each encoded when it is first asked for."""
        frames = self._frames.get(encode)
        if frames is None:
            frames = self._frames[encode] = [_UNMADE] * len(self.events)
        part = frames[start:stop]
        if _UNMADE in part:
            part = frames[start:stop] = [
                encode(event) if frame is _UNMADE else frame for frame, event in zip(part, self.events[start:stop], strict=True)
            ]
        return part


class Pages:
    """The pages that were used last. A log never changes where it was written, so they are never wrong."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[TenantId, SessionId], list[ReplayPage]] = OrderedDict()
        self._bytes = 0

    def find(self, tenant_id: TenantId, session_id: SessionId, seq: int) -> ReplayPage | None:
        """The one with this event."""
        key = (tenant_id, session_id)
        for page in self._sessions.get(key, ()):
            if page.events[0].seq <= seq <= page.events[-1].seq:
                self._sessions.move_to_end(key)
                return page
        return None

    def add(self, tenant_id: TenantId, session_id: SessionId, page: ReplayPage) -> None:
        if page.size > PAGES_MAX_BYTES // 4 or self.find(tenant_id, session_id, page.events[0].seq) is not None:
            return
        self._sessions.setdefault((tenant_id, session_id), []).append(page)
        self._sessions.move_to_end((tenant_id, session_id))
        self._bytes += page.size
        while self._bytes > PAGES_MAX_BYTES:
            oldest, left = next(iter(self._sessions.items()))
            self._bytes -= left.pop(0).size
            if not left:
                del self._sessions[oldest]

    def forget(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """The session was deleted."""
        self._bytes -= sum(page.size for page in self._sessions.pop((tenant_id, session_id), ()))
