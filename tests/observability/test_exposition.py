from prometheus_client.parser import text_string_to_metric_families
from tests.observability.test_metrics import called, counting
from tests.observability.worlds import gauges, provider

from agentvm.observability.exposition import render, samples
from agentvm.observability.metrics import Metrics


def read(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text, _ = render(samples(metrics, gauges()))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_every_number_is_there_under_its_name() -> None:
    counted = counting()
    counted.served("GET", "/v1/usage", 200, 1_500)
    counted.answered("image_list", refused=True, micros=2_000_000)
    called(counted, "made-up", 1)
    counted.turns["completed"] += 2
    found = read(counted)
    assert found["agentvm_http_requests_total", (("method", "GET"), ("route", "/v1/usage"), ("status", "2xx"))] == 1
    assert found["agentvm_http_request_seconds_bucket", (("le", "0.001"),)] == 0
    assert found["agentvm_http_request_seconds_bucket", (("le", "0.002"),)] == 1
    assert found["agentvm_http_request_seconds_sum", ()] == 0.0015
    assert found["agentvm_commands_total", (("command", "image_list"), ("outcome", "refused"))] == 1
    assert found["agentvm_command_seconds_count", ()] == 1
    assert found["agentvm_turns_total", (("outcome", "completed"),)] == 2
    assert found["agentvm_tokens_total", (("kind", "input"), ("model", "other"), ("provider", "other"))] == 1
    assert found["agentvm_provider_up", (("provider", "anthropic"),)] == 1
    assert [found[f"agentvm_{name}", ()] for name in ("agents", "inbox_messages", "database_jobs", "agents_evicted_total")] == [
        1,
        5,
        7,
        9,
    ]
    assert found["agentvm_store_writable", ()] == 1


def test_a_provider_that_is_out_is_down() -> None:
    made = samples(counting(), gauges(providers=(provider(state="limited"),), failing=True, disk_free=None, open_files=None))
    text = render(made)[0].decode()
    assert 'agentvm_provider_up{provider="anthropic"} 0.0' in text
    assert "agentvm_store_writable 0.0" in text
    assert "agentvm_disk_free_bytes" not in text


def test_both_forms_say_the_same() -> None:
    made = samples(counting(), gauges())
    plain, plain_type = render(made)
    newer, newer_type = render(made, openmetrics=True)
    assert (plain_type, newer_type.split(";")[0]) == ("text/plain; version=0.0.4", "application/openmetrics-text")
    assert newer.endswith(b"# EOF\n")
    assert {line for line in plain.splitlines() if line[:1] != b"#"} <= set(newer.splitlines())
