"""Metrics — counters and durations of turns, model calls, tools and requests. An Effector.

Theory of operation. It is called between two tokens of an answer, so it only adds to integers; deltas do not reach it, and the
first token is known from the state event that comes with it. Nothing is built until it is requested. A running turn has a few
numbers, which are dropped with its end.

The runtime may report two things twice: the ledger entries of a turn's model calls, with its end, and an end that could not be
stored, once it can be. Both are counted once.

Labels have few values: configured providers, models and tools; all others are "other".
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final

from agentvm.errors import BY_CODE
from agentvm.events import error, lifecycle, state, stream, tool, turn
from agentvm.events.base import Event, EventData
from agentvm.model.ids import Clock, TurnId
from agentvm.model.ledger import LedgerEntry
from agentvm.model.turn import TurnOutcome
from agentvm.model.usage import Usage
from agentvm.observability.histogram import QUICK_BOUNDS_MS, SLOW_BOUNDS_MS, Histogram

OTHER: Final = "other"
LABELS_MAX = 200
"""Pairs of provider and model, or tools, with labels of their own; all further ones share one label."""

UNSTORED_TURNS_MAX = 10_000
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
_TURN_CODES = frozenset(BY_CODE) | {"timeout"}

IsKnownModel = Callable[[str, str], bool]
"""Returns whether a provider's model is configured."""


class ModelCount:
    """The counters of one model, named as in its report."""

    __slots__ = (
        "cache_read_tokens", "cache_write_tokens", "completed", "cost", "estimated_calls", "failed", "input_tokens",
        "interrupted", "output_tokens", "price", "thinking_tokens", "unpriced_calls",
    )  # fmt: skip

    def __init__(self) -> None:
        self.completed = self.interrupted = self.failed = 0
        self.input_tokens = self.output_tokens = self.cache_read_tokens = self.cache_write_tokens = self.thinking_tokens = 0
        self.cost = self.price = 0
        """In nano-USD."""
        self.unpriced_calls = self.estimated_calls = 0

    def add(self, usage: Usage, entry: LedgerEntry | None) -> None:
        """Adds the usage of a call, and its ledger entry."""
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cache_read_tokens += usage.cache_read_tokens
        self.cache_write_tokens += usage.cache_write_tokens
        self.thinking_tokens += usage.thinking_tokens
        self.estimated_calls += usage.estimated
        if entry is not None:
            self.cost += entry.cost or 0
            self.price += entry.price or 0
            self.unpriced_calls += entry.price is None

    @property
    def calls(self) -> int:
        return self.completed + self.interrupted + self.failed


class ToolCount:
    """The counters of one tool."""

    __slots__ = ("abandoned", "completed", "failed")

    def __init__(self) -> None:
        self.completed = self.failed = self.abandoned = 0


class _RunningTurn:
    """The state of a running turn."""

    __slots__ = ("accepted_at", "asked", "asked_at", "calls", "silent", "spoken", "stop", "tools_from", "undecided")

    def __init__(self, accepted_at: int | None) -> None:
        self.accepted_at = accepted_at
        """None for a turn from before a restart, whose times are not known."""
        self.asked: str | None = None
        self.asked_at = 0
        self.silent = False
        """Whether the current call has no output yet."""
        self.spoken = False
        self.stop: str | None = None
        self.tools_from = 0
        self.calls: set[str] = set()
        self.undecided: ModelCount | None = None
        """The call that ended, completed or interrupted: the next event decides."""


class Metrics:
    """The counters of one process since its start. `known` and `tools` decide which names are labels."""

    def __init__(self, clock: Clock, is_known: IsKnownModel, tools: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._clock = clock
        self.known = is_known
        self._tool_names = tools
        self.started_at = clock()
        self.accepted = self.resumed = self.suspended = self.retries = 0
        self.turns: dict[TurnOutcome, int] = {"completed": 0, "interrupted": 0, "failed": 0}
        self.turn_errors: Counter[str] = Counter()
        self.models: dict[tuple[str, str], ModelCount] = {}
        self.tools: dict[str, ToolCount] = {}
        self.fallbacks: Counter[tuple[str, str]] = Counter()
        self.commands: Counter[tuple[str, str]] = Counter()
        """Counts by name and outcome."""
        self.http: Counter[tuple[str, str, str]] = Counter()
        """Counts by method, route template, and status class."""
        self.dropped: Counter[str] = Counter(sessions=0, emptied=0, messages=0, bytes=0)
        """Content that was deleted by retention, by kind."""
        self.turn_time, self.queue_time, self.first_token, self.model_time, self.model_first, self.tool_time = (
            Histogram(SLOW_BOUNDS_MS) for _ in range(6)
        )
        self.commit_time, self.fanout_time, self.command_time, self.http_time = (Histogram(QUICK_BOUNDS_MS) for _ in range(4))
        self._open: dict[TurnId, _RunningTurn] = {}
        self._unstored: dict[TurnId, None] = {}
        # Any: each method takes the kind that it stands behind.
        self._on: dict[type[EventData], Callable[[Event, Any], None]] = {
            turn.TurnRequest: self._on_request,
            turn.TurnResumed: self._on_resumed,
            turn.TurnSuspended: self._on_suspended,
            turn.TurnParked: self._on_parked,
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
            tool.ToolAbandoned: self._on_abandoned,
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

    def answered(self, command: str, *, refused: bool, micros: int) -> None:
        """Counts a command and its reply."""
        self.commands[command, "refused" if refused else "ok"] += 1
        self.command_time.observe(micros)

    def served(self, method: str, route: str, status: int, micros: int | None) -> None:
        """Counts an HTTP request and its response; `route` is the template of its path, `other` without one.

        `micros` is None for a response that lasts as long as the client listens: its duration is not a latency.
        """
        self.http[method if method in METHODS else OTHER, route, f"{status // 100}xx"] += 1
        if micros is not None:
            self.http_time.observe(micros)

    def billed(self, provider: str, entry: LedgerEntry) -> None:
        """Counts a model call outside of turns, which has no event: for a title, or a summary."""
        count = self._count(provider, entry.model)
        count.add(entry.usage, entry)
        count.completed += 1

    # --- turns

    def _on_request(self, event: Event, data: turn.TurnRequest) -> None:
        self.accepted += 1
        self._open[data.turn_id] = _RunningTurn(data.timestamp)
        self.commit_time.observe_ms(self._clock() - event.timestamp)

    def _on_resumed(self, event: Event, data: EventData) -> None:
        self.resumed += 1
        self._find(event).tools_from = event.timestamp

    def _on_suspended(self, event: Event, data: EventData) -> None:
        self.suspended += 1

    def _on_parked(self, event: Event, data: turn.TurnParked) -> None:
        self._open.pop(data.turn_id, None)

    def _on_response(self, event: Event, data: turn.TurnResponse) -> None:
        if self._unstored.pop(data.turn_id, self) is None:
            return
        self._open.pop(data.turn_id, None)
        if event.seq:
            self.commit_time.observe_ms(self._clock() - event.timestamp)
        elif len(self._unstored) < UNSTORED_TURNS_MAX:
            # Reported although the store has failed; it will be reported again when it is stored.
            self._unstored[data.turn_id] = None
        self.turns[data.outcome] += 1
        self.turn_time.observe_ms(data.duration)

    def _on_error(self, event: Event, data: error.ErrorReceived) -> None:
        if event.scope.turn_id not in self._unstored:
            self.turn_errors[data.error_code if data.error_code in _TURN_CODES else OTHER] += 1

    def _find(self, event: Event) -> _RunningTurn:
        turn_id = event.scope.turn_id or TurnId("")
        running = self._open.get(turn_id)
        if running is None:
            running = self._open[turn_id] = _RunningTurn(None)
        return running

    # --- model calls

    def _on_start(self, event: Event, data: stream.MessageStart) -> None:
        now = self._find(event)
        asked_at = event.timestamp if data.asked_at is None else data.asked_at
        if now.asked is None and now.accepted_at is not None:
            self.queue_time.observe_ms(asked_at - now.accepted_at)
        now.asked, now.asked_at, now.silent, now.stop = data.asked or "", asked_at, True, None
        self.retries += data.attempt - 1

    def _on_token(self, event: Event, data: EventData) -> None:
        now = self._find(event)
        if not now.silent:
            return
        now.silent = False
        self.model_first.observe_ms(event.timestamp - now.asked_at)
        if not now.spoken and now.accepted_at is not None:
            self.first_token.observe_ms(event.timestamp - now.accepted_at)
        now.spoken = True

    def _on_stop(self, event: Event, data: stream.MessageStop) -> None:
        now = self._find(event)
        now.stop, now.tools_from = data.stop_reason, event.timestamp

    def _on_called(self, event: Event, data: turn.ModelCalled) -> None:
        if event.scope.turn_id in self._unstored:
            return
        now = self._find(event)
        if data.call_id in now.calls:
            return
        now.calls.add(data.call_id)
        count = self._count_of(now.asked, data)
        count.add(data.usage, data.entry)
        if now.asked is not None:
            self.model_time.observe_ms(event.timestamp - now.asked_at)
        if now.stop is None:
            count.failed += 1
        elif now.stop == "tool_use":
            count.completed += 1
        else:
            now.undecided = count

    def _on_conversation_end(self, event: Event, data: state.ConversationEnd) -> None:
        now = self._find(event)
        if now.undecided is not None:
            if data.reason == "interrupted":
                now.undecided.interrupted += 1
            else:
                now.undecided.completed += 1
            now.undecided = None

    def _count_of(self, named: str | None, data: turn.ModelCalled) -> ModelCount:
        if named:
            provider, _, model = named.partition("/")
        else:
            provider, model = ("", data.model) if data.entry is None else (data.entry.driver, data.entry.model)
        return self._count(provider, model)

    def _count(self, provider: str, model: str) -> ModelCount:
        # Checked for new labels only.
        count = self.models.get((provider, model))
        if count is None:
            key = (provider, model) if self.known(provider, model) else (self._provider(provider), OTHER)
            if key not in self.models and len(self.models) >= LABELS_MAX:
                key = (OTHER, OTHER)
            count = self.models.setdefault(key, ModelCount())
        return count

    def _provider(self, name: str) -> str:
        return name if self.known(name, "") else OTHER

    def _on_fallback(self, event: Event, data: lifecycle.ProviderFallback) -> None:
        self.fallbacks[self._provider(data.from_.partition("/")[0]), self._provider(data.to.partition("/")[0])] += 1

    # --- tools

    def _tool_count(self, tool_name: str) -> ToolCount:
        name = tool_name if tool_name in self._tool_names() else OTHER
        count = self.tools.get(name)
        if count is None:
            if len(self.tools) >= LABELS_MAX:
                name = OTHER
            count = self.tools.setdefault(name, ToolCount())
        return count

    def _on_abandoned(self, event: Event, data: tool.ToolAbandoned) -> None:
        self._tool_count(data.tool_name).abandoned += 1

    def _on_tool(self, event: Event, data: state.ToolCompleted | state.ToolFailedEvent) -> None:
        count = self._tool_count(data.tool_name)
        if isinstance(data, state.ToolFailedEvent):
            count.failed += 1
        else:
            count.completed += 1
        if data.parent_id is None:
            # The time of a program's calls is in that of the program.
            self.tool_time.observe_ms(event.timestamp - self._find(event).tools_from)
