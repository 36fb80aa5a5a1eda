"""Telemetry — what is seen of turns and of the server, sent to an OpenTelemetry collector, where one is set.

Theory of operation. An effector makes spans of turns that end and puts them where a thread finds them; a task looks at the
numbers now and then and puts them there too. The thread sends. What waits for it is bounded, so a collector that is slow or
dead costs the spans for which there is no room, and a warning once a minute. At the end it gets a few seconds for what is left.
"""

import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from agentvm.errors import ConfigInvalid
from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.model.settings import OtelSettings
from agentvm.observability.exposition import Samples
from agentvm.observability.genai import GenAi, Series
from agentvm.observability.metrics import Known
from agentvm.observability.spans import Span
from agentvm.observability.tracing import Tracing

logger = get_logger(__name__)

TIMEOUT: Final = 3.0
"""Seconds that one request may take, with all that is tried again."""
FLUSH: Final = 3.0
"""Seconds that the end waits for what is left to be sent."""
ROOM = 8_192
"""Spans that may wait."""
BATCH = 512
"""Spans of one request."""
QUIET = 60.0
"""Seconds between two warnings."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The numbers of one moment. Times are in ms."""

    since: int
    at: int
    samples: Samples
    series: Sequence[Series]


class Collector(Protocol):
    """Who takes it; each method waits, and says whether it was taken."""

    @property
    def problem(self) -> str:
        """Why the last was not taken: `HTTP 401`, `ConnectTimeout`."""

    def send_spans(self, spans: Sequence[Span]) -> bool: ...

    def send_metrics(self, snapshot: Snapshot) -> bool: ...

    def stop(self) -> None: ...


class Sender:
    """Sends from a thread of its own, which begins with the first there is to send."""

    def __init__(self, collector: Collector, *, room: int = ROOM, now: Callable[[], float] = time.monotonic) -> None:
        self._collector, self._room, self._now = collector, room, now
        self._spans: list[Span] = []
        self._snapshot: Snapshot | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._due = self._busy = self._closing = False
        self.lost = 0
        """Spans that nobody took, since the start."""
        self.failures = 0
        """Requests that were not taken, since the start."""
        self._told = -QUIET
        self._untold = 0

    def put(self, span: Span) -> None:
        """Never waits. Without room the span is lost."""
        with self._changed:
            if self._closing or len(self._spans) >= self._room:
                self.lost += 1
                self._untold += 1
                return
            self._spans.append(span)
            if len(self._spans) >= BATCH:
                self._wake()

    def flush(self, snapshot: Snapshot | None = None) -> None:
        """All that waits is sent now, with the numbers; those that were not sent yet are out of date. Never waits."""
        with self._changed:
            self._snapshot = snapshot or self._snapshot
            if self._spans or self._snapshot is not None:
                self._wake()

    def close(self, seconds: float = FLUSH) -> None:
        """Sends what waits, for so long, and ends."""
        with self._changed:
            if self._spans or self._snapshot is not None:
                self._wake()
            self._changed.wait_for(self._is_idle, seconds)
            self._closing = True
            self._changed.notify_all()
        self._collector.stop()
        if self._thread is not None:
            # A request that was begun ends by itself, in no more than this.
            self._thread.join(TIMEOUT)

    def _is_idle(self) -> bool:
        return not (self._busy or self._due)

    def _wake(self) -> None:
        self._due = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agentvm-otlp", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._due or self._closing)
                if self._closing:
                    return
                spans, snapshot = self._spans, self._snapshot
                self._spans, self._snapshot, self._due, self._busy = [], None, False, True
            self._send(spans, snapshot)

    def _send(self, spans: Sequence[Span], snapshot: Snapshot | None) -> None:
        for start in range(0, len(spans), BATCH):
            batch = spans[start : start + BATCH]
            if self._closing or not self._collector.send_spans(batch):
                # The rest would fare no better, and more is on its way.
                self._failed("traces", len(spans) - start)
                break
        if snapshot is not None and not self._closing and not self._collector.send_metrics(snapshot):
            self._failed("metrics", 0)

    def _failed(self, what: str, lost: int) -> None:
        with self._changed:
            self.failures += 1
            self.lost += lost
            self._untold += lost
            if self._now() - self._told < QUIET:
                return
            self._told, untold, self._untold = self._now(), self._untold, 0
        remedy = "see whether the collector at otel.endpoint answers, and takes it"
        logger.warning("otlp_not_sent", what=what, problem=self._collector.problem, spans_lost=untold, remedy=remedy)


class Telemetry:
    """What is made of events and numbers, and where it goes."""

    def __init__(self, otel: OtelSettings, sender: Sender, tracing: Tracing, genai: GenAi | None, clock: Clock) -> None:
        self._otel, self._sender, self._genai, self._clock = otel, sender, genai, clock
        self.tracing = tracing
        self.since = clock()
        self.samples: Callable[[], Samples] | None = None
        """What the server counts; known when the runtime is. Before that no numbers are sent."""

    def look(self) -> None:
        """Sends what there is now."""
        if self._genai is None or self.samples is None:
            self._sender.flush()
        else:
            self._sender.flush(Snapshot(self.since, self._clock(), self.samples(), self._genai.read()))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await anyio.sleep(self._otel.export_seconds)
            self.look()


@asynccontextmanager
async def open_telemetry(
    otel: OtelSettings,
    *,
    clock: Clock,
    known: Known,
    tools: Callable[[], tuple[str, ...]],
    driver_of: Callable[[str], str],
) -> AsyncIterator[Telemetry]:
    """`ConfigInvalid` without the packages that it needs. Leaving it sends what is left, for a few seconds.

    Whoever opens it runs it, and tells its `tracing` of events.
    """
    collector = await anyio.to_thread.run_sync(_collector_of, otel)
    sender = Sender(collector)
    genai = GenAi(known, driver_of) if otel.metrics == "on" else None
    tracing = Tracing(
        sender.put if otel.traces == "on" else None,
        None if genai is None else genai.note,
        tools=tools,
        driver_of=driver_of,
        ratio=otel.sample_ratio,
    )
    telemetry = Telemetry(otel, sender, tracing, genai, clock)
    logger.info("otlp_opened", host=urlsplit(otel.endpoint or "").hostname, traces=otel.traces, metrics=otel.metrics)
    try:
        yield telemetry
    finally:
        telemetry.look()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(sender.close)


def _collector_of(otel: OtelSettings) -> Collector:
    try:
        # Here, because it costs half a second and memory that only those pay who send.
        from agentvm.observability.otlp import Otlp  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigInvalid(
            f"otel.endpoint: sending traces and metrics needs a package that is not installed ({error.name}); "
            "install it with: pip install 'agentvm[otel]', or unset the endpoint"
        ) from None
    return Otlp(otel)
