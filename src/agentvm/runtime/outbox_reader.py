"""Outbox reader — returns the next frames for a peer: from its channel, and events that its subscriptions have missed.

A subscription that is behind, because the peer reads slowly or has requested earlier events, is served page by page from the
log and becomes live again when it has caught up. So a slow peer costs a bounded outbox, and other peers do not notice it.
"""

import anyio

from agentvm.errors import AgentVMError, SessionNotFound
from agentvm.events.base import Event, EventScope
from agentvm.events.lifecycle import ResyncRequired
from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.protocol.codec import Frame
from agentvm.runtime.channel import FAILED, SERVER_BUSY, Channel, Subscription
from agentvm.runtime.replay import Missed, Replay

logger = get_logger(__name__)

MEMORY_TIMEOUT_SECONDS = 30.0
RETRY_SECONDS = 0.1
"""Timeout of a lagging peer that waits for room in the server's memory, and the time between two attempts."""


class OutboxReader:
    """Drains one channel."""

    __slots__ = ("_channel", "_clock", "_replay")

    def __init__(self, channel: Channel, replay: Replay, clock: Clock) -> None:
        self._channel = channel
        self._replay = replay
        self._clock = clock

    async def take(self) -> list[Frame]:
        """Waits for frames and returns them; none once the channel is closed and drained."""
        channel = self._channel
        until: float | None = None
        while True:
            frames, room = await channel.take(), True
            if frames and not channel.lagging:
                return frames
            for subscription in tuple(channel.lagging):
                if channel.closing is not None or not (room := await self._catch_up(subscription)):
                    break
                frames += channel.take_nowait()
                if frames:
                    # One page at a time: what more of the past fills the outbox leaves no room for a reply.
                    break
            frames += channel.take_nowait()
            if frames or channel.closing is not None:
                return frames
            if not room:
                # The outbox is empty and still has no room: others hold all there is.
                now = anyio.current_time()
                until = now + MEMORY_TIMEOUT_SECONDS if until is None else until
                if now >= until:
                    channel.close(SERVER_BUSY)
                else:
                    await anyio.sleep(RETRY_SECONDS)

    def feed_nowait(self) -> None:
        """Feeds the first subscription that is behind one page, if that is in memory; others need more than one look."""
        subscription = next(iter(self._channel.lagging))
        tenant_id, after = self._channel.principal.tenant_id, subscription.cursor or 0
        missed = self._replay.read_nowait(tenant_id, subscription.session_id, after)
        if missed is not None:
            self._feed(subscription, missed)

    async def _catch_up(self, subscription: Subscription) -> bool:
        """Feeds it one page; whether there is room for more."""
        tenant_id = self._channel.principal.tenant_id
        after = subscription.cursor or 0
        try:
            missed = await self._replay.read(tenant_id, subscription.container_id, subscription.session_id, after)
        except SessionNotFound:
            self._channel.keep_up(subscription)
            return True
        except AgentVMError as error:
            # The peer reconnects and asks again, from where it was.
            logger.error("replay_failed", session_id=subscription.session_id, code=error.code, error=str(error))
            self._channel.close(FAILED)
            return False
        if subscription.cursor != after or subscription not in self._channel.lagging:
            # It asked for another part of the past meanwhile, or ended.
            return True
        return self._feed(subscription, missed)

    def _feed(self, subscription: Subscription, missed: Missed) -> bool:
        """Queues the missed events; returns whether there is room for more."""
        channel = self._channel
        if missed.lost:
            if (resync := self._resync(subscription, missed.last)) is not None:
                channel.send(resync)
            subscription.cursor = missed.last
        frames = missed.frames(channel.encode)
        if not subscription.deltas:
            frames = [frame if subscription.tells(event) else None for event, frame in zip(missed.events, frames, strict=True)]
        visible = [frame for frame in frames if frame is not None]
        if visible and len(visible) == len(frames):
            if count := channel.offer_all(visible):
                subscription.cursor = missed.events[count - 1].seq
            if count < len(visible):
                return False
        else:
            for event, frame in zip(missed.events, frames, strict=True):
                if frame is not None and not channel.offer(frame):
                    return False
                subscription.cursor = event.seq
        cursor = subscription.cursor or 0
        if self._replay.is_current(channel.principal.tenant_id, subscription.session_id, cursor, missed.last):
            channel.keep_up(subscription)
        elif subscription in channel.lagging:
            # The others come first now.
            del channel.lagging[subscription]
            channel.lagging[subscription] = None
        return True

    def _resync(self, subscription: Subscription, last: int) -> Frame | None:
        data = ResyncRequired(session_id=subscription.session_id, cursor=str(last))
        scope = EventScope(container_id=subscription.container_id, session_id=subscription.session_id)
        tenant_id = self._channel.principal.tenant_id
        return self._channel.encode(Event(data=data, scope=scope, timestamp=self._clock(), tenant_id=tenant_id))
