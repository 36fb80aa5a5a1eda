"""OTLP — sends spans and metrics with OpenTelemetry's exporters: protobuf over HTTP.

The only module that imports OpenTelemetry, and imported only if an endpoint is configured. The SDK's providers, processors and
instruments are not used: their data is counted already, and their threads would read it while it changes.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import export as points
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from prometheus_client.core import Metric
from requests.adapters import HTTPAdapter

from agentvm.model.address import is_loopback
from agentvm.model.headers import parse_headers
from agentvm.model.settings import OtelSettings
from agentvm.observability.genai import HistogramSeries
from agentvm.observability.spans import Span
from agentvm.observability.telemetry import REQUEST_TIMEOUT_SECONDS, Snapshot
from agentvm.version import VERSION

NS_PER_MS: Final = 1_000_000
_SCOPE: Final = InstrumentationScope("agentvm", VERSION)
_CUMULATIVE: Final = points.AggregationTemporality.CUMULATIVE
_FLAGS: Final = TraceFlags(TraceFlags.SAMPLED)

# The exporters log each failure; `telemetry.Sender` logs one warning a minute.
logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)


class _Head(HTTPAdapter):
    """Reads only the head of a response. Its body is not needed, and an endless one would block the thread for ever, because
    the timeout is per chunk."""

    problem = ""
    """The reason why the last request failed, without the text of the response."""

    # Any: as in the class above it.
    def send(self, request: requests.PreparedRequest, *args: Any, **about: Any) -> requests.Response:
        try:
            response = super().send(request, *args, **{**about, "stream": True})
        except requests.RequestException as error:
            self.problem = type(error).__name__
            raise
        self.problem = f"HTTP {response.status_code}"
        response._content = b""
        if response.headers.get("content-length") == "0":
            # Then the connection can be used again.
            response.raw.read()
        response.close()
        return response


class Otlp:
    """Sends to one collector. Its methods wait up to `REQUEST_TIMEOUT_SECONDS`: they are for a thread of their own."""

    def __init__(self, otel: OtelSettings) -> None:
        endpoint, headers = (otel.endpoint or "").rstrip("/"), _headers(otel)
        session = requests.Session()
        # A proxy from the environment is not for a collector on this machine.
        session.trust_env = not is_loopback(urlsplit(endpoint).hostname or "")
        self._head = _Head()
        session.mount("http://", self._head)
        session.mount("https://", self._head)
        self._resource = Resource.create({"service.name": otel.service_name, "service.version": VERSION})
        self._spans = OTLPSpanExporter(
            endpoint=f"{endpoint}/v1/traces",
            headers=headers,
            timeout=REQUEST_TIMEOUT_SECONDS,
            compression=Compression.Gzip,
            session=session,
        )
        self._metrics = OTLPMetricExporter(
            endpoint=f"{endpoint}/v1/metrics",
            headers=headers,
            timeout=REQUEST_TIMEOUT_SECONDS,
            compression=Compression.Gzip,
            session=session,
        )

    def send_spans(self, spans: Sequence[Span]) -> bool:
        return self._spans.export([self._readable(span) for span in spans]) is SpanExportResult.SUCCESS

    def send_metrics(self, snapshot: Snapshot) -> bool:
        times = (snapshot.since * NS_PER_MS, snapshot.at * NS_PER_MS)
        metrics = [metric for family in snapshot.samples if (metric := _metric(family, *times)) is not None]
        metrics += [_histogram(series, *times) for series in snapshot.series if series.points]
        scope = points.ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
        whole = points.ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url="")
        return self._metrics.export(points.MetricsData(resource_metrics=[whole])) is points.MetricExportResult.SUCCESS

    @property
    def problem(self) -> str:
        return self._head.problem

    def stop(self) -> None:
        """Cancels retries. From any thread."""
        self._spans.shutdown()  # type: ignore[no-untyped-call]
        self._metrics.shutdown()

    def _readable(self, span: Span) -> ReadableSpan:
        about = span.attributes if span.error is None else span.attributes | {"error.type": span.error}
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
            resource=self._resource,
            attributes=about,
            events=[Event(name, attributes=more, timestamp=at * NS_PER_MS) for name, at, more in span.moments],
            kind=SpanKind.CLIENT if span.remote else SpanKind.INTERNAL,
            status=Status(StatusCode.UNSET if span.error is None else StatusCode.ERROR),
            start_time=span.start * NS_PER_MS,
            # With a clock that was set back nothing may end before its start.
            end_time=max(span.start, span.end) * NS_PER_MS,
            instrumentation_scope=_SCOPE,
        )


def _headers(otel: OtelSettings) -> dict[str, str]:
    """Returns the configured headers only: those of shared variables may be for another collector."""
    ambient = parse_headers(
        ",".join(os.environ.get(f"OTEL_EXPORTER_OTLP_{which}HEADERS", "") for which in ("", "TRACES_", "METRICS_"))
    )
    own = {} if otel.headers is None else parse_headers(otel.headers.reveal())
    return dict.fromkeys(ambient, "") | own


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_FLAGS)


def _metric(family: Metric, since: int, at: int) -> points.Metric | None:
    """Converts a metric of `/metrics`, under the same name."""
    data: points.Sum | points.Gauge | points.Histogram
    match family.type:
        case "counter":
            data = points.Sum(_numbers(family, since, at, "_total"), _CUMULATIVE, is_monotonic=True)
        case "gauge":
            data = points.Gauge(_numbers(family, since, at, ""))
        case "histogram":
            data = points.Histogram([_unfold(family, since, at)], _CUMULATIVE)
        case _:
            return None
    return points.Metric(name=family.name, description=family.documentation, unit="", data=data) if data.data_points else None


def _numbers(family: Metric, since: int, at: int, ending: str) -> list[points.NumberDataPoint]:
    """Converts numbers to floats: the type of a series must not change."""
    return [
        points.NumberDataPoint(sample.labels, since, at, float(sample.value))
        for sample in family.samples
        if sample.name == family.name + ending
    ]


def _unfold(family: Metric, since: int, at: int) -> points.HistogramDataPoint:
    """Converts a histogram: Prometheus has cumulative buckets, OTLP does not."""
    below = [(sample.labels["le"], int(sample.value)) for sample in family.samples if sample.name.endswith("_bucket")]
    total = next(sample.value for sample in family.samples if sample.name.endswith("_sum"))
    counts = [count - before for (_, count), (_, before) in zip(below, [("", 0), *below], strict=False)]
    bounds = [float(bound) for bound, _ in below if bound != "+Inf"]
    return _point({}, counts, bounds, total, since, at)


def _histogram(series: HistogramSeries, since: int, at: int) -> points.Metric:
    converted = [_point(dict(point.labels), point.counts, series.bounds, point.total, since, at) for point in series.points]
    return points.Metric(
        name=series.name, description=series.about, unit=series.unit, data=points.Histogram(converted, _CUMULATIVE)
    )


def _point(
    labels: Mapping[str, str], counts: Sequence[int], bounds: Sequence[float], total: float, since: int, at: int
) -> points.HistogramDataPoint:
    return points.HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=since,
        time_unix_nano=at,
        count=sum(counts),
        sum=total,
        bucket_counts=counts,
        explicit_bounds=bounds,
        # The minimum and the maximum are not known; OTLP does not require them.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )
