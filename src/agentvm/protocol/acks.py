"""Acks — the last event that a named client has certainly read, for its next connection.

Frames arrive in the order they were sent, so an acknowledgement covers everything before it too. A frame without an
acknowledgement may or may not have arrived; it is remembered, up to a bound. Beyond the bound the position is unknown: no
event is sent again, rather than a wrong one.
"""

from collections import deque

from agentvm.model.ids import SessionId

PENDING_FRAMES_MAX = 4_096
"""Events sent and not acknowledged."""

ACKED_SESSIONS_MAX = 20_000


class Acks:
    """The acknowledgements of one connection. Frames are identified by the number in their `__msgId`."""

    __slots__ = ("_cursors", "_pending", "heard", "stopped")

    def __init__(self) -> None:
        self.heard = 0
        """The last frame that was acknowledged."""
        self.stopped = False
        self._cursors: dict[SessionId, int] = {}
        self._pending: deque[tuple[int, SessionId, int]] = deque()

    @property
    def pending(self) -> int:
        return len(self._pending)

    def cursor(self, session_id: SessionId) -> int | None:
        """Returns the last acknowledged event of the session, or the one before the first; None if none was sent."""
        return self._cursors.get(session_id)

    def begin(self, session_id: SessionId, seq: int) -> None:
        """Starts the session after this event. Repeating it changes nothing."""
        if not self.stopped:
            self._cursors.setdefault(session_id, seq)
            if len(self._cursors) > ACKED_SESSIONS_MAX:
                self.stop()

    def restart(self, session_id: SessionId, seq: int) -> None:
        """Restarts the session where the client asked, even before an acknowledged event."""
        if session_id in self._cursors:
            self._cursors[session_id] = seq
            self._pending = deque(sent for sent in self._pending if sent[1] != session_id)

    def sent(self, number: int, session_id: SessionId, seq: int) -> None:
        if self.stopped:
            return
        if len(self._pending) >= PENDING_FRAMES_MAX:
            self.stop()
            return
        self._pending.append((number, session_id, seq))

    def acknowledge(self, number: int) -> None:
        """Records that everything up to that frame has arrived."""
        self.heard = max(self.heard, number)
        while self._pending and self._pending[0][0] <= number:
            _, session_id, seq = self._pending.popleft()
            self._cursors[session_id] = seq

    def stop(self) -> None:
        """Stops the account of this connection."""
        self.stopped = True
        self._cursors.clear()
        self._pending.clear()
