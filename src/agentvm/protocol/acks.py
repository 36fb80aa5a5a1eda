"""Acks — how far one client has certainly read, for those who come back under the same name.

Frames arrive in the order they were sent, so an acknowledgement covers everything before it too. What was told and is not
acknowledged may or may not have arrived; it is kept, up to a bound. Beyond the bound nothing is certain any more, and nothing
is claimed: the client will be sent nothing again, rather than something wrong.
"""

from collections import deque

from agentvm.model.ids import SessionId

MAX_PENDING = 4_096
"""Events sent and not acknowledged."""

MAX_SESSIONS = 20_000


class Acks:
    """What one connection has acknowledged. Frames are known by the number in their `__msgId`."""

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
        """The last event of the session that was acknowledged, or the one before the first; None if nothing was told."""
        return self._cursors.get(session_id)

    def begin(self, session_id: SessionId, seq: int) -> None:
        """What is told of the session follows this event. Said again it changes nothing."""
        if not self.stopped:
            self._cursors.setdefault(session_id, seq)
            if len(self._cursors) > MAX_SESSIONS:
                self.stop()

    def restart(self, session_id: SessionId, seq: int) -> None:
        """The client has asked for the session from here on, whatever it acknowledged before."""
        if session_id in self._cursors:
            self._cursors[session_id] = seq
            self._pending = deque(sent for sent in self._pending if sent[1] != session_id)

    def sent(self, number: int, session_id: SessionId, seq: int) -> None:
        if self.stopped:
            return
        if len(self._pending) >= MAX_PENDING:
            self.stop()
            return
        self._pending.append((number, session_id, seq))

    def acknowledge(self, number: int) -> None:
        """Everything up to that frame has arrived."""
        self.heard = max(self.heard, number)
        while self._pending and self._pending[0][0] <= number:
            _, session_id, seq = self._pending.popleft()
            self._cursors[session_id] = seq

    def stop(self) -> None:
        """From here on nothing is known of this connection."""
        self.stopped = True
        self._cursors.clear()
        self._pending.clear()
