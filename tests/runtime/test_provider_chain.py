"""Whom a model call asks, on virtual time."""

from collections.abc import Awaitable, Callable

import anyio
import pytest
from tests.simulation.loop import run_virtual

from agentvm.drivers.models import AccountHealth, Chosen
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import (
    ProviderAuthFailed,
    ProviderBadRequest,
    ProviderError,
    ProviderOverloaded,
    ProviderRateLimited,
)
from agentvm.runtime.provider_chain import RETRY_TIMEOUT_SECONDS, ProviderAttempt, ProviderChain

BUSY = ProviderOverloaded("busy")


def candidates(*names: str, asks: int = 3) -> list[Chosen]:
    return [Chosen(ScriptedDriver(), "m", AccountHealth(name, lambda: 0).of(None), provider=name, asks=asks) for name in names]


def virtual(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    run_virtual(main())


async def refuse(chain: ProviderChain, error: ProviderError) -> str:
    """The next one, which fails so."""
    asked = await chain.next()
    chain.failed(asked, error)
    asked.attempt.leave()
    return asked.chosen.provider


async def exhaust(chain: ProviderChain, order: list[str]) -> None:
    while True:
        order.append(await refuse(chain, BUSY))


def limit(one: Chosen, seconds: float) -> None:
    one.health.begin().failed(ProviderRateLimited("slow down", retry_after=seconds))


def test_those_that_stand_in_are_asked_in_order_and_say_for_whom() -> None:
    async def test() -> None:
        chain = ProviderChain(candidates("a", "b", "c"))
        asked: list[ProviderAttempt] = []
        for _ in range(3):
            asked.append(await chain.next())
            chain.failed(asked[-1], BUSY)
        assert [one.chosen.provider for one in asked] == ["a", "b", "c"]
        assert [one.instead_of and one.instead_of.provider for one in asked] == [None, "a", "a"]
        assert not any(one.again for one in asked)
        assert anyio.current_time() == 0

    virtual(test)


def test_a_provider_that_is_out_is_passed_over_at_once() -> None:
    async def test() -> None:
        line = candidates("a", "b")
        limit(line[0], 20)
        assert (await ProviderChain(line).next()).chosen.provider == "b"
        assert anyio.current_time() == 0

    virtual(test)


def test_when_nobody_can_be_asked_the_call_waits_for_whoever_is_free_first() -> None:
    async def test() -> None:
        line = candidates("a", "b")
        limit(line[0], 20)
        limit(line[1], 7)
        assert (await ProviderChain(line).next()).chosen.provider == "b"
        assert anyio.current_time() == pytest.approx(7)

    virtual(test)


def test_each_is_asked_a_few_times_and_the_call_fails_with_what_the_chosen_one_said() -> None:
    async def test() -> None:
        chain, order = ProviderChain(candidates("a", "b", asks=2)), list[str]()
        with pytest.raises(ProviderOverloaded, match=r"^busy; try again in \d+ s$"):
            await exhaust(chain, order)
        assert order == ["a", "b", "a", "b"]

    virtual(test)


def test_a_provider_alone_fails_in_its_own_words() -> None:
    async def test() -> None:
        chain = ProviderChain(candidates("a", asks=1))
        await refuse(chain, BUSY)
        with pytest.raises(ProviderOverloaded) as failed:
            await chain.next()
        assert failed.value is BUSY

    virtual(test)


def test_a_moment_that_is_far_away_is_not_waited_for() -> None:
    async def test() -> None:
        line = candidates("a")
        limit(line[0], 600)
        with pytest.raises(ProviderRateLimited, match="a limits the rate of requests; try again in 600 s"):
            await ProviderChain(line).next()
        assert anyio.current_time() == 0
        # But after half a minute one call tries.
        await anyio.sleep(30)
        assert (await ProviderChain(line).next()).chosen.provider == "a"

    virtual(test)


def test_nobody_waits_beyond_the_end_of_their_turn() -> None:
    async def test() -> None:
        line = candidates("a")
        limit(line[0], 20)
        with anyio.fail_after(10), pytest.raises(ProviderRateLimited, match="try again in 20 s"):
            await ProviderChain(line).next()
        assert anyio.current_time() == 0

    virtual(test)


def test_nobody_waits_longer_than_their_patience() -> None:
    async def test() -> None:
        line = candidates("a", asks=100)
        chain = ProviderChain(line)
        with pytest.raises(ProviderOverloaded):
            await exhaust(chain, [])
        assert anyio.current_time() <= RETRY_TIMEOUT_SECONDS

    virtual(test)


def test_who_waits_can_be_stopped() -> None:
    async def test() -> None:
        line = candidates("a")
        limit(line[0], 20)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ProviderChain(line).next)
                await anyio.sleep(3)
                scope.cancel()
        assert anyio.current_time() == pytest.approx(3)

    virtual(test)


def test_one_call_finds_out_and_the_others_follow_when_it_knows() -> None:
    async def test() -> None:
        line, asked, now = candidates("a"), list[float](), list[float]()
        limit(line[0], 5)

        async def call() -> None:
            one = await ProviderChain(line).next()
            asked.append(anyio.current_time())
            await anyio.sleep(2)
            one.attempt.answered()
            one.attempt.leave()

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(call)
            await anyio.sleep(6)
            now += asked
        assert now == [pytest.approx(5)]
        assert asked[1:] == [pytest.approx(7)] * 99

    virtual(test)


def test_a_refusal_of_the_request_by_the_chosen_one_is_final() -> None:
    async def test() -> None:
        chain = ProviderChain(candidates("a", "b"))
        with pytest.raises(ProviderBadRequest):
            await refuse(chain, ProviderBadRequest("no"))

    virtual(test)


def test_a_refusal_by_who_stands_in_is_left_to_the_next() -> None:
    async def test() -> None:
        chain = ProviderChain(candidates("a", "b", "c"))
        errors = [BUSY, ProviderBadRequest("no such model"), BUSY, BUSY, BUSY]
        assert [await refuse(chain, error) for error in errors] == ["a", "b", "c", "a", "c"]

    virtual(test)


def test_a_refused_key_is_an_outage_and_is_not_tried_again_by_the_same_call() -> None:
    async def test() -> None:
        chain = ProviderChain(candidates("a", "b", asks=2))
        refused = ProviderAuthFailed("the key is not good")
        assert [await refuse(chain, error) for error in (refused, BUSY, BUSY)] == ["a", "b", "b"]
        with pytest.raises(ProviderAuthFailed) as failed:
            await chain.next()
        assert failed.value is refused

    virtual(test)


def test_who_must_not_be_asked_is_not() -> None:
    async def test() -> None:
        chain = ProviderChain(candidates("a", "b", "c"))
        await refuse(chain, BUSY)
        chain.skip(await chain.next())
        assert (await chain.next()).chosen.provider == "c"

    virtual(test)


def test_a_silent_provider_has_half_of_the_time_when_there_is_another() -> None:
    async def test() -> None:
        with anyio.fail_after(100):
            chain = ProviderChain(candidates("a", "b"))
            assert chain.patience(await chain.next()) == 50
            alone = ProviderChain(candidates("a"))
            assert alone.patience(await alone.next()) == float("inf")

    virtual(test)
