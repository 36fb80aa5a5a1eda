"""Channel — carries frames to one peer. A peer that cannot keep up is cut off, not waited for."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from agentvm.model.principal import Principal
from agentvm.protocol.codec import Frame

MAX_FRAMES = 4_096
MAX_BYTES = 4 * 1024 * 1024
"""What may wait for one peer, in characters."""

LARGE = 256 * 1024
MAX_LARGE = 256 * 1024 * 1024
"""Frames this large are few: a history, a picture. They have a bound of their own, or one would cut off the deltas after it."""


@dataclass(frozen=True, slots=True)
class Closing:
    """Why a channel ends; `code` is a WebSocket close code."""

    code: int
    reason: str


TOO_SLOW = Closing(1013, "client too slow")
GOING_AWAY = Closing(1001, "server shutting down")
GONE = Closing(1000, "peer gone")


class Channel:
    """One peer's bounded outbox. Replies and events share it, so the peer sees one ordered stream."""

    __slots__ = ("_bytes", "_closing", "_frames", "_large", "_wakeup", "mirror", "on_close", "principal")

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.mirror: Channel | None = None
        """Hears everything this peer is sent; with a bound of its own, so a slow observer harms only itself."""
        self._frames: deque[Frame] = deque()
        self._bytes = self._large = 0
        self._closing: Closing | None = None
        self._wakeup = anyio.Event()
        self.on_close: Callable[[], None] | None = None
        """Called once, when the channel closes; frames may still wait to be taken."""

    @property
    def closing(self) -> Closing | None:
        return self._closing

    def send(self, frame: Frame) -> None:
        """Queues the frame; never waits. After the end, frames go nowhere."""
        if self._closing is not None:
            return
        if self.mirror is not None:
            self.mirror.send(frame)
        size = len(frame.bare)
        if size > LARGE:
            self._large += size
        else:
            self._bytes += size
        if len(self._frames) >= MAX_FRAMES or self._bytes > MAX_BYTES or self._large > MAX_LARGE:
            self._frames.clear()
            self.close(TOO_SLOW)
            return
        self._frames.append(frame)
        self._wakeup.set()

    def close(self, closing: Closing) -> None:
        """The first reason wins; frames already queued are still delivered, except to a peer that is too slow."""
        if self._closing is None:
            self._closing = closing
            self._wakeup.set()
            if self.on_close is not None:
                self.on_close()

    async def take(self) -> list[Frame]:
        """Everything that waits, as soon as there is something; empty once the channel is closed and drained."""
        while not self._frames and self._closing is None:
            self._wakeup = anyio.Event()
            await self._wakeup.wait()
        return self.take_nowait()

    def take_nowait(self) -> list[Frame]:
        frames = list(self._frames)
        self._frames.clear()
        self._bytes = self._large = 0
        return frames
