"""Turns — the beginning and the one end of each unit of work."""

from typing import Any, Literal

from agentvm.events.base import EventData
from agentvm.model.ids import KeyId, MessageId, TurnId, UserId
from agentvm.model.ledger import LedgerEntry, SentCall
from agentvm.model.turn import OnParked, TurnOptions, TurnOrigin, TurnOutcome
from agentvm.model.usage import Usage
from agentvm.model.wait import WaitId

TurnStop = Literal["end_turn", "max_tokens", "stop_sequence", "refusal", "interrupted", "error"]


class TurnEvent(EventData):
    source = "agent"
    category = "turn"


class TurnRequest(TurnEvent):
    """Accepted, and committed together with the user's message, which `user_message` carries."""

    type = "turn_request"
    turn_id: TurnId
    message_id: MessageId
    timestamp: int
    client_key: str | None = None
    user_id: UserId | None = None
    key_id: KeyId | None = None
    on_parked: OnParked | None = None
    options: TurnOptions | None = None
    origin: TurnOrigin | None = None


class TurnSuspended(TurnEvent):
    """The server is being restarted; the turn continues when it is back."""

    type = "turn_suspended"
    turn_id: TurnId
    message_id: MessageId
    timestamp: int


class TurnParked(TurnEvent):
    """Every open call of the turn waits for an answer; it continues with their answers. `waits` are the open ones, those of
    sub-agents too."""

    type = "turn_parked"
    turn_id: TurnId
    message_id: MessageId
    waits: tuple[WaitId, ...]
    active: int
    """Milliseconds that the turn has run."""
    timestamp: int


class TurnResumed(TurnEvent):
    """The server died or was restarted during the turn; it continues from the last message that was finished.

    `attempt` counts how often the server died of it; a restart that was announced does not count.
    """

    type = "turn_resumed"
    turn_id: TurnId
    message_id: MessageId
    attempt: int
    timestamp: int
    user_id: UserId | None = None


class ModelAsked(TurnEvent):
    """A model call is about to be made: committed before its request leaves, so that it is billed in any case."""

    type = "model_asked"
    told = False
    call: SentCall


class ModelUnasked(TurnEvent):
    """A call that was about to be made never left, or was refused by the provider: it used nothing."""

    type = "model_unasked"
    told = False
    asked: str


class ModelCalled(TurnEvent):
    """A model call has ended, by itself or cut off; `usage` is the provider's, or an estimate that says so.

    `asked` is the key under which it was asked.
    """

    type = "model_called"
    told = False
    call_id: str
    model: str
    usage: Usage
    entry: LedgerEntry | None = None
    asked: str | None = None


class TurnResponse(TurnEvent):
    """The terminal event: exactly one per turn, last of the turn. `usage` is the provider's.

    `price` is the turn's price for its tenant with its sub-agents, in nano-USD; absent if the store failed when it was to be
    read. `output` is the answer as JSON, of a turn that was asked for it.
    """

    type = "turn_response"
    turn_id: TurnId
    message_id: MessageId
    outcome: TurnOutcome
    stop_reason: TurnStop
    duration: int
    usage: Usage
    timestamp: int
    model: str | None = None
    price: int | None = None
    output: Any = None
