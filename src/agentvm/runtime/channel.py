"""Channel — carries frames to one peer. A peer that cannot keep up is cut off, not waited for."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.principal import Principal
from agentvm.protocol.codec import Frame

MAX_FRAMES = 4_096
MAX_BYTES = 1024 * 1024
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
FAILED = Closing(1011, "internal error")


@dataclass(slots=True, eq=False)
class Subscription:
    """One channel's place in one session's log. `cursor` is the last seq it was sent; None hears from the next one on."""

    container_id: ContainerId
    session_id: SessionId
    cursor: int | None = None


class Channel:
    """One peer's bounded outbox. Replies and events share it, so the peer sees one ordered stream."""

    __slots__ = ("_bytes", "_closing", "_frames", "_large", "_taker", "lagging", "mirror", "on_close", "principal", "since")

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.mirror: Channel | None = None
        """Hears everything this peer is sent; with a bound of its own, so a slow observer harms only itself."""
        self.lagging: dict[Subscription, None] = {}
        """Subscriptions that must be fed from the log before they can follow again."""
        # A list and a future, not a deque and an event: most peers are idle most of the time, and those cost 1.5 KB.
        self._frames: list[Frame] = []
        self._bytes = self._large = 0
        self.since = 0.0
        """When the first of the frames came that wait, or that were taken last; by `time.monotonic`."""
        self._closing: Closing | None = None
        self._taker: asyncio.Future[None] | None = None
        self.on_close: Callable[[], None] | None = None
        """Called once, when the channel closes; frames may still wait to be taken."""

    @property
    def closing(self) -> Closing | None:
        return self._closing

    def send(self, frame: Frame) -> None:
        """Queues a frame that exists nowhere else; never waits. A peer whose outbox is full is cut off."""
        if not self.offer(frame) and self._closing is None:
            self._frames.clear()
            self.close(TOO_SLOW)

    def offer(self, frame: Frame) -> bool:
        """Queues the frame if there is room. After the end, frames go nowhere."""
        if self._closing is not None:
            return False
        size = len(frame.bare)
        small, large = (0, size) if size > LARGE else (size, 0)
        if self._bytes + small > MAX_BYTES or self._large + large > MAX_LARGE or len(self._frames) >= MAX_FRAMES:
            return False
        if self.mirror is not None:
            self.mirror.send(frame)
        if not self._frames:
            self.since = time.monotonic()
        self._frames.append(frame)
        self._bytes += small
        self._large += large
        self._wake()
        return True

    def fall_behind(self, subscription: Subscription) -> None:
        """From here on the subscription is fed from the log."""
        self.lagging[subscription] = None
        self._wake()

    def close(self, closing: Closing) -> None:
        """The first reason wins; frames already queued are still delivered, except to a peer that is too slow."""
        if self._closing is None:
            self._closing = closing
            self._wake()
            if self.on_close is not None:
                self.on_close()

    async def take(self) -> list[Frame]:
        """Everything that waits, as soon as there is something, or a subscription to feed; empty once closed and drained."""
        while not self._frames and not self.lagging and self._closing is None:
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker
        return self.take_nowait()

    def take_nowait(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        self._bytes = self._large = 0
        return frames

    def _wake(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)
