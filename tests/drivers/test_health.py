"""What is known of a provider, on virtual time."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pytest
from tests.simulation.loop import run_virtual

from agentvm.drivers.health import PROBE_SECONDS, WAIT_MAX_SECONDS, HealthTracker, is_outage
from agentvm.errors import (
    ModelUnavailable,
    ProviderAuthFailed,
    ProviderBadRequest,
    ProviderError,
    ProviderOverloaded,
    ProviderProtocolError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnreachable,
)

SECRET = "sk-of-another-tenant"


def virtual(test: Callable[[HealthTracker], Awaitable[None]]) -> None:
    async def main() -> None:
        start = anyio.current_time()
        await test(HealthTracker("corp", lambda: 1_000_000 + round((anyio.current_time() - start) * 1000)))

    body: Coroutine[Any, Any, None] = main()
    run_virtual(body)


def fail(health: HealthTracker, error: ProviderError) -> None:
    attempt = health.begin()
    attempt.sent()
    attempt.failed(error)
    attempt.leave()


def answer(health: HealthTracker) -> None:
    attempt = health.begin()
    attempt.sent()
    attempt.answered()
    attempt.leave()


@pytest.mark.parametrize(
    ("kind", "out"),
    [
        (ProviderRateLimited, True),
        (ProviderOverloaded, True),
        (ProviderUnreachable, True),
        (ProviderTimeout, True),
        (ProviderAuthFailed, True),
        (ProviderBadRequest, False),
        (ProviderProtocolError, False),
        (ModelUnavailable, False),
        (ProviderError, False),
    ],
)
def test_another_may_do_better_where_the_provider_and_not_the_request_is_at_fault(kind: type[ProviderError], out: bool) -> None:
    assert is_outage(kind("no")) is out


def test_nothing_is_known_of_a_provider_before_it_was_asked() -> None:
    async def test(health: HealthTracker) -> None:
        assert (health.state, health.since, health.wait, health.retry_at) == ("unknown", None, 0, None)
        answer(health)
        assert (health.state, health.since, health.last_success_at) == ("ok", 1_000_000, 1_000_000)
        assert (health.calls, health.failures, health.consecutive) == (1, 0, 0)

    virtual(test)


@pytest.mark.parametrize(("said", "left_alone"), [(5.0, 5.0), (0.7, 0.7), (30.0, 30.0), (31.0, 30.0), (86_400.0, 30.0)])
def test_a_provider_is_left_alone_until_the_moment_it_named_or_for_half_a_minute(said: float, left_alone: float) -> None:
    async def test(health: HealthTracker) -> None:
        fail(health, ProviderRateLimited("slow down", retry_after=said))
        assert health.wait == pytest.approx(left_alone)
        assert health.retry_at == 1_000_000 + left_alone * 1000
        assert health.worth_waiting is (said <= WAIT_MAX_SECONDS)
        assert (health.state, health.since, health.last_error) == ("limited", 1_000_000, "provider_rate_limited")
        await anyio.sleep(left_alone)
        assert health.wait == 0
        assert [health.retry_at] == [None]

    virtual(test)


def test_without_a_moment_the_pause_doubles_up_to_half_a_minute_and_an_answer_resets_it() -> None:
    async def test(health: HealthTracker) -> None:
        pauses = []
        for _ in range(7):
            fail(health, ProviderOverloaded("busy"))
            pauses.append(round(health.wait))
            await anyio.sleep(health.wait)
        assert pauses == [1, 2, 4, 8, 16, 30, 30]
        assert (health.state, health.failures, health.consecutive) == ("down", 7, 7)
        answer(health)
        assert (health.state, health.consecutive, health.failures) == ("ok", 0, 7)
        fail(health, ProviderOverloaded("busy"))
        assert health.wait == pytest.approx(1)

    virtual(test)


@pytest.mark.parametrize("said", [0.0, None])
def test_a_moment_that_has_passed_is_none(said: float | None) -> None:
    async def test(health: HealthTracker) -> None:
        fail(health, ProviderRateLimited("slow down", retry_after=said))
        assert health.wait == pytest.approx(1)

    virtual(test)


def test_failures_of_calls_from_before_the_bad_news_make_no_pause_longer() -> None:
    async def test(health: HealthTracker) -> None:
        calls = [health.begin() for _ in range(100)]
        for call in calls:
            call.failed(ProviderOverloaded("busy"))
        assert health.wait == pytest.approx(1)
        assert health.failures == health.consecutive == 100

    virtual(test)


def test_a_later_moment_counts_whoever_hears_of_it() -> None:
    async def test(health: HealthTracker) -> None:
        first, second = health.begin(), health.begin()
        first.failed(ProviderRateLimited("slow down", retry_after=2))
        second.failed(ProviderRateLimited("slow down", retry_after=9))
        assert health.wait == pytest.approx(9)

    virtual(test)


def test_an_answer_from_before_the_bad_news_does_not_end_the_pause() -> None:
    async def test(health: HealthTracker) -> None:
        slow, other = health.begin(), health.begin()
        other.failed(ProviderRateLimited("slow down", retry_after=9))
        slow.answered()
        assert health.wait == pytest.approx(9)
        assert health.last_success_at is not None

    virtual(test)


def test_after_the_pause_one_call_finds_out_and_the_others_know_when_it_does() -> None:
    async def test(health: HealthTracker) -> None:
        fail(health, ProviderOverloaded("busy"))
        await anyio.sleep(1)
        probe = health.begin()
        assert health.wait == pytest.approx(PROBE_SECONDS)
        heard = anyio.Event()
        health.listen(heard)
        probe.answered()
        assert heard.is_set()
        assert (health.wait, health.state) == (0, "ok")

    virtual(test)


@pytest.mark.parametrize("how", ["left", "silent", "refused"])
def test_somebody_else_finds_out_when_that_call_cannot(how: str) -> None:
    async def test(health: HealthTracker) -> None:
        fail(health, ProviderOverloaded("busy"))
        await anyio.sleep(1)
        probe = health.begin()
        if how == "left":
            probe.leave()
        elif how == "silent":
            await anyio.sleep(PROBE_SECONDS)
        else:
            probe.failed(ProviderBadRequest("a file of type x"))
        assert health.wait == 0
        # Who reads and refuses a request is there.
        assert health.state == ("ok" if how == "refused" else "down")

    virtual(test)


def test_an_answer_that_breaks_off_is_a_failure_and_no_outage() -> None:
    async def test(health: HealthTracker) -> None:
        attempt = health.begin()
        attempt.answered()
        attempt.failed(ProviderUnreachable("the connection broke"))
        assert (health.state, health.wait) == ("ok", 0)
        assert (health.failures, health.consecutive, health.last_error) == (1, 0, "provider_unreachable")

    virtual(test)


def test_a_key_that_is_refused_is_not_waited_for() -> None:
    async def test(health: HealthTracker) -> None:
        fail(health, ProviderAuthFailed("no"))
        assert (health.state, health.worth_waiting) == ("down", False)
        assert health.wait == pytest.approx(1)
        assert str(health.error()) == "corp refuses the key or the account; try again in 1 s"

    virtual(test)


def test_what_a_provider_said_to_one_call_is_not_repeated_to_another() -> None:
    async def test(health: HealthTracker) -> None:
        first_hand = ProviderOverloaded(f"busy with {SECRET}")
        fail(health, first_hand)
        error = health.error()
        assert isinstance(error, ProviderOverloaded)
        assert str(error) == "corp is overloaded or fails; try again in 1 s"
        assert error.retry_after == 1
        assert SECRET not in repr(vars(health))
        assert str(health.error(first_hand)) == f"busy with {SECRET}; try again in 1 s"
        named = ProviderRateLimited("slow down; try again in 3 s", retry_after=3)
        assert health.error(named) is named

    virtual(test)


def test_a_moment_that_a_library_waits_for_by_itself_is_known_to_all() -> None:
    async def test(health: HealthTracker) -> None:
        call = health.begin()
        health.limited(4.0)
        assert health.state == "limited"
        assert health.wait == pytest.approx(4)
        await anyio.sleep(4)
        call.answered()
        assert (health.state, health.wait) == ("ok", 0)

    virtual(test)


def test_the_reason_is_that_of_the_outage_and_not_of_another_call() -> None:
    async def test(health: HealthTracker) -> None:
        assert health.reason == "provider_error"
        speaking, other = health.begin(), health.begin()
        speaking.answered()
        other.failed(ProviderRateLimited("slow down", retry_after=9))
        speaking.failed(ProviderUnreachable("the connection broke"))
        assert (health.reason, health.last_error) == ("provider_rate_limited", "provider_unreachable")

    virtual(test)
