"""RetentionStore — finds and deletes expired data of one tenant in small commits.

Each item is checked again in the commit that deletes it: a session with newer messages stays, and so does one with an
unfinished turn. The ledger is always kept. Conformance: `tests.conformance.retention`.
"""

from dataclasses import dataclass

from agentvm.model.ids import ContainerId, MessageId, SessionId, TurnId
from agentvm.model.session import Session


@dataclass(frozen=True, slots=True)
class Weight:
    """Messages and bytes."""

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
class SessionAddress:
    """The address of a session."""

    container_id: ContainerId
    session_id: SessionId


@dataclass(frozen=True, slots=True)
class ExpiringPage:
    """A part of a list; `next` is where the following begins, None at the end."""

    items: tuple[Expiring, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class SessionAddressPage:
    items: tuple[SessionAddress, ...]
    next: int | None
