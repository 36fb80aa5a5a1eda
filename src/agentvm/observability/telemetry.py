"""Telemetry — exports traces and metrics to an OpenTelemetry collector, if one is configured.

Theory of operation. An effector makes spans of ended turns and queues them for a thread; a task queues the metrics at
intervals. The thread sends. Its queue is bounded, so a slow or dead collector costs spans and a warning once a minute. At
shutdown it has a few seconds for the rest.
"""

import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from agentvm.errors import ConfigInvalid
from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.model.settings import OtelSettings
from agentvm.observability.exposition import Samples
from agentvm.observability.genai import GenAi, HistogramSeries
from agentvm.observability.metrics import IsKnownModel
from agentvm.observability.spans import Span
from agentvm.observability.tracing import Tracing

logger = get_logger(__name__)

REQUEST_TIMEOUT_SECONDS = 3.0
"""Timeout of one request, with its retries."""
FLUSH_SECONDS = 3.0
"""Time for sending the rest at shutdown."""
WAITING_SPANS_MAX = 8_192
"""Spans in the queue."""
BATCH_SPANS_MAX = 512
"""Spans in one request."""
WARNING_INTERVAL_SECONDS = 60.0
"""Minimum time between two warnings."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The metrics at one moment. Times are in ms."""

    since: int
    at: int
    samples: Samples
    series: Sequence[HistogramSeries]


class Collector(Protocol):
    """A collector. Its methods wait, and return whether the data was accepted."""

    @property
    def problem(self) -> str:
        """The reason of the last failure: `HTTP 401`, `ConnectTimeout`."""

    def send_spans(self, spans: Sequence[Span]) -> bool: ...

    def send_metrics(self, snapshot: Snapshot) -> bool: ...

    def stop(self) -> None: ...


class Sender:
    """Sends from a thread of its own, which starts with the first span or metrics."""

    def __init__(
        self, collector: Collector, *, room: int = WAITING_SPANS_MAX, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._collector, self._room, self._now = collector, room, now
        self._spans: list[Span] = []
        self._snapshot: Snapshot | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._due = self._busy = self._closing = False
        self.lost = 0
        """Spans lost since the start."""
        self.failures = 0
        """Requests failed since the start."""
        self._warned_at = -WARNING_INTERVAL_SECONDS
        self._untold = 0

    def put(self, span: Span) -> None:
        """Queues a span. Never waits; with a full queue the span is lost."""
        with self._changed:
            if self._closing or len(self._spans) >= self._room:
                self.lost += 1
                self._untold += 1
                return
            self._spans.append(span)
            if len(self._spans) >= BATCH_SPANS_MAX:
                self._wake()

    def flush(self, snapshot: Snapshot | None = None) -> None:
        """Starts sending the queue and the metrics, which replace those not sent yet. Never waits."""
        with self._changed:
            self._snapshot = snapshot or self._snapshot
            if self._spans or self._snapshot is not None:
                self._wake()

    def close(self) -> None:
        """Sends the queue, with a timeout, and ends the thread."""
        with self._changed:
            if self._spans or self._snapshot is not None:
                self._wake()
            self._changed.wait_for(self._is_idle, FLUSH_SECONDS)
            self._closing = True
            self._changed.notify_all()
        self._collector.stop()
        if self._thread is not None:
            # A running request ends by itself within this timeout.
            self._thread.join(REQUEST_TIMEOUT_SECONDS)

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
        for start in range(0, len(spans), BATCH_SPANS_MAX):
            batch = spans[start : start + BATCH_SPANS_MAX]
            if self._closing or not self._collector.send_spans(batch):
                # The rest would fail, too, and more spans will come.
                self._failed("traces", len(spans) - start)
                break
        if snapshot is not None and not self._closing and not self._collector.send_metrics(snapshot):
            self._failed("metrics", 0)

    def _failed(self, signal: str, lost: int) -> None:
        with self._changed:
            self.failures += 1
            self.lost += lost
            self._untold += lost
            if self._now() - self._warned_at < WARNING_INTERVAL_SECONDS:
                return
            self._warned_at, untold, self._untold = self._now(), self._untold, 0
        remedy = "check the collector at otel.endpoint"
        logger.warning("otlp_not_sent", what=signal, problem=self._collector.problem, spans_lost=untold, remedy=remedy)


class Telemetry:
    """The export of one server."""

    def __init__(self, otel: OtelSettings, sender: Sender, tracing: Tracing, genai: GenAi | None, clock: Clock) -> None:
        self._otel, self._sender, self._genai, self._clock = otel, sender, genai, clock
        self.tracing = tracing
        self.since = clock()
        self.samples: Callable[[], Samples] | None = None
        """The metrics of the server, once its runtime is open; before that none are sent."""

    def export(self) -> None:
        """Starts an export."""
        if self._genai is None or self.samples is None:
            self._sender.flush()
        else:
            self._sender.flush(Snapshot(self.since, self._clock(), self.samples(), self._genai.read()))

    async def run(self) -> None:
        """Exports at intervals until cancelled."""
        while True:
            await anyio.sleep(self._otel.export_seconds)
            self.export()


@asynccontextmanager
async def open_telemetry(
    otel: OtelSettings,
    *,
    clock: Clock,
    is_known: IsKnownModel,
    tools: Callable[[], tuple[str, ...]],
    driver_of: Callable[[str], str],
) -> AsyncIterator[Telemetry]:
    """Opens the export. `ConfigInvalid` without the packages that it needs. Leaving it sends the rest, for a few seconds.

    The caller runs it, and hands events to its `tracing`.
    """
    collector = await anyio.to_thread.run_sync(_collector_of, otel)
    sender = Sender(collector)
    genai = GenAi(is_known, driver_of) if otel.metrics == "on" else None
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
        telemetry.export()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(sender.close)


def _collector_of(otel: OtelSettings) -> Collector:
    try:
        # Imported here: it takes half a second and memory.
        from agentvm.observability.otlp import Otlp  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigInvalid(
            f"otel.endpoint: sending traces and metrics needs a package that is not installed ({error.name}); "
            "install it with: pip install 'agentvm[otel]', or unset the endpoint"
        ) from None
    return Otlp(otel)
