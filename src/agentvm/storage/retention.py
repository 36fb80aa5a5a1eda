"""RetentionStore — what of one tenant is older than it wants to keep, found and dropped, some at a time.

What is found is looked at again in the commit that drops it: a session in which something was said meanwhile stays, and so
does one with a turn that has no end. The ledger stays whatever goes. Conformance: `agentvm.testing.conformance.retention`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentvm.model.ids import ContainerId, MessageId, SessionId, TurnId
from agentvm.model.retention import RetentionCutoffs
from agentvm.model.session import Session


@dataclass(frozen=True, slots=True)
class Weight:
    """How much it is."""

    messages: int = 0
    bytes: int = 0

    def __add__(self, other: "Weight") -> "Weight":
        return Weight(self.messages + other.messages, self.bytes + other.bytes)


NOTHING = Weight()


@dataclass(frozen=True, slots=True)
class Expiring:
    """A session in which nothing was said for long. The default one of an image is emptied, because it cannot go."""

    session: Session
    is_default: bool
    weight: Weight


@dataclass(frozen=True, slots=True)
class OldTurn:
    """The messages of one turn, all of them; `turn_id` is None for messages that belong to none."""

    turn_id: TurnId | None
    message_ids: tuple[MessageId, ...]
    weight: Weight


@dataclass(frozen=True, slots=True)
class Place:
    """A session, where it is."""

    container_id: ContainerId
    session_id: SessionId


@dataclass(frozen=True, slots=True)
class Some:
    """A part of a list; `next` is where the following begins, None at the end."""

    items: tuple[Expiring, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class SomePlaces:
    items: tuple[Place, ...]
    next: int | None


class RetentionStore(Protocol):
    """One tenant's."""

    async def expiring(self, cut: RetentionCutoffs, after: int = 0, *, limit: int = 100) -> Some:
        """Sessions that go, or are emptied; only if their turns have ended."""

    async def expire(self, session_ids: Sequence[SessionId], cut: RetentionCutoffs) -> tuple[Session, ...]:
        """Takes those that still go out of every list and search, for good: the next `purge_sessions` drops them."""

    async def revive(self, session_ids: Sequence[SessionId]) -> None:
        """Takes that back, before they are purged."""

    async def rewound(self, cut: RetentionCutoffs) -> Weight:
        """What goes of what was taken back, of sessions that stay."""

    async def with_rewound(self, before: int, after: int = 0, *, limit: int = 100) -> SomePlaces:
        """Sessions of which something was taken back before then."""

    async def drop_rewound(self, place: Place, before: int, *, limit: int = 500) -> Weight:
        """Drops that, at most so many messages, of each rewind the last first; less than `limit` when nothing is left."""

    async def with_old_turns(self, before: int, after: int = 0, *, limit: int = 100) -> SomePlaces:
        """Sessions that may have turns which ended before then."""

    async def old_turns(self, place: Place, before: int | None) -> tuple[OldTurn, ...]:
        """The turns of a session that ended before then, the oldest first; for None all that have ended."""

    async def drop_turns(self, place: Place, turns: Sequence[OldTurn]) -> Weight:
        """Drops those turns with what was told of them, in one commit. Nothing if a turn has begun meanwhile."""

    async def clear(self, session_id: SessionId, cut: RetentionCutoffs, now: int) -> Session | None:
        """Makes a default session as new whose turns were dropped; None if something was said in it meanwhile."""
