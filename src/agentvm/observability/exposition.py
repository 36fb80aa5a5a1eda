"""Exposition — the metrics in the formats of Prometheus. Names and labels are stable: docs/observability.md.

Samples are taken on the event loop, where the counters change, so that they are of one moment; the text may be rendered in a
thread. No label identifies a tenant or a user.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS_TYPE
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from agentvm.model.money import DOLLAR_NANO
from agentvm.observability.gauges import Gauges
from agentvm.observability.histogram import Histogram
from agentvm.observability.metrics import Metrics, ModelCount
from agentvm.version import VERSION

TEXT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4.removesuffix("; charset=utf-8")
"""The media type without the charset, which the response adds."""

Samples = tuple[Metric, ...]
_MODEL = ("provider", "model")


def samples(metrics: Metrics, gauges: Gauges) -> Samples:
    """All metrics at this moment."""
    return (*_requests(metrics), *_turns(metrics), *_models(metrics), *_stages(metrics), *_levels(gauges), *_process(gauges))


def render(samples: Samples, *, openmetrics: bool = False) -> tuple[bytes, str]:
    """Renders samples; returns the text and its media type. Slow: may run in a thread."""
    collector = _TakenSamples(samples)
    if openmetrics:
        return bytes(generate_openmetrics(collector)), OPENMETRICS_TYPE  # type: ignore[no-untyped-call]
    return generate_latest(collector), TEXT_TYPE


class _TakenSamples(Collector):
    """Samples that were taken before."""

    def __init__(self, samples: Samples) -> None:
        self._taken = samples

    def collect(self) -> Iterable[Metric]:
        return self._taken


def _requests(metrics: Metrics) -> Iterator[Metric]:
    yield _counter(
        "agentvm_commands",
        "Commands that were answered, by name and outcome.",
        ("command", "outcome"),
        metrics.commands.items(),
    )
    yield _counter(
        "agentvm_http_requests",
        "HTTP requests, by method, template of the path, and class of the status.",
        ("method", "route", "status"),
        metrics.http.items(),
    )
    dropped = (((kind,), number) for kind, number in metrics.dropped.items())
    yield _counter("agentvm_retention_dropped", "Content that was deleted by retention, by kind.", ("kind",), dropped)
    yield _histogram("agentvm_command_seconds", "From a command to its reply.", metrics.command_time)
    yield _histogram("agentvm_http_request_seconds", "From an HTTP request to the end of its answer.", metrics.http_time)


def _turns(metrics: Metrics) -> Iterator[Metric]:
    yield _total("agentvm_turns_accepted", "Messages that were accepted.", metrics.accepted)
    ends = (((outcome,), count) for outcome, count in metrics.turns.items())
    yield _counter("agentvm_turns", "Turns that ended, by outcome.", ("outcome",), ends)
    errors = (((code,), count) for code, count in metrics.turn_errors.items())
    yield _counter("agentvm_turn_errors", "Turns that failed, by the code of the error.", ("code",), errors)
    yield _total("agentvm_turns_resumed", "Turns that continued after a restart.", metrics.resumed)
    yield _total("agentvm_turns_suspended", "Turns that were put off by a restart.", metrics.suspended)
    ran = (
        ((name, outcome), count)
        for name, tool in metrics.tools.items()
        for outcome, count in (("completed", tool.completed), ("failed", tool.failed), ("abandoned", tool.abandoned))
    )
    yield _counter("agentvm_tool_runs", "Tools that ran, by name and outcome.", ("tool", "outcome"), ran)


def _models(metrics: Metrics) -> Iterator[Metric]:
    counts = metrics.models.items()
    calls = (
        ((*key, outcome), number)
        for key, count in counts
        for outcome, number in (("completed", count.completed), ("interrupted", count.interrupted), ("failed", count.failed))
    )
    yield _counter("agentvm_model_calls", "Model calls that began to answer, by outcome.", (*_MODEL, "outcome"), calls)
    tokens = (((*key, kind), number) for key, count in counts for kind, number in tokens_of(count))
    yield _counter("agentvm_tokens", "Tokens, by kind; what a cache gave or took is not in `input`.", (*_MODEL, "kind"), tokens)
    cost = ((key, count.cost / DOLLAR_NANO) for key, count in counts)
    yield _counter("agentvm_cost_dollars", "Cost at the providers, where the price is known.", _MODEL, cost)
    price = ((key, count.price / DOLLAR_NANO) for key, count in counts)
    yield _counter("agentvm_price_dollars", "Price for the tenants, where it is known.", _MODEL, price)
    unpriced = ((key, count.unpriced_calls) for key, count in counts)
    yield _counter("agentvm_model_calls_unpriced", "Model calls without a known price.", _MODEL, unpriced)
    estimated = ((key, count.estimated_calls) for key, count in counts)
    yield _counter("agentvm_model_calls_estimated", "Model calls whose tokens are an estimate.", _MODEL, estimated)
    yield _total("agentvm_model_retries", "Failed attempts of model calls that were retried.", metrics.retries)
    yield _counter(
        "agentvm_provider_fallbacks", "Model calls that went to another provider.", ("from", "to"), metrics.fallbacks.items()
    )


def tokens_of(count: ModelCount) -> Iterator[tuple[str, int]]:
    """Yields the tokens of a model by kind."""
    for kind in ("input", "output", "cache_read", "cache_write", "thinking"):
        yield kind, getattr(count, f"{kind}_tokens")


def _stages(metrics: Metrics) -> Iterator[Metric]:
    yield _histogram("agentvm_turn_seconds", "From the message to the end of its turn.", metrics.turn_time)
    yield _histogram("agentvm_time_to_first_token_seconds", "From the message to the first of the answer.", metrics.first_token)
    yield _histogram("agentvm_queue_seconds", "From the message until the model that answered was asked.", metrics.queue_time)
    yield _histogram("agentvm_model_first_token_seconds", "From asking a model to its first token.", metrics.model_first)
    yield _histogram("agentvm_model_call_seconds", "From asking a model to the end of its answer.", metrics.model_time)
    yield _histogram("agentvm_tool_seconds", "From the end of the asking message to a tool's result.", metrics.tool_time)
    yield _histogram("agentvm_commit_seconds", "From an event to its being stored.", metrics.commit_time)
    yield _histogram("agentvm_fanout_seconds", "From the outbox of a client to its socket.", metrics.fanout_time)


def _levels(now: Gauges) -> Iterator[Metric]:
    yield _gauge("agentvm_agents", "Agents in memory.", now.agents)
    yield _gauge("agentvm_containers", "Containers with an agent in memory.", now.containers)
    yield _gauge("agentvm_connections", "Clients that are connected.", now.connections)
    yield _gauge("agentvm_turns_running", "Turns that run.", now.turns_running)
    yield _gauge("agentvm_inbox_messages", "Messages that wait for a turn to end.", now.messages_waiting)
    yield _gauge("agentvm_journal_posts", "Events that are not stored yet.", now.journal_waiting)
    yield _gauge("agentvm_database_jobs", "Reads and writes that wait for the database.", now.database_waiting)
    yield _gauge("agentvm_sessions_quarantined", "Sessions in quarantine.", now.quarantined)
    yield _total("agentvm_agents_evicted", "Idle agents that were unloaded from memory.", now.evicted)
    yield _gauge("agentvm_store_writable", "1 while the database is writable.", int(not now.failing))
    names = [(provider.name,) for provider in now.providers]
    up = (int(provider.state in ("ok", "unknown")) for provider in now.providers)
    yield _gauges("agentvm_provider_up", "1 unless a provider is unavailable.", ("provider",), zip(names, up, strict=True))
    calls = zip(names, (provider.calls or 0 for provider in now.providers), strict=True)
    yield _counter("agentvm_provider_calls", "Calls made with the server's own account.", ("provider",), calls)
    failures = zip(names, (provider.failures or 0 for provider in now.providers), strict=True)
    yield _counter("agentvm_provider_failures", "Calls with the server's own account that failed.", ("provider",), failures)


def _process(now: Gauges) -> Iterator[Metric]:
    yield _gauge("agentvm_event_loop_lag_seconds", "Maximum delay of the event loop in the last 15 s.", now.loop_lag)
    yield _gauge("agentvm_resident_memory_bytes", "Memory of the process.", now.rss)
    if now.open_files is not None:
        yield _gauge("agentvm_open_files", "Files and sockets that are open.", now.open_files)
    yield _gauge("agentvm_database_bytes", "Size of the database.", now.database_bytes)
    yield _gauge("agentvm_database_wal_bytes", "Size of its write-ahead log.", now.wal_bytes)
    if now.disk_free is not None:
        yield _gauge("agentvm_disk_free_bytes", "Free space on the disk of the data.", now.disk_free)
    yield _gauge("agentvm_uptime_seconds", "Since the start.", now.uptime)
    yield _gauges("agentvm_build_info", "Always 1; the label is the release.", ("version",), [((VERSION,), 1)])


def _total(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(name, about, value=value)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _counter(name: str, about: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for label_values, number in values:
        family.add_metric(label_values, number)
    return family


def _gauges(name: str, about: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for label_values, number in values:
        family.add_metric(label_values, number)
    return family


def _histogram(name: str, about: str, durations: Histogram) -> Metric:
    return HistogramMetricFamily(name, about, buckets=list(durations.cumulated()), sum_value=durations.total / 1_000_000)
