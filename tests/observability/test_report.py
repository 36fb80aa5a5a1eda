import msgspec
from tests.observability.test_metrics import called, counting
from tests.observability.worlds import gauges

from agentvm.observability.report import server_report


def test_a_fresh_server_has_nothing_to_tell_and_divides_by_nothing() -> None:
    report = server_report(counting(), gauges())
    assert (report.turns.success_rate, report.latency.turn.count, report.latency.turn.p95) == (None, 0, None)
    assert (report.active.agents, report.queues.database, report.process.loop_lag_ms) == (1, 7, 10.0)


def test_the_rate_of_success_leaves_out_what_people_stopped() -> None:
    counted = counting()
    counted.turns |= {"completed": 3, "failed": 1, "interrupted": 10}
    assert server_report(counted, gauges()).turns.success_rate == 0.75


def test_names_are_those_of_the_wire() -> None:
    counted = counting()
    called(counted, "x", 1)
    counted.answered("image_list", refused=False, micros=3_000)
    counted.served("GET", "/health", 200, 3_000)
    told = msgspec.to_builtins(server_report(counted, gauges()))
    assert told["models"][0] | {"provider": "other", "model": "other", "calls": 1, "inputTokens": 1} == told["models"][0]
    assert told["requests"]["commands"] == [{"name": "image_list", "ok": 1, "refused": 0}]
    assert told["requests"]["http"] == [{"method": "GET", "route": "/health", "status": "2xx", "count": 1}]
    assert told["latency"]["command"] == {"count": 1, "mean": 3.0, "p50": 3.0, "p95": 3.0, "p99": 3.0}
