"""Tool calls — the events of a call between the model's request and its result."""

from agentvm.events.base import EventData
from agentvm.model.ids import SessionId, TurnId, UserId
from agentvm.model.ledger import LedgerEntry
from agentvm.model.placed_call import PlacedCall
from agentvm.model.program import ProgramChange
from agentvm.model.wait import AnswerDecision, Question, WaitChange, WaitDecision, WaitId, WaitKind


class ToolStateEvent(EventData):
    source = "agent"
    category = "state"


class ToolWaiting(ToolStateEvent):
    """A call waits for an answer. `fingerprint` has to be sent back with the answer."""

    type = "tool_waiting"
    wait_id: WaitId
    turn_id: TurnId
    tool_id: str
    tool_name: str
    kind: WaitKind
    input: dict[str, object]
    fingerprint: str
    decisions: tuple[AnswerDecision, ...]
    why: str
    audience: str
    expires_at: int
    questions: dict[str, Question] | None = None
    url: str | None = None
    held: bool = False
    """Whether the call is held open for the answer, so that its turn is not parked."""
    session_id: SessionId | None = None
    """The session of the sub-agent that waits, where its wait is told at the top."""


class ToolAnswered(ToolStateEvent):
    """A wait has ended, and its answer is stored; `reason` is that of the person who answered."""

    type = "tool_answered"
    wait_id: WaitId
    turn_id: TurnId
    tool_id: str
    tool_name: str
    decision: WaitDecision
    by: UserId | None = None
    reason: str | None = None
    session_id: SessionId | None = None
    """As in `tool_waiting`."""


class ToolWaitExpired(ToolStateEvent):
    """A wait has ended without an answer: the call is not made."""

    type = "tool_wait_expired"
    wait_id: WaitId
    turn_id: TurnId
    tool_id: str
    tool_name: str
    session_id: SessionId | None = None
    """As in `tool_waiting`."""


class AgentSwitched(ToolStateEvent):
    """The conversation was handed over: from here on `agent`, by its URI, answers; empty for the image itself."""

    type = "agent_switched"
    turn_id: TurnId
    agent: str
    name: str


class ToolDenied(ToolStateEvent):
    """A call was denied by a rule or a person; `reason` is the text that the model receives."""

    type = "tool_denied"
    turn_id: TurnId
    tool_id: str
    tool_name: str
    reason: str


class ToolStarted(ToolStateEvent):
    """A call begins that has waited, or that must not run twice: stored first."""

    type = "tool_started"
    turn_id: TurnId
    tool_id: str
    tool_name: str


class ProgramChanged(EventData):
    """A call of a program has its result, or the program has ended: stored as a row; another event is sent."""

    type = "program_changed"
    source = "agent"
    category = "turn"
    told = False
    change: ProgramChange


class ToolProgress(ToolStateEvent):
    """A call continues. Four a second are sent at most; `total` is missing if the tool does not know it."""

    type = "tool_progress"
    turn_id: TurnId
    tool_id: str
    tool_name: str
    progress: float
    total: float | None = None
    message: str | None = None


class ToolAbandoned(EventData):
    """A tool continued after it was cancelled, and is not waited for: counted, and not stored."""

    type = "tool_abandoned"
    source = "agent"
    category = "turn"
    told = False
    tool_id: str
    tool_name: str


class ToolCharged(EventData):
    """A call has used a sandbox: entered into the ledger together with its result."""

    type = "tool_charged"
    source = "agent"
    category = "turn"
    told = False
    entry: LedgerEntry


class WaitChanged(EventData):
    """A wait begins, is answered or its call starts: stored as a row; another event is sent."""

    type = "wait_changed"
    source = "agent"
    category = "turn"
    told = False
    change: WaitChange


class ToolPlaced(EventData):
    """The reasons of a call that has its result: stored as a row, not sent."""

    type = "tool_placed"
    source = "agent"
    category = "turn"
    told = False
    call: PlacedCall
