"""An OTLP collector on a loopback socket: takes what is sent, or is slow, or refuses it."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


class Collector:
    """What came in, decoded. `slow` holds every answer back until it is set."""

    def __init__(self) -> None:
        self.status = 200
        self.slow: threading.Event | None = None
        self.endless: threading.Event | None = None
        """Keeps the body of an answer coming, a letter at a time, until it is set."""
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self._changed = threading.Condition()
        self.url = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        with self._changed:
            self.headers.append(headers)
            self.bodies.append(body)
            if path == "/v1/traces":
                self.traces.append(ExportTraceServiceRequest.FromString(body))
            else:
                assert path == "/v1/metrics", path
                self.metrics.append(ExportMetricsServiceRequest.FromString(body))
            self._changed.notify_all()

    def wait(self, until: Callable[[], object], seconds: float = 20) -> None:
        """From a thread."""
        with self._changed:
            assert self._changed.wait_for(until, seconds)

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def metric(self, name: str) -> Any:
        """As it was sent last."""
        found = [
            metric
            for request in self.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]
        return found[-1]


def about(thing: Any) -> dict[str, Any]:
    """The attributes of a span, a point or a resource."""
    return {one.key: _value(one.value) for one in thing.attributes if isinstance(one, KeyValue)}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind or "string_value")


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.take(self.path, {key.lower(): value for key, value in self.headers.items()}, body)
            if collector.slow is not None:
                collector.slow.wait(30)
            try:
                self.send_response(collector.status)
                self.send_header("content-length", "0" if collector.endless is None else "1000000")
                self.end_headers()
                while collector.endless is not None and not collector.endless.wait(0.05):
                    self.wfile.write(b"x")
            except OSError:
                # Nobody waits for it any more.
                return

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield collector
    finally:
        if collector.slow is not None:
            collector.slow.set()
        if collector.endless is not None:
            collector.endless.set()
        server.shutdown()
        thread.join()
        server.server_close()
