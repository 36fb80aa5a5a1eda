"""Timeline — what one turn spent its time and money on, from what was told of it and what the ledger says. Pure.

Every millisecond from the message to the end belongs to one stage, so the stages add up to the whole.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from agentvm.events import error, lifecycle, state, stream, turn
from agentvm.events.base import Event
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TurnId, UserId
from agentvm.model.ledger import LedgerEntry
from agentvm.model.turn import Turn, TurnOutcome
from agentvm.model.usage import NO_USAGE, Usage

Stage = Literal["queue", "wait", "stream", "tools", "other", "away"]


class CallStep(Record):
    """One model call. Without `ended_at` it runs, or was cut off by a crash."""

    call_id: str
    provider: str | None = None
    model: str | None = None
    answered_by: str | None = None
    """What the provider calls its model."""
    asked_at: int | None = None
    started_at: int | None = None
    first_token_at: int | None = None
    ended_at: int | None = None
    attempt: int = 1
    """Greater than 1 when attempts before it were not answered."""
    stop_reason: str | None = None
    usage: Usage | None = None
    cost: int | None = None
    """What the provider takes, in nano-USD; absent when nobody knows the price."""
    price: int | None = None


class ToolStep(Record):
    """One tool. It starts when the message that asked for it is whole."""

    tool_id: str
    name: str
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None


class Moment(Record):
    """Something that happened once, with what there is to say of it."""

    at: int
    what: Literal["accepted", "queued", "fallback", "interrupted", "suspended", "resumed", "failed", "ended"]
    details: dict[str, str | int] = msgspec.field(default_factory=dict)


class Stages(Record):
    """Where the time went, in ms; together, the duration."""

    queue: int = 0
    """Until the model that answered first was asked: the turn before it, the history, the quotas, attempts before it."""
    wait: int = 0
    """For the first token of each model call."""
    stream: int = 0
    """From the first token to the last."""
    tools: int = 0
    other: int = 0
    """Between a tool and the next model call, attempts that nobody answered, and what is stored at the end."""
    away: int = 0
    """While the server was down."""


class Timeline(Record):
    """One turn."""

    turn_id: TurnId
    session_id: SessionId
    container_id: ContainerId
    image_id: ImageId
    message_id: MessageId
    user_id: UserId | None = None
    accepted_at: int
    ended_at: int | None = None
    outcome: TurnOutcome | None = None
    """Absent while it runs."""
    stop_reason: str | None = None
    duration: int
    """In ms, up to now for one that runs."""
    usage: Usage
    cost: int
    price: int
    calls: Sequence[CallStep]
    tools: Sequence[ToolStep]
    moments: Sequence[Moment]
    stages: Stages | None = None
    """Absent when what was told of it is no longer kept."""
    complete: bool
    """Whether all that was told of it is still kept; what it used and cost is known in any case."""


def draw(row: Turn, events: Iterable[Event], ledger: Sequence[LedgerEntry], *, now: int, complete: bool) -> Timeline:
    """`events` are those of the turn, in order; without `complete` they may be missing."""
    drawing = _Drawing(row)
    for event in events:
        drawing.add(event)
    billed = {entry.key: entry for entry in ledger}
    calls = [_priced(call, billed.pop(call.call_id, None)) for call in drawing.calls.values()]
    # What was told of them is gone, or was never told.
    calls += [_priced(CallStep(call_id=entry.key, ended_at=entry.at), entry) for entry in billed.values()]
    end = now if row.ended_at is None else row.ended_at
    if row.ended_at is None:
        drawing.pass_to(end)
    return Timeline(
        turn_id=row.turn_id,
        session_id=row.session_id,
        container_id=row.container_id,
        image_id=row.image_id,
        message_id=row.message_id,
        user_id=row.user_id,
        accepted_at=row.accepted_at,
        ended_at=row.ended_at,
        outcome=row.outcome,
        stop_reason=drawing.stop_reason,
        duration=max(0, end - row.accepted_at),
        usage=sum((entry.usage for entry in ledger), NO_USAGE) if ledger else row.usage or NO_USAGE,
        cost=sum(entry.cost or 0 for entry in ledger),
        price=sum(entry.price or 0 for entry in ledger),
        calls=calls,
        tools=list(drawing.tools.values()),
        moments=drawing.moments,
        stages=msgspec.convert(drawing.stages, Stages) if complete else None,
        complete=complete,
    )


def _priced(call: CallStep, entry: LedgerEntry | None) -> CallStep:
    if entry is None:
        return call
    return msgspec.structs.replace(
        call,
        provider=call.provider or entry.driver,
        model=call.model or entry.model,
        usage=entry.usage,
        cost=entry.cost,
        price=entry.price,
    )


class _Drawing:
    """Follows the events of a turn."""

    def __init__(self, row: Turn) -> None:
        self.calls: dict[str, CallStep] = {}
        self.tools: dict[str, ToolStep] = {}
        self.moments: list[Moment] = []
        self.stages: dict[Stage, int] = dict.fromkeys(("queue", "wait", "stream", "tools", "other", "away"), 0)
        self.stop_reason: str | None = None
        self._stage: Stage = "queue"
        self._at, self._end = row.accepted_at, row.ended_at
        self._call = ""
        self._running = 0
        """Tools that the last message asked for and that gave no result yet."""

    def pass_to(self, at: int, stage: Stage | None = None) -> None:
        """The time up to then belongs to the stage that was; from then on it is another."""
        # An event is made a moment before it is told, and the turn has ended when its end was made.
        at = at if self._end is None else min(at, self._end)
        if at > self._at:
            self.stages[self._stage] += at - self._at
            self._at = at
        self._stage = stage or self._stage

    def add(self, event: Event) -> None:
        at, data = event.timestamp, event.data
        match data:
            case stream.MessageStart():
                self._start(data, at)
            case state.ConversationResponding() | state.ConversationThinking() | stream.ToolUseStart():
                self._speak(at)
                if isinstance(data, stream.ToolUseStart):
                    self.tools[data.tool_call_id] = ToolStep(tool_id=data.tool_call_id, name=data.tool_name)
            case stream.MessageDelta(usage=usage) if self._call in self.calls:
                self._note_call(usage=usage)
            case stream.MessageStop(stop_reason=reason):
                self._stop(reason, at)
            case state.ToolCompleted(tool_id=tool_id, tool_name=name):
                self._finish_tool(tool_id, name, None, at)
            case state.ToolFailedEvent(tool_id=tool_id, tool_name=name, error=text):
                self._finish_tool(tool_id, name, text, at)
            case _:
                self._note(data, at)

    def _start(self, data: stream.MessageStart, at: int) -> None:
        asked_at = at if data.asked_at is None else data.asked_at
        self.pass_to(asked_at, "wait")
        provider, _, model = (data.asked or "").partition("/")
        self._call, self._running = data.message_id, 0
        self.calls[data.message_id] = CallStep(
            call_id=data.message_id,
            provider=provider or None,
            model=model or None,
            answered_by=data.model,
            asked_at=asked_at,
            started_at=at,
            attempt=data.attempt,
        )

    def _speak(self, at: int) -> None:
        if self._stage == "wait":
            self.pass_to(at, "stream")
            self._note_call(first_token_at=at)

    def _stop(self, reason: str, at: int) -> None:
        call = self.calls.get(self._call)
        if call is None or call.ended_at is not None:
            # An interrupt between two calls stops no message.
            self.pass_to(at, "other")
            return
        self._note_call(ended_at=at, stop_reason=reason)
        waiting = [tool for tool in self.tools.values() if tool.started_at is None]
        runs = reason == "tool_use" and bool(waiting)
        self.pass_to(at, "tools" if runs else "other")
        for tool in waiting if runs else ():
            self.tools[tool.tool_id] = msgspec.structs.replace(tool, started_at=at)
        self._running = len(waiting) if runs else 0

    def _finish_tool(self, tool_id: str, name: str, text: str | None, at: int) -> None:
        tool = self.tools.get(tool_id) or ToolStep(tool_id=tool_id, name=name)
        self.tools[tool_id] = msgspec.structs.replace(tool, ended_at=at, error=text)
        self._running -= 1
        self.pass_to(at, "tools" if self._running > 0 else "other")

    def _note_call(self, **about: object) -> None:
        if self._call in self.calls:
            self.calls[self._call] = msgspec.structs.replace(self.calls[self._call], **about)

    def _note(self, data: object, at: int) -> None:
        match data:
            case turn.TurnRequest():
                self.moments.append(Moment(at=at, what="accepted"))
            case state.ConversationQueued():
                self.moments.append(Moment(at=at, what="queued"))
            case lifecycle.ProviderFallback():
                details: dict[str, str | int] = {"from": data.from_, "to": data.to, "reason": data.reason}
                self.moments.append(Moment(at=at, what="fallback", details=details))
            case lifecycle.Interrupted():
                self.moments.append(Moment(at=at, what="interrupted"))
            case turn.TurnSuspended():
                self.pass_to(at, "away")
                self.moments.append(Moment(at=at, what="suspended"))
            case turn.TurnResumed(attempt=attempt):
                # A crash is told by nobody: since the last word before it, the server was away.
                self._stage = "away"
                self.pass_to(at, "tools" if self._running > 0 else "other")
                self.moments.append(Moment(at=at, what="resumed", details={"attempt": attempt}))
            case error.ErrorReceived():
                self.moments.append(Moment(at=at, what="failed", details={"code": data.error_code, "message": data.message}))
            case turn.TurnResponse(outcome=outcome, stop_reason=reason):
                self.pass_to(at)
                if self._call in self.calls and self.calls[self._call].ended_at is None:
                    self._note_call(ended_at=at)
                self.stop_reason = reason
                self.moments.append(Moment(at=at, what="ended", details={"outcome": outcome}))
            case _:
                pass
