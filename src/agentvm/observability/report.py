"""Report — the metrics as JSON. Names are stable: fields are added, never renamed.

Counts are since the start of the process, durations in ms, money in nano-USD. Quantiles are as fine as the buckets.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from agentvm.drivers.health import ProviderHealth
from agentvm.model.base import Record
from agentvm.model.ledger import UsageRow
from agentvm.observability.gauges import Gauges
from agentvm.observability.histogram import Histogram
from agentvm.observability.metrics import Metrics
from agentvm.version import VERSION


class Latency(Record):
    """Durations in ms. Quantiles are absent without observations."""

    count: int
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class CommandReport(Record):
    name: str
    ok: int
    refused: int


class HttpReport(Record):
    method: str
    route: str
    status: str
    count: int


class RequestReport(Record):
    commands: Sequence[CommandReport]
    http: Sequence[HttpReport]


class TurnReport(Record):
    accepted: int
    completed: int
    interrupted: int
    failed: int
    resumed: int
    suspended: int
    success_rate: float | None = None
    """Share of completed turns among those that were not interrupted, from 0 to 1; absent while none has ended."""
    errors: dict[str, int]
    """Counts by error code."""


class ModelReport(Record):
    provider: str
    model: str
    calls: int
    completed: int
    interrupted: int
    failed: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    thinking_tokens: int
    estimated_calls: int
    unpriced_calls: int
    cost: int
    price: int


class ToolReport(Record):
    name: str
    completed: int
    failed: int


class LatencyReport(Record):
    """Latencies of the stages of turns, and of requests."""

    turn: Latency
    first_token: Latency
    queue: Latency
    model_first_token: Latency
    model_call: Latency
    tool: Latency
    commit: Latency
    fanout: Latency
    command: Latency
    http: Latency


class ActiveReport(Record):
    agents: int
    containers: int
    connections: int
    turns: int


class QueueReport(Record):
    inbox: int
    journal: int
    database: int


class ProcessReport(Record):
    version: str
    uptime_seconds: float
    loop_lag_ms: float
    rss_bytes: int
    open_files: int | None = None
    database_bytes: int
    wal_bytes: int
    disk_free_bytes: int | None = None
    store_writable: bool


class ServerMetrics(Record):
    """The metrics of the whole server since its start."""

    scope: Literal["server"]
    requests: RequestReport
    turns: TurnReport
    models: Sequence[ModelReport]
    retries: int
    fallbacks: int
    tools: Sequence[ToolReport]
    latency: LatencyReport
    active: ActiveReport
    queues: QueueReport
    evicted_agents: int
    quarantined_sessions: int
    providers: Sequence[ProviderHealth]
    process: ProcessReport


class TenantMetrics(Record):
    """The metrics of one tenant, or of one of its users: usage of the ledger, and running turns."""

    scope: Literal["tenant", "user"]
    turns_running: int
    messages_waiting: int
    connections: int
    today: UsageRow
    """Usage since midnight, UTC."""
    month: UsageRow
    total: UsageRow


def server_report(metrics: Metrics, now: Gauges) -> ServerMetrics:
    """Returns the report of the whole server."""
    return ServerMetrics(
        scope="server",
        requests=RequestReport(commands=list(_commands(metrics)), http=list(_http(metrics))),
        turns=_turns(metrics),
        models=list(_models(metrics)),
        retries=metrics.retries,
        fallbacks=sum(metrics.fallbacks.values()),
        tools=[ToolReport(name=name, completed=count.completed, failed=count.failed) for name, count in metrics.tools.items()],
        latency=_latencies(metrics),
        active=ActiveReport(agents=now.agents, containers=now.containers, connections=now.connections, turns=now.turns_running),
        queues=QueueReport(inbox=now.messages_waiting, journal=now.journal_waiting, database=now.database_waiting),
        evicted_agents=now.evicted,
        quarantined_sessions=now.quarantined,
        providers=now.providers,
        process=ProcessReport(
            version=VERSION,
            uptime_seconds=now.uptime,
            loop_lag_ms=round(now.loop_lag * 1000, 3),
            rss_bytes=now.rss,
            open_files=now.open_files,
            database_bytes=now.database_bytes,
            wal_bytes=now.wal_bytes,
            disk_free_bytes=now.disk_free,
            store_writable=not now.failing,
        ),
    )


def _commands(metrics: Metrics) -> Iterator[CommandReport]:
    for name in sorted({name for name, _ in metrics.commands}):
        yield CommandReport(name=name, ok=metrics.commands[name, "ok"], refused=metrics.commands[name, "refused"])


def _http(metrics: Metrics) -> Iterator[HttpReport]:
    for (method, route, status), count in sorted(metrics.http.items()):
        yield HttpReport(method=method, route=route, status=status, count=count)


def _turns(metrics: Metrics) -> TurnReport:
    ended = metrics.turns
    decided = ended["completed"] + ended["failed"]
    return TurnReport(
        accepted=metrics.accepted,
        completed=ended["completed"],
        interrupted=ended["interrupted"],
        failed=ended["failed"],
        resumed=metrics.resumed,
        suspended=metrics.suspended,
        success_rate=round(ended["completed"] / decided, 6) if decided else None,
        errors=dict(sorted(metrics.turn_errors.items())),
    )


def _models(metrics: Metrics) -> Iterator[ModelReport]:
    for (provider, model), count in sorted(metrics.models.items()):
        numbers = {name: getattr(count, name) for name in ModelReport.__struct_fields__ if name not in ("provider", "model")}
        yield ModelReport(provider=provider, model=model, **numbers)


def _latencies(metrics: Metrics) -> LatencyReport:
    return LatencyReport(
        turn=_latency(metrics.turn_time),
        first_token=_latency(metrics.first_token),
        queue=_latency(metrics.queue_time),
        model_first_token=_latency(metrics.model_first),
        model_call=_latency(metrics.model_time),
        tool=_latency(metrics.tool_time),
        commit=_latency(metrics.commit_time),
        fanout=_latency(metrics.fanout_time),
        command=_latency(metrics.command_time),
        http=_latency(metrics.http_time),
    )


def _latency(durations: Histogram) -> Latency:
    count = durations.count
    if not count:
        return Latency(count=0)
    p50, p95, p99 = (durations.quantile(part) for part in (0.5, 0.95, 0.99))
    return Latency(count=count, mean=round(durations.total / count / 1000, 3), p50=p50, p95=p95, p99=p99)
