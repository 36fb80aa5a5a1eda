"""Tracing — what was told of a turn as spans, by OpenTelemetry's conventions for generative AI. An Effector, and pure.

Theory of operation. Of a running turn a few numbers per model call and tool are kept; of a delta, nothing. When the turn ends,
its spans are handed on at once: one `invoke_agent` with a `chat` for each model call and an `execute_tool` for each tool below
it. Their ids derive from the turn's id and those of its calls, so whoever reads a log finds the trace, and a turn that was put
off by a restart goes on in the same trace: what it did before is handed on when it is put off.

No span holds what was said, nor a name that a model made up: a tool nobody has is `other`.
"""

from collections.abc import Callable, Collection
from typing import Final

from agentvm.errors import BY_CODE
from agentvm.events import error, lifecycle, state, stream, turn
from agentvm.events.base import Event, EventData
from agentvm.model.ids import AgentId, TenantId, TurnId
from agentvm.model.turn import TurnOutcome
from agentvm.observability.spans import Call, Plain, Span, Tool, chat, execution, span_of, tokens, trace_of, until

OTHER: Final = "other"
UNKNOWN: Final = "_OTHER"
"""What the conventions call an error without a name of its own."""
MOST_TURNS = 10_000
"""Turns that are followed at a time; beyond them the oldest is given up, for it will hardly end."""
MOST_STEPS = 1_000
"""Model calls and tools of one turn that become spans."""
LONGEST = 200
"""Characters of what a provider calls its model, or a call."""
_CODES = frozenset(BY_CODE) | {"timeout"}


class _Open:
    """What is remembered of a turn that runs."""

    __slots__ = ("accepted_at", "calls", "dropped", "error", "moments", "now", "tools", "tools_from")

    def __init__(self, accepted_at: int) -> None:
        self.accepted_at = accepted_at
        self.calls: dict[str, Call] = {}
        self.now: Call | None = None
        self.tools: list[Tool] = []
        self.tools_from = accepted_at
        self.moments: list[tuple[str, int, dict[str, Plain]]] = []
        self.error: str | None = None
        self.dropped = 0


class Tracing:
    """Hands on each span of a turn that ended to `emit`, and each of its calls to `note`.

    `tools` are those that exist; `driver_of` says who speaks to a provider; `name_of` how an agent is called.
    """

    def __init__(
        self,
        emit: Callable[[Span], None] | None,
        note: Callable[[Call], None] | None = None,
        *,
        tools: Callable[[], tuple[str, ...]] = tuple,
        driver_of: Callable[[str], str] = str,
        ratio: float = 1.0,
    ) -> None:
        """Without `emit` there are no spans. `ratio` is the part of all turns that have some."""
        self._emit, self._note = emit, note
        self._tools, self._driver_of = tools, driver_of
        self._below = round(ratio * 2**64)
        self.name_of: Callable[[TenantId, AgentId], str | None] = lambda tenant_id, agent_id: None
        self._open: dict[TurnId, _Open] = {}
        self._unstored: dict[TurnId, None] = {}
        self._on: dict[type[EventData], Callable[[Event], None]] = {
            turn.TurnRequest: self._on_begin,
            turn.TurnResumed: self._on_begin,
            turn.TurnSuspended: self._on_suspended,
            turn.ModelCalled: self._on_called,
            turn.TurnResponse: self._on_response,
            stream.MessageStart: self._on_start,
            stream.MessageStop: self._on_stop,
            stream.ToolUseStart: self._on_token,
            state.ConversationResponding: self._on_token,
            state.ConversationThinking: self._on_token,
            state.ConversationEnd: self._on_conversation_end,
            state.ToolCompleted: self._on_tool,
            state.ToolFailedEvent: self._on_tool,
            error.ErrorReceived: self._on_error,
            lifecycle.ProviderFallback: self._on_fallback,
        }

    @property
    def kinds(self) -> Collection[type[EventData]]:
        return self._on

    def react(self, event: Event) -> None:
        on = self._on.get(type(event.data))
        if on is not None:
            on(event)

    # --- what happens in a turn

    def _find(self, event: Event) -> _Open:
        turn_id = event.scope.turn_id or TurnId("")
        found = self._open.get(turn_id)
        if found is None:
            if len(self._open) >= MOST_TURNS:
                del self._open[next(iter(self._open))]
            found = self._open[turn_id] = _Open(event.timestamp)
        return found

    def _on_begin(self, event: Event) -> None:
        found = self._find(event)
        found.tools_from = event.timestamp
        if isinstance(event.data, turn.TurnResumed):
            found.moments.append(("agentvm.resumed", event.timestamp, {"agentvm.attempt": event.data.attempt}))

    def _on_start(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, stream.MessageStart)
        found = self._find(event)
        provider, _, model = (data.asked or "").partition("/")
        found.now = Call(
            call_id=data.message_id,
            provider=provider,
            model=model or data.model[:LONGEST],
            answered_by=data.model[:LONGEST],
            asked_at=event.timestamp if data.asked_at is None else data.asked_at,
            attempt=data.attempt,
        )
        if len(found.calls) < MOST_STEPS:
            found.calls[data.message_id] = found.now
        else:
            found.dropped += 1

    def _on_token(self, event: Event) -> None:
        now = self._find(event).now
        if now is not None and now.first_at is None:
            now.first_at = event.timestamp

    def _on_stop(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, stream.MessageStop)
        found = self._find(event)
        found.tools_from = event.timestamp
        if found.now is not None and found.now.stop is None:
            found.now.stop, found.now.stopped_at = data.stop_reason, event.timestamp

    def _on_called(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, turn.ModelCalled)
        if event.scope.turn_id in self._unstored:
            return
        found = self._find(event)
        call = found.calls.get(data.call_id)
        if call is None and len(found.calls) < MOST_STEPS and (found.now is None or found.now.call_id != data.call_id):
            # A crash cut it off; what it used is known.
            driver, model = ("", data.model) if data.entry is None else (data.entry.driver, data.entry.model)
            call = Call(data.call_id, driver, model[:LONGEST], data.model[:LONGEST], None, error=UNKNOWN)
            found.calls[data.call_id] = call
        if call is not None and call.usage is None:
            call.usage, call.ended_at = data.usage, event.timestamp

    def _on_conversation_end(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, state.ConversationEnd)
        now = self._find(event).now
        if now is not None and data.reason == "interrupted" and now.stopped_at == event.timestamp:
            now.interrupted = True

    def _on_tool(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, state.ToolCompleted | state.ToolFailedEvent)
        found = self._find(event)
        if len(found.tools) >= MOST_STEPS:
            found.dropped += 1
            return
        name = data.tool_name if data.tool_name in self._tools() else OTHER
        failed = isinstance(data, state.ToolFailedEvent)
        found.tools.append(Tool(data.tool_id, name, found.tools_from, event.timestamp, failed=failed))

    def _on_error(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, error.ErrorReceived)
        if event.scope.turn_id not in self._unstored:
            self._find(event).error = data.error_code if data.error_code in _CODES else UNKNOWN

    def _on_fallback(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, lifecycle.ProviderFallback)
        about: dict[str, Plain] = {"agentvm.from": data.from_, "agentvm.to": data.to, "error.type": data.reason}
        self._find(event).moments.append(("agentvm.provider_fallback", event.timestamp, about))

    # --- its end

    def _on_suspended(self, event: Event) -> None:
        """The next process ends it; what is known here is told now."""
        found = self._open.pop(event.scope.turn_id or TurnId(""), None)
        if found is not None:
            self._steps(event, found, event.timestamp)

    def _on_response(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, turn.TurnResponse)
        if self._unstored.pop(data.turn_id, self) is None:
            # It was told before, though it could not be stored.
            return
        found = self._open.pop(data.turn_id, None) or _Open(data.timestamp - data.duration)
        if not event.seq and len(self._unstored) < MOST_TURNS:
            self._unstored[data.turn_id] = None
        if found.now is not None and found.now.stop is None and data.outcome == "failed":
            found.now.error = found.error or UNKNOWN
        self._steps(event, found, data.timestamp)
        if self._emit is not None and self._sampled(data.turn_id):
            self._emit(self._whole(event, data, found))

    def _whole(self, event: Event, data: turn.TurnResponse, found: _Open) -> Span:
        scope, first = event.scope, next(iter(found.calls.values()), None)
        name = None if scope.agent_id is None else self.name_of(event.tenant_id, scope.agent_id)
        about: dict[str, Plain] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "agentvm" if first is None else self._provider(first),
            "gen_ai.conversation.id": scope.session_id or "",
            "agentvm.turn.id": data.turn_id,
            "agentvm.message.id": data.message_id,
            "agentvm.tenant.id": event.tenant_id,
            "agentvm.outcome": data.outcome,
            "agentvm.stop_reason": data.stop_reason,
            **tokens(data.usage),
        }
        if name is not None:
            about["gen_ai.agent.name"] = name
        if scope.image_id is not None:
            about["gen_ai.agent.id"] = scope.image_id
        if first is not None:
            about["gen_ai.request.model"] = first.model
        if found.dropped:
            about["agentvm.steps_dropped"] = found.dropped
        return Span(
            name=f"invoke_agent {name}" if name else "invoke_agent",
            trace_id=trace_of(data.turn_id),
            span_id=span_of(data.turn_id),
            parent_id=None,
            # Not by the duration alone: its steps have their times from the clock on the wall, and lie within it.
            start=min(found.accepted_at, data.timestamp - data.duration),
            end=data.timestamp,
            attributes=about,
            error=_failure(data.outcome, found.error),
            moments=found.moments,
        )

    def _steps(self, event: Event, found: _Open, end: int) -> None:
        """An event is made a moment before it is told, so what ends with the turn may seem to end after it."""
        turn_id = event.scope.turn_id or TurnId("")
        for call in found.calls.values():
            # One that was put off has no end here; the next process tells of it.
            if self._note is not None and call.ended_at is not None:
                self._note(call)
        if self._emit is None or not self._sampled(turn_id):
            return
        for call in found.calls.values():
            if call.ended_at is not None:
                self._emit(until(end, self._made(turn_id, event, call)))
        for tool in found.tools:
            self._emit(until(end, execution(turn_id, tool)))

    def _made(self, turn_id: TurnId, event: Event, call: Call) -> Span:
        return chat(turn_id, event.scope.session_id or "", call, provider=self._provider(call), at=event.timestamp)

    def _provider(self, call: Call) -> str:
        return self._driver_of(call.provider) or UNKNOWN

    def _sampled(self, turn_id: TurnId) -> bool:
        """As the SDK's own sampler by ratio decides, so that others who see the trace decide alike."""
        return trace_of(turn_id) & (2**64 - 1) < self._below


def _failure(outcome: TurnOutcome, code: str | None) -> str | None:
    return (code or UNKNOWN) if outcome == "failed" else None
