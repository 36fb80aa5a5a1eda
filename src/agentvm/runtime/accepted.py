"""Accepted — a turn that is committed, from when it was taken until it has ended; and how a failure ends it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import msgspec

from agentvm.errors import AgentVMError, ProviderError
from agentvm.events import message, state
from agentvm.events import turn as turn_events
from agentvm.events.base import EventData, EventScope
from agentvm.events.lifecycle import SessionRewound
from agentvm.log import concerning
from agentvm.model.ids import SessionId, TenantId, UserId
from agentvm.model.message import UserContent, UserMessage
from agentvm.model.turn import Turn
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.runtime import turn
from agentvm.runtime.billing import Bill
from agentvm.runtime.recovery import progress

Failure = tuple[str, str, bool]
"""A code, a text for people, and whether to try again may help."""


def failure_of(error: AgentVMError) -> Failure:
    return error.code, str(error), not isinstance(error, ProviderError) or error.retryable


@dataclass(slots=True, eq=False)
class Accepted:
    """A turn that is committed. It runs once it is released, which is after its sender has been answered."""

    state: turn.TurnState
    scope: EventScope
    bill: Bill
    released: bool = False
    cursor: int = 0
    """The event before its first."""
    resumed: bool = False
    """Whether it goes on after a restart."""
    cut: progress.Cut | None = None
    """The model call it was in when its process died."""
    settled: bool = False
    """Whether what it used before a restart was charged."""
    attempt: int = 0
    """How often it was begun before and died with its process."""
    left: Turn | None = None
    """The row of a turn from before a restart, as long as nobody has looked at what it has done."""
    counted: bool = False
    """Whether this attempt is on disk."""
    is_to_blame: bool = False
    """Whether the server has died of it too often for it to be begun again."""
    spent: Usage = NO_USAGE
    """Usage of its model calls that were finished before a restart."""
    asked_for: tuple[turn.PendingCall, ...] = ()
    """The tools that it was asking for when its process died, as far as the calls were whole."""
    request_id: str | None = None
    """The request that it came with, for the log."""
    cancelling: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Cancelled to stop the turn, whether it already runs or not."""
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has ended."""
    since: float = field(default_factory=anyio.current_time)
    """When this process took it, in the loop's time: the clock on the wall may be set meanwhile."""
    before_ms: int = 0
    """How long it had been going on by then."""

    def handling(self, tenant_id: TenantId) -> concerning:
        """Entries made within are about this turn, whoever's request the task was started by."""
        return concerning(
            request_id=self.request_id,
            tenant_id=tenant_id,
            user_id=self.bill.user_id,
            container_id=self.scope.container_id,
            session_id=self.scope.session_id,
            turn_id=self.scope.turn_id,
        )

    def timed(self, told: Sequence[EventData]) -> tuple[EventData, ...]:
        """The events, with how long the turn took in its end."""
        took = self.before_ms + int((anyio.current_time() - self.since) * 1000)
        return tuple(
            msgspec.structs.replace(data, duration=took) if isinstance(data, turn_events.TurnResponse) else data
            for data in told
        )


def opening(
    begun: turn.TurnState,
    session_id: SessionId,
    content: UserContent,
    client_key: str | None,
    user_id: UserId | None,
    *,
    rewound: SessionRewound | None,
    queued: bool,
) -> list[EventData]:
    """The first events of a turn: what was taken back for it, the user's message, and that it is accepted."""
    turn_id, message_id, at = begun.turn_id, begun.user_message_id, begun.accepted_at
    user = UserMessage(id=message_id, timestamp=at, turn_id=turn_id, role="user", content=content)
    told: list[EventData] = [] if rewound is None else [rewound]
    told += (
        message.MessagePersisted(session_id=session_id, message_id=message_id, saved_at=at),
        message.UserMessageEvent(message=user),
        turn_events.TurnRequest(turn_id=turn_id, message_id=message_id, timestamp=at, client_key=client_key, user_id=user_id),
    )
    if queued:
        told.append(state.ConversationQueued(message_id=message_id))
    return told
