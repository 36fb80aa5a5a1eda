"""Tracing — turns as spans, by OpenTelemetry's conventions for generative AI. An Effector, and pure.

Theory of operation. A running turn has a few numbers per model call and tool, and none per delta. When it ends, its spans are
emitted at once: one `invoke_agent`, and below it a `chat` for each model call and an `execute_tool` for each tool. Their ids
derive from the ids of the turn and of its calls, so a trace can be running from the log, and a turn that is suspended by a
restart continues in the same trace: its spans so far are emitted when it is suspended.

No span holds content of messages, nor a name that a model has invented: an unknown tool is `other`.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

from agentvm.errors import BY_CODE
from agentvm.events import error, lifecycle, state, stream, turn
from agentvm.events.base import Event, EventData
from agentvm.model.ids import AgentId, TenantId, TurnId
from agentvm.model.turn import TurnOutcome
from agentvm.observability.spans import Plain, Span, TracedCall, TracedTool, chat, execution, span_of, tokens, trace_of, until

OTHER: Final = "other"
UNKNOWN: Final = "_OTHER"
"""The conventions' name of an unknown error."""
TURNS_MAX = 10_000
"""Turns that are traced at a time; beyond them the oldest is dropped."""
STEPS_MAX = 1_000
"""Model calls and tools of one turn that become spans."""
NAME_CHARACTERS_MAX = 200
"""Characters of the names of models in responses."""
_CODES = frozenset(BY_CODE) | {"timeout"}


class _RunningTrace:
    """The state of a running turn."""

    __slots__ = ("accepted_at", "begun", "calls", "dropped", "error", "moments", "now", "tools", "tools_from")

    def __init__(self, accepted_at: int) -> None:
        self.accepted_at = accepted_at
        self.calls: dict[str, TracedCall] = {}
        self.now: TracedCall | None = None
        self.tools: list[TracedTool] = []
        self.tools_from = accepted_at
        self.begun: dict[str, int] = {}
        """Beginnings of calls that programs make."""
        self.moments: list[tuple[str, int, dict[str, Plain]]] = []
        self.error: str | None = None
        self.dropped = 0


class Tracing:
    """Passes each span of an ended turn to `emit`, and each of its calls to `note`.

    `tools` are the known tools; `driver_of` returns the driver of a provider, `name_of` the name of an agent.
    """

    def __init__(
        self,
        emit: Callable[[Span], None] | None,
        note: Callable[[TracedCall], None] | None = None,
        *,
        tools: Callable[[], tuple[str, ...]] = tuple,
        driver_of: Callable[[str], str] = str,
        ratio: float = 1.0,
    ) -> None:
        """Without `emit` there are no spans. `ratio` is the share of turns that are sampled."""
        self._emit, self._note = emit, note
        self._tools, self._driver_of = tools, driver_of
        self._below = round(ratio * 2**64)
        self.name_of: Callable[[TenantId, AgentId], str | None] = lambda tenant_id, agent_id: None
        self._open: dict[TurnId, _RunningTrace] = {}
        self._unstored: dict[TurnId, None] = {}
        # Any: each method takes the kind that it stands behind.
        self._on: dict[type[EventData], Callable[[Event, Any], None]] = {
            turn.TurnRequest: self._on_begin,
            turn.TurnResumed: self._on_begin,
            turn.TurnSuspended: self._on_suspended,
            turn.TurnParked: self._on_suspended,
            turn.ModelCalled: self._on_called,
            turn.TurnResponse: self._on_response,
            stream.MessageStart: self._on_start,
            stream.MessageStop: self._on_stop,
            stream.ToolUseStart: self._on_token,
            state.ConversationResponding: self._on_token,
            state.ConversationThinking: self._on_token,
            state.ConversationEnd: self._on_conversation_end,
            state.ToolExecuting: self._on_executing,
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
            on(event, event.data)

    # --- during a turn

    def _find(self, event: Event) -> _RunningTrace:
        turn_id = event.scope.turn_id or TurnId("")
        running = self._open.get(turn_id)
        if running is None:
            if len(self._open) >= TURNS_MAX:
                del self._open[next(iter(self._open))]
            running = self._open[turn_id] = _RunningTrace(event.timestamp)
        return running

    def _on_begin(self, event: Event, data: turn.TurnRequest | turn.TurnResumed) -> None:
        running = self._find(event)
        running.tools_from = event.timestamp
        if isinstance(data, turn.TurnResumed):
            running.moments.append(("agentvm.resumed", event.timestamp, {"agentvm.attempt": data.attempt}))

    def _on_start(self, event: Event, data: stream.MessageStart) -> None:
        running = self._find(event)
        provider, _, model = (data.asked or "").partition("/")
        running.now = TracedCall(
            call_id=data.message_id,
            provider=provider,
            model=model or data.model[:NAME_CHARACTERS_MAX],
            answered_by=data.model[:NAME_CHARACTERS_MAX],
            asked_at=event.timestamp if data.asked_at is None else data.asked_at,
            attempt=data.attempt,
        )
        if len(running.calls) < STEPS_MAX:
            running.calls[data.message_id] = running.now
        else:
            running.dropped += 1

    def _on_token(self, event: Event, data: EventData) -> None:
        now = self._find(event).now
        if now is not None and now.first_at is None:
            now.first_at = event.timestamp

    def _on_stop(self, event: Event, data: stream.MessageStop) -> None:
        running = self._find(event)
        running.tools_from = event.timestamp
        if running.now is not None and running.now.stop is None:
            running.now.stop, running.now.stopped_at = data.stop_reason, event.timestamp

    def _on_called(self, event: Event, data: turn.ModelCalled) -> None:
        if event.scope.turn_id in self._unstored:
            return
        running = self._find(event)
        call = running.calls.get(data.call_id)
        if call is None and len(running.calls) < STEPS_MAX and (running.now is None or running.now.call_id != data.call_id):
            # A crash has cut it off; its usage is known.
            driver, model = ("", data.model) if data.entry is None else (data.entry.driver, data.entry.model)
            call = TracedCall(
                data.call_id, driver, model[:NAME_CHARACTERS_MAX], data.model[:NAME_CHARACTERS_MAX], None, error=UNKNOWN
            )
            running.calls[data.call_id] = call
        if call is not None and call.usage is None:
            call.usage, call.ended_at = data.usage, event.timestamp

    def _on_conversation_end(self, event: Event, data: state.ConversationEnd) -> None:
        now = self._find(event).now
        if now is not None and data.reason == "interrupted" and now.stopped_at == event.timestamp:
            now.interrupted = True

    def _on_executing(self, event: Event, data: state.ToolExecuting) -> None:
        if data.parent_id is not None and len(begun := self._find(event).begun) < STEPS_MAX:
            begun[data.tool_id] = event.timestamp

    def _on_tool(self, event: Event, data: state.ToolCompleted | state.ToolFailedEvent) -> None:
        running = self._find(event)
        if len(running.tools) >= STEPS_MAX:
            running.dropped += 1
            return
        name = data.tool_name if data.tool_name in self._tools() else OTHER
        failed = isinstance(data, state.ToolFailedEvent)
        began_at = running.begun.pop(data.tool_id, running.tools_from)
        running.tools.append(TracedTool(data.tool_id, name, began_at, event.timestamp, failed=failed))

    def _on_error(self, event: Event, data: error.ErrorReceived) -> None:
        if event.scope.turn_id not in self._unstored:
            self._find(event).error = data.error_code if data.error_code in _CODES else UNKNOWN

    def _on_fallback(self, event: Event, data: lifecycle.ProviderFallback) -> None:
        attributes: dict[str, Plain] = {"agentvm.from": data.from_, "agentvm.to": data.to, "error.type": data.reason}
        self._find(event).moments.append(("agentvm.provider_fallback", event.timestamp, attributes))

    # --- the end of a turn

    def _on_suspended(self, event: Event, data: EventData) -> None:
        """Emits the spans so far; the next process emits the rest."""
        running = self._open.pop(event.scope.turn_id or TurnId(""), None)
        if running is not None:
            self._steps(event, running, event.timestamp)

    def _on_response(self, event: Event, data: turn.TurnResponse) -> None:
        if self._unstored.pop(data.turn_id, self) is None:
            # Reported before, although it could not be stored.
            return
        running = self._open.pop(data.turn_id, None) or _RunningTrace(data.timestamp - data.duration)
        if not event.seq and len(self._unstored) < TURNS_MAX:
            self._unstored[data.turn_id] = None
        if running.now is not None and running.now.stop is None and data.outcome == "failed":
            running.now.error = running.error or UNKNOWN
        self._steps(event, running, data.timestamp)
        if self._emit is not None and self._sampled(data.turn_id):
            self._emit(self._turn_span(event, data, running))

    def _turn_span(self, event: Event, data: turn.TurnResponse, running: _RunningTrace) -> Span:
        scope, first = event.scope, next(iter(running.calls.values()), None)
        name = None if scope.agent_id is None else self.name_of(event.tenant_id, scope.agent_id)
        attributes: dict[str, Plain] = {
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
            attributes["gen_ai.agent.name"] = name
        if scope.image_id is not None:
            attributes["gen_ai.agent.id"] = scope.image_id
        if first is not None:
            attributes["gen_ai.request.model"] = first.model
        if running.dropped:
            attributes["agentvm.steps_dropped"] = running.dropped
        return Span(
            name=f"invoke_agent {name}" if name else "invoke_agent",
            trace_id=trace_of(data.turn_id),
            span_id=span_of(data.turn_id),
            parent_id=None,
            # Not by the duration alone: its steps have wall-clock times and must lie within it.
            start=min(running.accepted_at, data.timestamp - data.duration),
            end=data.timestamp,
            attributes=attributes,
            error=_failure(data.outcome, running.error),
            moments=running.moments,
        )

    def _steps(self, event: Event, running: _RunningTrace, end: int) -> None:
        """Emits the spans of calls and tools, cut at the end of the turn: their last events may come a moment later."""
        turn_id = event.scope.turn_id or TurnId("")
        for call in running.calls.values():
            # A suspended call has no end here; the next process reports it.
            if self._note is not None and call.ended_at is not None:
                self._note(call)
        if self._emit is None or not self._sampled(turn_id):
            return
        for call in running.calls.values():
            if call.ended_at is not None:
                self._emit(until(end, self._chat_span(turn_id, event, call)))
        for tool in running.tools:
            self._emit(until(end, execution(turn_id, tool)))

    def _chat_span(self, turn_id: TurnId, event: Event, call: TracedCall) -> Span:
        return chat(turn_id, event.scope.session_id or "", call, provider=self._provider(call), at=event.timestamp)

    def _provider(self, call: TracedCall) -> str:
        return self._driver_of(call.provider) or UNKNOWN

    def _sampled(self, turn_id: TurnId) -> bool:
        """Whether a turn is sampled: as the SDK's ratio sampler decides, so that other services decide alike."""
        return trace_of(turn_id) & (2**64 - 1) < self._below


def _failure(outcome: TurnOutcome, code: str | None) -> str | None:
    return (code or UNKNOWN) if outcome == "failed" else None
