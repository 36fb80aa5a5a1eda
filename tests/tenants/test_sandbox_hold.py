import pytest

from agentvm.errors import QuotaExceeded
from agentvm.model.account import Quota
from agentvm.tenants.book import Counter
from agentvm.tenants.sandbox_hold import SANDBOX, SandboxHold

NOON = 1_700_000_000_000
DAY_MS = 86_400_000


def counter(hard: int | None = 100) -> Counter:
    return Counter(Quota(metric=SANDBOX, hard=hard, soft=None if hard else 1))


def test_the_time_of_a_job_is_set_aside_and_replaced_by_what_it_took() -> None:
    one = counter()
    hold = SandboxHold(lambda: NOON, lambda: [one], 60)
    assert (hold.seconds, one.held) == (60, 60)
    second = SandboxHold(lambda: NOON, lambda: [one], 60)
    assert second.seconds == 40
    with pytest.raises(QuotaExceeded, match="Daily limit of sandbox seconds"):
        SandboxHold(lambda: NOON, lambda: [one], 1)
    hold.settle(2_500)
    second.settle(500)
    assert (one.used, one.rest_ms, one.held) == (3, 0, 0)


def test_a_thousand_short_jobs_cost_what_they_took_together() -> None:
    one = counter()
    for _ in range(1_000):
        SandboxHold(lambda: NOON, lambda: [one], 60).settle(7)
    assert (one.used, one.held) == (7, 0)


def test_a_new_day_begins_anew() -> None:
    one, now = counter(10), NOON
    SandboxHold(lambda: now, lambda: [one], 10).settle(10_000)
    with pytest.raises(QuotaExceeded):
        SandboxHold(lambda: now, lambda: [one], 1)
    now += DAY_MS
    assert SandboxHold(lambda: now, lambda: [one], 5).seconds == 5


def test_a_tenant_without_a_limit_gets_what_it_asks_for() -> None:
    assert SandboxHold(lambda: NOON, list, 600).seconds == 600
    assert SandboxHold(lambda: NOON, lambda: [counter(None)], 600).seconds == 600
