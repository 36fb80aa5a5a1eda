"""Series — the course of the main metrics: one sample a minute, of the last 24 hours.

In memory only: a restart begins a new series, which says since when it is recorded. A sample is a row of floats, so all of
them take less than half a megabyte.
"""

import math
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import anyio

from agentvm.model.base import Record
from agentvm.model.ids import Clock
from agentvm.observability.gauges import Gauges
from agentvm.observability.histogram import Histogram
from agentvm.observability.metrics import Metrics

INTERVAL_SECONDS: Final = 60
SAMPLES_MAX: Final = 24 * 60

Column = Sequence[float | None]


class SeriesColumns(Record):
    """One value for each sample; null without an observation. Durations in ms, sizes in bytes.

    Turns, calls and money are those of the minute; quantiles are of the turns and calls that ended in it; all others are levels
    at its end.
    """

    turns_completed: Column
    turns_failed: Column
    turns_interrupted: Column
    turns_running: Column
    messages_waiting: Column
    first_token_p50: Column
    first_token_p95: Column
    queue_p50: Column
    model_first_token_p50: Column
    model_call_p50: Column
    tool_p50: Column
    commit_p95: Column
    fanout_p95: Column
    loop_lag_ms: Column
    journal_waiting: Column
    database_waiting: Column
    rss_bytes: Column
    database_bytes: Column
    wal_bytes: Column
    disk_free_bytes: Column
    connections: Column
    agents: Column
    model_calls: Column
    price: Column
    """In nano-USD."""


class MetricSeries(Record):
    """Samples in the order of their time. Nothing is known from before `since`, the start of the process."""

    since: int
    interval_seconds: int
    at: Sequence[int]
    columns: SeriesColumns


class SeriesRecorder:
    """The samples. `run` takes them; `gauges` reads the levels."""

    def __init__(self, metrics: Metrics, gauges: Callable[[], Gauges], clock: Clock) -> None:
        self._metrics, self._gauges, self._clock = metrics, gauges, clock
        self._samples: deque[tuple[int, array[float]]] = deque(maxlen=SAMPLES_MAX)
        self._since = metrics.started_at
        self._counted: dict[str, int] = {}
        self._buckets: dict[str, tuple[int, ...]] = {}

    async def run(self) -> None:
        """Takes samples until cancelled."""
        while True:
            await anyio.sleep(INTERVAL_SECONDS)
            self.take()

    def take(self) -> None:
        """Takes a sample: gauges as they are, counters as the increase since the last sample."""
        metrics, now = self._metrics, self._gauges()
        models = metrics.models.values()
        row: dict[str, float | None] = {
            "turns_completed": self._since_last("completed", metrics.turns["completed"]),
            "turns_failed": self._since_last("failed", metrics.turns["failed"]),
            "turns_interrupted": self._since_last("interrupted", metrics.turns["interrupted"]),
            "turns_running": now.turns_running,
            "messages_waiting": now.messages_waiting,
            **self._quantiles(),
            "loop_lag_ms": round(now.loop_lag * 1000, 3),
            "journal_waiting": now.journal_waiting,
            "database_waiting": now.database_waiting,
            "rss_bytes": now.rss,
            "database_bytes": now.database_bytes,
            "wal_bytes": now.wal_bytes,
            "disk_free_bytes": now.disk_free,
            "connections": now.connections,
            "agents": now.agents,
            "model_calls": self._since_last("calls", sum(count.calls for count in models)),
            "price": self._since_last("price", sum(count.price for count in models)),
        }
        values = [row[name] for name in SeriesColumns.__struct_fields__]
        # Of a list, so that the array is no larger than it must be.
        self._samples.append((self._clock(), array("d", [math.nan if value is None else value for value in values])))

    def read(self, since: int | None = None) -> MetricSeries:
        """Returns the samples, or those from `since` on."""
        samples = [sample for sample in self._samples if since is None or sample[0] >= since]
        columns = {
            name: [_shown(row[index]) for _, row in samples] for index, name in enumerate(SeriesColumns.__struct_fields__)
        }
        return MetricSeries(
            since=self._since,
            interval_seconds=INTERVAL_SECONDS,
            at=[at for at, _ in samples],
            columns=SeriesColumns(**columns),
        )

    def _since_last(self, name: str, count: int) -> int:
        difference = count - self._counted.get(name, 0)
        self._counted[name] = count
        return difference

    def _quantiles(self) -> dict[str, float | None]:
        metrics = self._metrics
        first = self._window("first_token", metrics.first_token)
        return {
            "first_token_p50": first.quantile(0.5),
            "first_token_p95": first.quantile(0.95),
            "queue_p50": self._window("queue", metrics.queue_time).quantile(0.5),
            "model_first_token_p50": self._window("model_first", metrics.model_first).quantile(0.5),
            "model_call_p50": self._window("model", metrics.model_time).quantile(0.5),
            "tool_p50": self._window("tool", metrics.tool_time).quantile(0.5),
            "commit_p95": self._window("commit", metrics.commit_time).quantile(0.95),
            "fanout_p95": self._window("fanout", metrics.fanout_time).quantile(0.95),
        }

    def _window(self, name: str, durations: Histogram) -> Histogram:
        window = durations.after(self._buckets.get(name, ()))
        self._buckets[name] = durations.counts
        return window


def _shown(value: float) -> float | None:
    if math.isnan(value):
        return None
    # Most are counts.
    return int(value) if value.is_integer() else value
