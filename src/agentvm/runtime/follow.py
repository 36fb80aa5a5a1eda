"""Follow — reads a session's events as they are committed. A follower holds a cursor and nothing else.

It has no outbox and no task: an event of the session wakes it, and it continues reading when its peer has taken the previous
events. So a slow peer costs a cursor, and an idle one a future.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from agentvm.errors import NotFound
from agentvm.events.base import Event
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId
from agentvm.runtime.turn_log import belongs_to

if TYPE_CHECKING:
    from agentvm.runtime.broadcaster import Broadcaster
    from agentvm.runtime.replay import Replay

UNSTORED_MAX = 100
"""Events that no log holds and that a follower has not taken yet."""
GONE = "The events after this cursor are no longer kept; see limits.logDays"


class SessionFollower:
    """One reader of a session, from a cursor on. Used in a `with` block; its opener has checked the permission to read."""

    __slots__ = ("_broadcaster", "_container_id", "_key", "_replay", "_unstored", "_waiter", "cursor")

    def __init__(
        self,
        broadcaster: "Broadcaster",
        replay: "Replay",
        place: tuple[TenantId, ContainerId, SessionId],
        cursor: int,
    ) -> None:
        self._broadcaster, self._replay = broadcaster, replay
        self._container_id = place[1]
        self._key = (place[0], place[2])
        self.cursor = cursor
        """The last event that was taken."""
        self._unstored: list[Event] = []
        self._waiter: asyncio.Future[None] | None = None

    @property
    def container_id(self) -> ContainerId:
        return self._container_id

    def __enter__(self) -> Self:
        self._broadcaster.add_follower(*self._key, self)
        return self

    def __exit__(self, *_: object) -> None:
        self._broadcaster.remove_follower(*self._key, self)

    def wake(self, events: Sequence[Event]) -> None:
        self._unstored += events[: UNSTORED_MAX - len(self._unstored)]
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> list[Event]:
        """Waits for the next events, at least one. Cancelled, it has taken nothing.

        `SessionNotFound` when the session is gone, `NotFound` when the events after the cursor are.
        """
        while True:
            # Before reading, so that nothing which is told meanwhile is slept through.
            self._waiter = asyncio.get_running_loop().create_future()
            if events := await self.read():
                return events
            await self._waiter

    async def read(self) -> list[Event]:
        """Returns the next events; none when there is nothing after the cursor now."""
        tenant_id, session_id = self._key
        missed = self._replay.read_nowait(tenant_id, session_id, self.cursor)
        if missed is None:
            missed = await self._replay.read(tenant_id, self._container_id, session_id, self.cursor)
        if missed.lost:
            raise NotFound(GONE)
        if missed.events:
            self.cursor = missed.events[-1].seq
            return missed.events
        unstored, self._unstored = self._unstored, []
        return unstored

    async def has_more(self) -> bool:
        """Asks the database whether there are events after the cursor that have not arrived here."""
        tenant_id, session_id = self._key
        return await self._replay.has_more(tenant_id, self._container_id, session_id, self.cursor)


class TurnFollower:
    """The events of one turn, until it has ended. With `is_over` it has: the log is read, without waiting for more."""

    __slots__ = ("_follower", "_read", "has_ended", "turn_id")

    def __init__(self, follower: SessionFollower, turn_id: TurnId, *, is_over: bool = False) -> None:
        self._follower, self.turn_id = follower, turn_id
        self._read = follower.read if is_over else follower.take
        self.has_ended = False

    def __enter__(self) -> Self:
        self._follower.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._follower.__exit__()

    async def take(self) -> list[Event]:
        """Waits for the next events of the turn; none once it has ended. Cancelled, it has taken nothing."""
        while not self.has_ended:
            batch = await self._read()
            if not batch and await self._follower.has_more():
                # The node that has ended the turn is ahead of what is known here.
                batch = await self._read()
            events = [event for event in batch if belongs_to(event, self.turn_id)]
            self.has_ended = not batch or any(isinstance(event.data, TurnResponse) for event in events)
            if events:
                return events
        return []
