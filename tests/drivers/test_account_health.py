"""Whose experience with a provider counts for whom, on virtual time."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.loop import run_virtual

from agentvm.drivers import account_health
from agentvm.drivers.account_health import AccountHealth, TenantHealth, note_rate_limit
from agentvm.errors import ProviderAuthFailed, ProviderBadRequest, ProviderError, ProviderOverloaded, ProviderTimeout
from agentvm.model.ids import TenantId

ACME, RIVAL, THIRD = TenantId("tnt_acme"), TenantId("tnt_rival"), TenantId("tnt_third")
BUSY = ProviderOverloaded("busy")


def virtual(test: Callable[[AccountHealth], Awaitable[None]], **settings: float) -> None:
    async def main() -> None:
        await test(AccountHealth("corp", lambda: 1_000, **settings))

    body: Coroutine[Any, Any, None] = main()
    run_virtual(body)


def fail(health: TenantHealth, error: ProviderError = BUSY, silence_seconds: float | None = None) -> None:
    attempt = health.begin()
    attempt.sent()
    attempt.failed(error, silence_seconds=silence_seconds)
    attempt.leave()


def answer(health: TenantHealth) -> None:
    attempt = health.begin()
    attempt.sent()
    attempt.answered()
    attempt.leave()


@pytest.mark.parametrize("error", [BUSY, ProviderAuthFailed("no"), ProviderTimeout("504")])
def test_the_failures_of_one_tenant_hold_back_that_tenant_alone(error: ProviderError) -> None:
    async def test(account: AccountHealth) -> None:
        for _ in range(20):
            fail(account.of(ACME), error)
            await anyio.sleep(0.25)
        assert account.of(ACME).wait > 0
        assert account.of(RIVAL).wait == 0
        assert not account.everybody.is_out

    virtual(test)


def test_a_second_failing_tenant_makes_it_an_outage_for_everybody() -> None:
    async def test(account: AccountHealth) -> None:
        fail(account.of(ACME))
        fail(account.of(RIVAL))
        assert account.of(THIRD).wait == pytest.approx(1)
        assert "corp is overloaded" in str(account.of(THIRD).error())
        await anyio.sleep(1)
        answer(account.of(THIRD))
        assert [account.of(one).wait for one in (RIVAL, THIRD)] == [0, 0]

    virtual(test)


def test_an_answer_between_two_failures_shows_that_they_are_not_an_outage() -> None:
    async def test(account: AccountHealth) -> None:
        fail(account.of(ACME))
        answer(account.of(THIRD))
        fail(account.of(RIVAL))
        assert account.of(THIRD).wait == 0

    virtual(test)


def test_one_tenant_cannot_prolong_an_outage_by_probing_again_and_again() -> None:
    async def test(account: AccountHealth) -> None:
        fail(account.of(RIVAL))
        fail(account.of(ACME))
        for _ in range(5):
            await anyio.sleep(1)
            fail(account.of(ACME))
            assert account.of(THIRD).wait == 0

    virtual(test)


def test_a_probe_of_another_tenant_that_fails_prolongs_the_outage() -> None:
    async def test(account: AccountHealth) -> None:
        fail(account.of(RIVAL))
        fail(account.of(ACME))
        await anyio.sleep(1)
        fail(account.of(THIRD))
        assert account.of(TenantId("tnt_other")).wait == pytest.approx(2)

    virtual(test)


def test_giving_up_earlier_than_the_operator_would_says_nothing_about_the_provider() -> None:
    async def test(account: AccountHealth) -> None:
        impatient = ProviderTimeout("silent for 1 s", waited=1.0)
        for one in (ACME, RIVAL, THIRD):
            fail(account.of(one), impatient, silence_seconds=30.0)
        assert account.of(ACME).wait == 0
        assert account.everybody.failures == 3
        patient = ProviderTimeout("silent for 30 s", waited=30.0)
        fail(account.of(ACME), patient, silence_seconds=30.0)
        assert account.of(ACME).wait == pytest.approx(1)

    virtual(test)


def test_the_operators_timeout_of_one_provider_counts_before_the_general_one() -> None:
    async def test(account: AccountHealth) -> None:
        fail(account.of(ACME), ProviderTimeout("silent for 2 s", waited=2.0), silence_seconds=30.0)
        assert account.of(ACME).wait == pytest.approx(1)

    virtual(test, silence_seconds=2.0)


def test_a_request_that_is_refused_holds_nobody_back() -> None:
    async def test(account: AccountHealth) -> None:
        for one in (ACME, RIVAL):
            fail(account.of(one), ProviderBadRequest("no such model"))
        assert account.of(ACME).wait == account.of(THIRD).wait == 0

    virtual(test)


def test_the_operator_sees_the_outage_of_a_single_tenant_until_somebody_is_answered() -> None:
    async def test(account: AccountHealth) -> None:
        fail(account.of(ACME))
        assert [account.shown.state, account.of(RIVAL).shown.state] == ["down", "unknown"]
        answer(account.of(RIVAL))
        assert [account.shown.state] == ["ok"]
        assert (account.everybody.calls, account.everybody.failures) == (2, 1)

    virtual(test)


def test_a_rate_limit_that_a_library_waits_for_holds_back_the_tenant_that_heard_of_it() -> None:
    async def test(account: AccountHealth) -> None:
        attempt = account.of(ACME).begin()
        attempt.sent()
        note_rate_limit(4)
        assert account.of(ACME).wait == pytest.approx(4)
        assert account.of(RIVAL).wait == 0
        attempt.leave()
        other = account.of(RIVAL).begin()
        other.sent()
        note_rate_limit(3)
        assert account.of(THIRD).wait == pytest.approx(3)
        other.leave()
        note_rate_limit(60)
        assert account.of(THIRD).wait == pytest.approx(3)

    virtual(test)


def test_those_who_wait_are_woken_by_the_probe_of_anybody() -> None:
    async def test(account: AccountHealth) -> None:
        fail(account.of(ACME))
        fail(account.of(RIVAL))
        await anyio.sleep(1)
        probe = account.of(RIVAL).begin()
        woken = anyio.Event()
        account.of(THIRD).listen(woken)
        assert account.of(THIRD).probed
        probe.answered()
        assert woken.is_set()

    virtual(test)


def test_the_number_of_remembered_tenants_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_health, "TENANTS_MAX", 2)

    async def test(account: AccountHealth) -> None:
        fail(account.of(ACME))
        account.of(RIVAL)
        account.of(THIRD)
        assert account.of(ACME).wait == 0

    virtual(test)


@given(st.lists(st.tuples(st.floats(0.01, 40), st.sampled_from(["busy", "auth", "timeout"])), max_size=60))
def test_whatever_one_tenant_does_the_others_may_ask(steps: list[tuple[float, str]]) -> None:
    errors = {"busy": BUSY, "auth": ProviderAuthFailed("no"), "timeout": ProviderTimeout("504", retry_after=86_400.0)}

    async def test(account: AccountHealth) -> None:
        for pause, kind in steps:
            fail(account.of(ACME), errors[kind])
            await anyio.sleep(pause)
            assert account.of(RIVAL).wait == 0

    virtual(test)
