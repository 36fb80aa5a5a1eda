"""Metrics — counts what happens, from the events that are told. An Effector.

Theory of operation. It is called for every event, between two tokens of an answer, so what it does for a delta is to find that
it has nothing to do: the first token is known from the state event that comes with it. For the few other events it adds to
integers. Nothing is built until somebody asks. Of a running turn it remembers a few numbers, which go with the turn's end.

The runtime may tell two things twice: the entries of a turn's model calls, with its end, and an end that could not be stored,
once it can be. Both are counted once.

Labels have few values, whatever clients say: providers, models and tools the operator knows; all others are "other".
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from agentvm.errors import BY_CODE
from agentvm.events import error, lifecycle, state, stream, turn
from agentvm.events.base import Event, EventData
from agentvm.model.ids import Clock, TurnId
from agentvm.model.ledger import LedgerEntry
from agentvm.model.turn import TurnOutcome
from agentvm.model.usage import Usage
from agentvm.observability.histogram import QUICK, SLOW, Histogram

OTHER: Final = "other"
MOST_LABELS = 200
"""Pairs of provider and model, or tools, that are told apart; an operator with more sees the rest as one."""

MOST_UNSTORED = 10_000
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
_TURN_CODES = frozenset(BY_CODE) | {"timeout"}

Known = Callable[[str, str], bool]
"""Whether the operator knows a provider's model."""


class ModelCount:
    """What one model did."""

    __slots__ = (
        "cache_read", "cache_write", "completed", "cost", "estimated", "failed", "input", "interrupted", "output", "price",
        "thinking", "unpriced",
    )  # fmt: skip

    def __init__(self) -> None:
        self.completed = self.interrupted = self.failed = 0
        self.input = self.output = self.cache_read = self.cache_write = self.thinking = 0
        self.cost = self.price = 0
        """In nano-USD."""
        self.unpriced = self.estimated = 0

    def add(self, used: Usage, entry: LedgerEntry | None) -> None:
        """What a call used, and what the ledger says of it."""
        self.input += used.input_tokens
        self.output += used.output_tokens
        self.cache_read += used.cache_read_tokens
        self.cache_write += used.cache_write_tokens
        self.thinking += used.thinking_tokens
        self.estimated += used.estimated
        if entry is not None:
            self.cost += entry.cost or 0
            self.price += entry.price or 0
            self.unpriced += entry.price is None

    @property
    def calls(self) -> int:
        return self.completed + self.interrupted + self.failed


class ToolCount:
    """What one tool did."""

    __slots__ = ("completed", "failed")

    def __init__(self) -> None:
        self.completed = self.failed = 0


class _Open:
    """What is remembered of a turn that runs."""

    __slots__ = ("accepted_at", "asked", "asked_at", "calls", "silent", "spoken", "stop", "tools_from", "undecided")

    def __init__(self, accepted_at: int | None) -> None:
        self.accepted_at = accepted_at
        """None for one from before a restart: what it waited for then is not known."""
        self.asked: str | None = None
        self.asked_at = 0
        self.silent = False
        """Whether the call that runs has said nothing yet."""
        self.spoken = False
        self.stop: str | None = None
        self.tools_from = 0
        self.calls: set[str] = set()
        self.undecided: ModelCount | None = None
        """The call that ended, by itself or stopped: what comes next says which."""


class Metrics:
    """The counts of one process since it started. `known` and `tools` say what may be a label."""

    def __init__(self, clock: Clock, known: Known, tools: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._clock = clock
        self.known = known
        self._tool_names = tools
        self.started_at = clock()
        self.accepted = self.resumed = self.suspended = self.retries = 0
        self.turns: dict[TurnOutcome, int] = {"completed": 0, "interrupted": 0, "failed": 0}
        self.turn_errors: Counter[str] = Counter()
        self.models: dict[tuple[str, str], ModelCount] = {}
        self.tools: dict[str, ToolCount] = {}
        self.fallbacks: Counter[tuple[str, str]] = Counter()
        self.commands: Counter[tuple[str, str]] = Counter()
        """By name and outcome."""
        self.http: Counter[tuple[str, str, str]] = Counter()
        """By method, template of the route, and class of the status."""
        self.dropped: Counter[str] = Counter(sessions=0, emptied=0, messages=0, bytes=0)
        """What tenants did not want to keep any longer, by kind."""
        self.turn_time, self.queue_time, self.first_token, self.model_time, self.model_first, self.tool_time = (
            Histogram(SLOW) for _ in range(6)
        )
        self.commit_time, self.fanout_time, self.command_time, self.http_time = (Histogram(QUICK) for _ in range(4))
        self._open: dict[TurnId, _Open] = {}
        self._unstored: dict[TurnId, None] = {}
        self._on: dict[type[EventData], Callable[[Event], None]] = {
            turn.TurnRequest: self._on_request,
            turn.TurnResumed: self._on_resumed,
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

    def answered(self, command: str, *, refused: bool, micros: int) -> None:
        """A command was answered."""
        self.commands[command, "refused" if refused else "ok"] += 1
        self.command_time.observe(micros)

    def served(self, method: str, route: str, status: int, micros: int | None) -> None:
        """An HTTP request was answered; `route` is the template of its path, `other` where nothing is.

        `micros` is None for an answer that went on for as long as somebody listened: that says nothing of how fast we are.
        """
        self.http[method if method in METHODS else OTHER, route, f"{status // 100}xx"] += 1
        if micros is not None:
            self.http_time.observe(micros)

    def billed(self, provider: str, entry: LedgerEntry) -> None:
        """A model call beside all turns, of which no event tells: for a title, or a summary."""
        count = self._count(provider, entry.model)
        count.add(entry.usage, entry)
        count.completed += 1

    # --- turns

    def _on_request(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, turn.TurnRequest)
        self.accepted += 1
        self._open[data.turn_id] = _Open(data.timestamp)
        self.commit_time.observe_ms(self._clock() - event.timestamp)

    def _on_resumed(self, event: Event) -> None:
        self.resumed += 1
        self._find(event).tools_from = event.timestamp

    def _on_suspended(self, event: Event) -> None:
        self.suspended += 1

    def _on_response(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, turn.TurnResponse)
        if self._unstored.pop(data.turn_id, self) is None:
            return
        self._open.pop(data.turn_id, None)
        if event.seq:
            self.commit_time.observe_ms(self._clock() - event.timestamp)
        elif len(self._unstored) < MOST_UNSTORED:
            # Told though the store refuses; it will be told again when it is stored.
            self._unstored[data.turn_id] = None
        self.turns[data.outcome] += 1
        self.turn_time.observe_ms(data.duration)

    def _on_error(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, error.ErrorReceived)
        if event.scope.turn_id not in self._unstored:
            self.turn_errors[data.error_code if data.error_code in _TURN_CODES else OTHER] += 1

    def _find(self, event: Event) -> _Open:
        turn_id = event.scope.turn_id or TurnId("")
        found = self._open.get(turn_id)
        if found is None:
            found = self._open[turn_id] = _Open(None)
        return found

    # --- model calls

    def _on_start(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, stream.MessageStart)
        now = self._find(event)
        asked_at = event.timestamp if data.asked_at is None else data.asked_at
        if now.asked is None and now.accepted_at is not None:
            self.queue_time.observe_ms(asked_at - now.accepted_at)
        now.asked, now.asked_at, now.silent, now.stop = data.asked or "", asked_at, True, None
        self.retries += data.attempt - 1

    def _on_token(self, event: Event) -> None:
        now = self._find(event)
        if not now.silent:
            return
        now.silent = False
        self.model_first.observe_ms(event.timestamp - now.asked_at)
        if not now.spoken and now.accepted_at is not None:
            self.first_token.observe_ms(event.timestamp - now.accepted_at)
        now.spoken = True

    def _on_stop(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, stream.MessageStop)
        now = self._find(event)
        now.stop, now.tools_from = data.stop_reason, event.timestamp

    def _on_called(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, turn.ModelCalled)
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

    def _on_conversation_end(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, state.ConversationEnd)
        now = self._find(event)
        if now.undecided is not None:
            if data.reason == "interrupted":
                now.undecided.interrupted += 1
            else:
                now.undecided.completed += 1
            now.undecided = None

    def _count_of(self, asked: str | None, data: turn.ModelCalled) -> ModelCount:
        if asked:
            provider, _, model = asked.partition("/")
        else:
            provider, model = ("", data.model) if data.entry is None else (data.entry.driver, data.entry.model)
        return self._count(provider, model)

    def _count(self, provider: str, model: str) -> ModelCount:
        # What is there was known when it came, so this is asked rarely.
        count = self.models.get((provider, model))
        if count is None:
            key = (provider, model) if self.known(provider, model) else (self._provider(provider), OTHER)
            if key not in self.models and len(self.models) >= MOST_LABELS:
                key = (OTHER, OTHER)
            count = self.models.setdefault(key, ModelCount())
        return count

    def _provider(self, name: str) -> str:
        return name if self.known(name, "") else OTHER

    def _on_fallback(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, lifecycle.ProviderFallback)
        self.fallbacks[self._provider(data.from_.partition("/")[0]), self._provider(data.to.partition("/")[0])] += 1

    # --- tools

    def _on_tool(self, event: Event) -> None:
        data = event.data
        assert isinstance(data, state.ToolCompleted | state.ToolFailedEvent)
        name = data.tool_name if data.tool_name in self._tool_names() else OTHER
        count = self.tools.get(name)
        if count is None:
            if len(self.tools) >= MOST_LABELS:
                name = OTHER
            count = self.tools.setdefault(name, ToolCount())
        if isinstance(data, state.ToolFailedEvent):
            count.failed += 1
        else:
            count.completed += 1
        self.tool_time.observe_ms(event.timestamp - self._find(event).tools_from)
