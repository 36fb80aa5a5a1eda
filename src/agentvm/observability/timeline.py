"""Timeline — the steps, durations and costs of one turn, from its events and the ledger. Pure.

Every millisecond from the message to the end belongs to one stage, so the stages add up to the whole.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from agentvm.events import error, lifecycle, state, stream, turn
from agentvm.events.base import Event
from agentvm.model.base import Record, record_from
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TurnId, UserId
from agentvm.model.ledger import LedgerEntry
from agentvm.model.placed_call import PlacedCall
from agentvm.model.tier import TierName
from agentvm.model.turn import Turn, TurnOutcome
from agentvm.model.usage import NO_USAGE, Usage

Stage = Literal["queue", "wait", "stream", "tools", "other", "away"]


class CallStep(Record):
    """One model call. Without `ended_at` it is running, or was cut off by a crash."""

    call_id: str
    provider: str | None = None
    model: str | None = None
    answered_by: str | None = None
    """The name of the model in the provider's response."""
    asked_at: int | None = None
    started_at: int | None = None
    first_token_at: int | None = None
    ended_at: int | None = None
    attempt: int = 1
    """Greater than 1 after failed attempts."""
    stop_reason: str | None = None
    usage: Usage | None = None
    cost: int | None = None
    """Cost at the provider, in nano-USD; absent without a known price."""
    price: int | None = None


class ToolStep(Record):
    """One tool call. It starts when the message that requests it is complete, or when the program `parent_id` makes it."""

    tool_id: str
    parent_id: str | None = None
    name: str
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None
    policy: str | None = None
    """The rule that decided about the call."""
    tier: TierName | None = None
    """The tier that ran it."""
    why: tuple[tuple[str, str], ...] = ()
    """The verdict on each tier."""
    session_id: SessionId | None = None
    """The session of the sub-agent that has worked on the call."""


class Moment(Record):
    """One event of a turn, with its details."""

    at: int
    what: Literal["accepted", "queued", "fallback", "interrupted", "parked", "suspended", "resumed", "failed", "ended"]
    details: dict[str, str | int] = msgspec.field(default_factory=dict)


class Stages(Record):
    """The time in each stage, in ms; the sum is the duration."""

    queue: int = 0
    """Time until the first model call: earlier turns, history, quotas, failed attempts."""
    wait: int = 0
    """Time to the first token of each model call."""
    stream: int = 0
    """Time from the first token to the last."""
    tools: int = 0
    other: int = 0
    """Time between a tool and the next model call, of failed attempts, and for storing the end."""
    away: int = 0
    """Time while the server was down."""


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
    """The outcome; absent while it is running."""
    stop_reason: str | None = None
    duration: int
    """The duration in ms, up to now for a running turn."""
    usage: Usage
    cost: int
    price: int
    """The amount that the tenant is charged for the turn and its sub-agents; usage, cost and calls are its own."""
    calls: Sequence[CallStep]
    tools: Sequence[ToolStep]
    moments: Sequence[Moment]
    stages: Stages | None = None
    """The stages; absent when its events were deleted."""
    complete: bool
    """Whether all its events are still stored; usage and cost are known in any case."""


def draw(
    row: Turn,
    events: Iterable[Event],
    ledger: Sequence[LedgerEntry],
    *,
    now: int,
    complete: bool,
    placed: Iterable[PlacedCall] = (),
    price: int | None = None,
) -> Timeline:
    """Returns the timeline of a turn. `events` are in order; without `complete` some may be missing.

    `price` is that of the turn with its sub-agents; None if it has none.
    """
    builder = _TimelineBuilder(row)
    for event in events:
        builder.add(event)
    for call in placed:
        step = builder.tools.get(call.call_id) or ToolStep(tool_id=call.call_id, name=call.tool)
        about = {"policy": call.policy, "tier": call.tier, "why": call.why, "session_id": call.session_id}
        builder.tools[call.call_id] = msgspec.structs.replace(step, **about)
    billed = {entry.key: entry for entry in ledger}
    calls = [_priced(call, billed.pop(call.call_id, None)) for call in builder.calls.values()]
    # Calls whose events were deleted, or never stored.
    calls += [_priced(CallStep(call_id=entry.key, ended_at=entry.at), entry) for entry in billed.values()]
    end = now if row.ended_at is None else row.ended_at
    if row.ended_at is None:
        builder.pass_to(end)
    return record_from(
        Timeline,
        row,
        stop_reason=builder.stop_reason,
        duration=max(0, end - row.accepted_at),
        usage=sum((entry.usage for entry in ledger), NO_USAGE) if ledger else row.usage or NO_USAGE,
        cost=sum(entry.cost or 0 for entry in ledger),
        price=sum(entry.price or 0 for entry in ledger) if price is None else price,
        calls=calls,
        tools=list(builder.tools.values()),
        moments=builder.moments,
        stages=msgspec.convert(builder.stages, Stages) if complete else None,
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


class _TimelineBuilder:
    """Collects the events of a turn."""

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
        """Tools that the last message requested and that have no result yet."""

    def pass_to(self, at: int, stage: Stage | None = None) -> None:
        """Adds the time up to `at` to the current stage, and enters another."""
        # An event may be stored a moment after the end of the turn.
        at = at if self._end is None else min(at, self._end)
        if at > self._at:
            self.stages[self._stage] += at - self._at
            self._at = at
        self._stage = stage or self._stage

    def add(self, event: Event) -> None:
        """Adds an event."""
        at, data = event.timestamp, event.data
        match data:
            case stream.MessageStart():
                self._start(data, at)
            case state.ConversationResponding() | state.ConversationThinking() | stream.ToolUseStart():
                self._speak(at)
                if isinstance(data, stream.ToolUseStart):
                    self.tools[data.tool_call_id] = ToolStep(tool_id=data.tool_call_id, name=data.tool_name)
            case state.ToolExecuting(tool_id=tool_id, tool_name=name, parent_id=str() as program):
                self.tools.setdefault(tool_id, ToolStep(tool_id=tool_id, parent_id=program, name=name, started_at=at))
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
            # An interrupt between two calls ends no message.
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
        if tool.parent_id is not None:
            return
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
            case turn.TurnParked():
                self.pass_to(at, "away")
                self.moments.append(Moment(at=at, what="parked"))
            case turn.TurnResumed(attempt=attempt):
                # A crash has no event: the server was down since the last event before it.
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
