"""Turn — one metered, cancellable unit of work: a user message and everything the agent does about it."""

from typing import Literal

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TurnId, UserId
from agentvm.model.usage import Usage

TurnOutcome = Literal["completed", "interrupted", "failed"]


OnParked = Literal["supersede", "queue", "reject"]
"""While a turn of the session waits for answers: end it, wait for it, or refuse the message."""


class Turn(Record):
    """`outcome`, `usage` and `ended_at` are set once, when the turn ends; `attempts` counts how often it was begun."""

    turn_id: TurnId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
    message_id: MessageId
    accepted_at: int
    outcome: TurnOutcome | None = None
    usage: Usage | None = None
    ended_at: int | None = None
    client_key: str | None = None
    """The sender's own name for the message: sending it again changes nothing."""
    attempts: int = 0
    user_id: UserId | None = None
    """The sender of the message, who is billed for the turn whenever it goes on."""
    alongside: int | None = None
    """Number of turns that were last begun together with an unfinished one that the server may not survive."""
    parked_at: int | None = None
    """Set while all its calls wait for somebody: it is not in memory, and goes on with an answer."""
    active_ms: int = 0
    """Time that it had run when it was parked."""
    on_parked: OnParked | None = None
    """`queue` for a turn that waits until a parked one before it has ended."""
