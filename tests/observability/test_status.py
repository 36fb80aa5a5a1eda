from typing import Any

import pytest
from tests.observability.worlds import gauges, provider

from agentvm.observability.sampler import DISK_FULL_BYTES
from agentvm.observability.status import Grade, Status, judge
from agentvm.version import VERSION

GIB = 1024**3


def grades(status: Status) -> dict[str, Grade]:
    return {check.name: check.status for check in status.checks}


def test_a_server_that_is_well_says_so() -> None:
    status = judge(gauges(), disk_warning=GIB)
    assert (status.status, status.version, status.uptime_seconds) == ("ok", VERSION, 16.5)
    assert grades(status) == {"store": "ok", "disk": "ok", "loop": "ok", "provider:anthropic": "ok"}
    assert all(check.message for check in status.checks)


@pytest.mark.parametrize(
    ("about", "name", "grade", "said"),
    [
        ({"failing": True}, "store", "fail", "refuses writes"),
        ({"hindrance": "shutting down"}, "store", "fail", "shutting down"),
        ({"quarantined": 2}, "store", "warn", "2 sessions are in quarantine"),
        ({"disk_free": GIB - 1}, "disk", "warn", "free space soon"),
        ({"disk_free": DISK_FULL_BYTES - 1}, "disk", "fail", "MiB free on the disk of the data: free space now"),
        ({"disk_free": None}, "disk", "ok", "No data on disk"),
        ({"loop_lag": 0.2}, "loop", "warn", "200 ms"),
        ({"loop_lag": 3.0}, "loop", "fail", "3000 ms"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(about: dict[str, Any], name: str, grade: Grade, said: str) -> None:
    status = judge(gauges(**about), disk_warning=GIB)
    (check,) = (check for check in status.checks if check.name == name)
    assert (check.status, status.status) == (grade, grade)
    assert said in check.message


def test_a_provider_that_is_out_is_bad_only_if_nobody_stands_in() -> None:
    out = provider(state="down", last_error="provider_overloaded")
    alone = judge(gauges(providers=(out,)), disk_warning=GIB)
    assert (alone.status, grades(alone)["provider:anthropic"]) == ("fail", "fail")
    backed = judge(gauges(providers=(out, provider("openai", "unknown", "fallback"))), disk_warning=GIB)
    assert grades(backed) | {"provider:openai": "ok"} == grades(backed)
    assert backed.status == "warn"
    assert "provider_overloaded" in backed.checks[-2].message


def test_a_provider_that_nobody_asks_by_default_is_not_looked_at() -> None:
    idle = provider("local", "down", None)
    assert judge(gauges(providers=(provider(), idle)), disk_warning=GIB).status == "ok"


def test_the_operator_reads_where_a_provider_is_that_fails() -> None:
    out = provider("vllm", "down", "default", base_url="http://10.1.2.3:8000/v1")
    shown = judge(gauges(providers=(out,)), disk_warning=GIB, addresses=True).checks[-1].message
    assert shown.startswith("vllm at http://10.1.2.3:8000/v1 is unavailable")
    assert "10.1.2.3" not in judge(gauges(providers=(out,)), disk_warning=GIB).checks[-1].message
