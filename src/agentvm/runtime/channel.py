"""Channel — carries frames to one peer. A peer that cannot keep up is cut off, not waited for."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from agentvm.events.base import Event
from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.principal import Principal
from agentvm.protocol.codec import FRAME_MAX_BYTES, Frame
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.reservation import FREE_BYTES, ConnectionReservation

MAX_FRAMES = 4_096
MAX_BYTES = 1024 * 1024
"""Maximum of the outbox of one peer, in characters. Events beyond it are sent later, from the log."""

RESERVE_FACTOR = 2
"""Replies, which are in no log, may fill it this many times: a burst of events must not cut off a peer that reads."""

LARGE_CHARACTERS = 256 * 1024
MAX_LARGE = FRAME_MAX_BYTES + 16 * 1024 * 1024
"""Frames this large are few: a history, a picture. They have a bound of their own, or one would cut off the deltas after it."""

MAX_UNREAD_BYTES = 4 * 1024 * 1024
"""With more than that unread, a peer's next command waits until it has read some of it."""
UNREAD_SECONDS = 60.0
"""How long it may take for that; then the peer is too slow."""

Encode = Callable[[Event], Frame | None]
"""A dialect: returns the frame of an event, or None for one that is not sent to its clients. Pure, so one frame serves all of
them."""

_CHARACTER_BYTES = 4
"""Maximum bytes per character of a text that is not ASCII."""


@dataclass(frozen=True, slots=True)
class Closing:
    """Why a channel ends; `code` is a WebSocket close code."""

    code: int
    reason: str


TOO_SLOW = Closing(1013, "client too slow")
SERVER_BUSY = Closing(1013, "server busy: too much is waiting to be read; read it, or try again later")
GOING_AWAY = Closing(1001, "server shutting down")
GONE = Closing(1000, "peer gone")
HUNG_UP = Closing(1000, "closed by the server")
FAILED = Closing(1011, "internal error")


@dataclass(slots=True, eq=False)
class Subscription:
    """One channel's place in one session's log. `cursor` is the last sent seq; None starts with the next event.

    Without `deltas` the channel receives complete messages only.
    """

    container_id: ContainerId
    session_id: SessionId
    cursor: int | None = None
    deltas: bool = True

    def tells(self, event: Event) -> bool:
        return self.deltas or event.data.category != "stream"


class Channel:
    """One peer's bounded outbox. Replies and events share it, so the peer sees one ordered stream."""

    __slots__ = (
        "_allowed",
        "_bytes",
        "_charge",
        "_closing",
        "_frames",
        "_large",
        "_taken",
        "_taker",
        "_waiter",
        "_weight",
        "encode",
        "lagging",
        "mirror",
        "on_ready",
        "opened_at",
        "principal",
        "since",
    )

    def __init__(self, principal: Principal, encode: Encode, budget: ByteBudget | None = None) -> None:
        """With a budget, queued frames are charged to the principal's tenant, beyond a little that is free."""
        self.principal = principal
        self.opened_at = 0
        self.encode = encode
        """The peer's dialect."""
        self._charge = None if budget is None else ConnectionReservation(budget, principal.tenant_id)
        self._allowed = FREE_BYTES
        self._weight = self._taken = 0
        self._waiter: asyncio.Future[None] | None = None
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
        self.on_ready: Callable[[], None] | None = None
        """Called when frames wait to be taken, or the channel has closed; often more than once until it is."""

    @property
    def closing(self) -> Closing | None:
        return self._closing

    @property
    def unread(self) -> int:
        """Bytes that wait in memory, and those that were taken last: they may be on their way to the peer."""
        return self._weight + self._taken

    def send(self, frame: Frame) -> None:
        """Queues a frame that exists nowhere else; never waits. A peer whose outbox is full is cut off."""
        if not self.offer(frame, RESERVE_FACTOR) and self._closing is None:
            closing = TOO_SLOW if self._is_full(len(frame.bare)) else SERVER_BUSY
            self._frames.clear()
            self.close(closing)
            self._weight = 0
            self._settle()

    def offer(self, frame: Frame, factor: int = 1) -> bool:
        """Queues the frame if there is room, of this many outboxes. After the end, frames go nowhere."""
        if self._closing is not None:
            return False
        bare, frames = frame.bare, self._frames
        size = len(bare)
        small, large = (0, size) if size > LARGE_CHARACTERS else (size, 0)
        if self._bytes + small > MAX_BYTES * factor or self._large + large > MAX_LARGE or len(frames) >= MAX_FRAMES * factor:
            return False
        weight = self._weight + (size if bare.isascii() else size * _CHARACTER_BYTES)
        if weight + self._taken > self._allowed and not self._reserve(weight + self._taken):
            return False
        if self.mirror is not None:
            self.mirror.send(frame)
        if not frames:
            self.since = time.monotonic()
        frames.append(frame)
        self._weight = weight
        self._bytes += small
        self._large += large
        self._wake()
        return True

    def offer_all(self, frames: Sequence[Frame]) -> int:
        """Queues frames in order while there is room; how many were queued."""
        size = weight = 0
        for frame in frames:
            bare = frame.bare
            size += len(bare)
            weight += len(bare) if bare.isascii() else len(bare) * _CHARACTER_BYTES
        weight += self._weight
        fits = size <= LARGE_CHARACTERS and self._bytes + size <= MAX_BYTES and len(self._frames) + len(frames) <= MAX_FRAMES
        fits = fits and self._closing is None and self.mirror is None
        if fits and (weight + self._taken <= self._allowed or self._reserve(weight + self._taken)):
            if not self._frames:
                self.since = time.monotonic()
            self._frames += frames
            self._weight = weight
            self._bytes += size
            self._wake()
            return len(frames)
        return self._offer_each(frames)

    def _offer_each(self, frames: Sequence[Frame]) -> int:
        for count, frame in enumerate(frames):
            if not self.offer(frame):
                return count
        return len(frames)

    def _is_full(self, size: int) -> bool:
        """Whether even a reply of that size has no room."""
        if len(self._frames) >= MAX_FRAMES * RESERVE_FACTOR:
            return True
        return self._large + size > MAX_LARGE if size > LARGE_CHARACTERS else self._bytes + size > MAX_BYTES * RESERVE_FACTOR

    def _reserve(self, size: int) -> bool:
        if self._charge is None:
            self._allowed = size
        elif self._charge.hold(size):
            self._allowed = max(self._charge.held, FREE_BYTES)
        else:
            return False
        return True

    def _settle(self) -> None:
        """Less is held than before."""
        if self._allowed > FREE_BYTES:
            # Less never finds too little room.
            self._reserve(self.unread)
        if self._waiter is not None and not self._waiter.done() and self.unread <= MAX_UNREAD_BYTES:
            self._waiter.set_result(None)

    async def read(self) -> None:
        """Returns when the peer has so little unread that its next command may be carried out, or the channel has ended."""
        with anyio.move_on_after(UNREAD_SECONDS) as patience:
            while self.unread > MAX_UNREAD_BYTES and self._closing is None:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        if patience.cancelled_caught:
            self.close(TOO_SLOW)

    def fall_behind(self, subscription: Subscription) -> None:
        """From here on the subscription is fed from the log."""
        self.lagging[subscription] = None
        self._wake()

    def keep_up(self, subscription: Subscription) -> None:
        """From here on the subscription is fed as events happen, or it has ended."""
        self.lagging.pop(subscription, None)
        if not self.lagging:
            # An empty dictionary keeps its table unless it is cleared, and most peers fall behind only once, as they come.
            self.lagging.clear()

    def close(self, closing: Closing) -> None:
        """The first reason wins; frames already queued are still delivered, except to a peer that is too slow."""
        if self._closing is None:
            self._closing = closing
            self._wake()
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    async def take(self) -> list[Frame]:
        """Waits for frames, or for a subscription to feed; returns all frames, none once closed and drained.

        The caller has delivered the previous frames.
        """
        self.delivered()
        while not self.is_ready:
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker
        return self.take_nowait()

    @property
    def is_ready(self) -> bool:
        """Whether `take` would return at once."""
        return bool(self._frames or self.lagging or self._closing is not None)

    def take_small(self, most: int) -> list[Frame]:
        """Returns all frames; none if they exceed `most`, the channel has ended, or a subscription
        is to be fed."""
        if self._large or self._bytes > most or self.lagging or self._closing is not None:
            return []
        return self.take_nowait()

    def delivered(self) -> None:
        """Marks the frames that were taken before as sent."""
        if self._taken:
            self._taken = 0
            self._settle()

    def take_nowait(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        self._bytes = self._large = 0
        self._taken += self._weight
        self._weight = 0
        return frames

    def release(self) -> None:
        """Lets go of all that waits: the peer is gone."""
        self._frames = []
        self._bytes = self._large = self._weight = self._taken = 0
        self._settle()

    def _wake(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)
        if self.on_ready is not None:
            self.on_ready()
