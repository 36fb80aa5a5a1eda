"""A model call whose provider is out goes to the next: what is told of it, what it costs, and what a crash makes of it."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.runtime.fixtures import World, left, open_world, tool, types
from tests.runtime.test_billing import Till, entries

from agentvm.drivers.base import MessageStarted, TextChunk, TextStarted, UsageReported
from agentvm.drivers.models import Models
from agentvm.drivers.scripted import Pause, Script, ScriptedDriver, ScriptStep, echo, in_turn, reply, tool_calls
from agentvm.errors import (
    ModelUnpriced,
    ProviderAuthFailed,
    ProviderBadRequest,
    ProviderError,
    ProviderOverloaded,
    ProviderRateLimited,
)
from agentvm.model.ids import MessageId
from agentvm.model.ledger import Planned
from agentvm.model.limits import Limits
from agentvm.model.usage import Usage
from agentvm.runtime.recovery.progress import Cut, Done


class Named(ScriptedDriver):
    def __init__(self, name: str, script: Script = echo, *, window: int = 100_000) -> None:
        super().__init__(script, window=window)
        self.name = name
        self.default_model = f"{name}-1"


def down(error: ProviderError) -> Script:
    return in_turn([error])


def pair(first: Named, second: Named) -> Models:
    return Models({"a": first, "b": second}, "a", fallback=["b"], clock=lambda: 5_000)


def data(heard: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event["data"] for event in heard if event["type"] == kind]


async def ok(arguments: dict[str, object]) -> object:
    return "fine"


@pytest.mark.parametrize(
    "error", [ProviderOverloaded("busy"), ProviderRateLimited("slow down", retry_after=9), ProviderAuthFailed("the key is bad")]
)
async def test_a_call_that_heard_nothing_goes_to_who_stands_in_and_clients_are_told(error: ProviderError) -> None:
    a, b, till = Named("a", down(error)), Named("b"), Till()
    async with open_world(a, models=pair(a, b), meter=till) as world:
        await world.say(world.start(), "hello")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"
        (fallback,) = data(heard, "provider_fallback")
        assert (fallback["from"], fallback["to"], fallback["reason"]) == ("a/a-1", "b/b-1", error.code)
        assert fallback["retryAt"] > 5_000
        assert types(heard).index("provider_fallback") < types(heard).index("message_start")
        assert "error_occurred" not in types(heard)
        assert [start["asked"] for start in data(heard, "message_start")] == ["b/b-1"]
        # Each attempt was admitted as what it was; the one that said nothing costs nothing.
        assert [(planned.driver, planned.model, planned.provider) for planned in till.planned] == [
            ("a", "a-1", "a"), ("b", "b-1", "b"),
        ]  # fmt: skip
        assert till.open == 0
        (entry,) = await entries(world)
        assert (entry.driver, entry.model) == ("b", "b-1")


async def test_while_one_is_out_the_others_are_asked_at_once() -> None:
    a, b = Named("a", down(ProviderRateLimited("slow down", retry_after=30))), Named("b")
    async with open_world(a, models=pair(a, b)) as world:
        for number in (1, 2, 3):
            await world.say(world.start(), "hello")
            await world.hear("turn_response", times=number)
        assert (len(a.prompts), len(b.prompts)) == (1, 3)


async def test_a_refused_request_fails_the_turn_as_it_is() -> None:
    a, b = Named("a", down(ProviderBadRequest("too long"))), Named("b")
    async with open_world(a, models=pair(a, b)) as world:
        await world.say(world.start(), "hello")
        heard = await world.hear("turn_response")
        assert [error["code"] for error in data(heard, "error_occurred")] == ["provider_bad_request"]
        assert b.prompts == []


async def test_once_something_was_said_the_failure_is_the_turns() -> None:
    spoken: list[ScriptStep] = [MessageStarted("", "m"), TextStarted(), TextChunk("so "), ProviderOverloaded("busy")]
    a, b, till = Named("a", in_turn(spoken)), Named("b"), Till()
    async with open_world(a, models=pair(a, b), meter=till) as world:
        await world.say(world.start(), "hello")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "failed"
        assert b.prompts == []
        (entry,) = await entries(world)
        assert (entry.driver, till.open) == ("a", 0)


async def test_the_first_word_counts_as_something_said() -> None:
    a, b = Named("a", in_turn([MessageStarted("", "m"), ProviderOverloaded("busy")])), Named("b")
    async with open_world(a, models=pair(a, b)) as world:
        await world.say(world.start(), "hello")
        assert (await world.hear("turn_response"))[-1]["data"]["outcome"] == "failed"
        assert b.prompts == []


async def test_who_stands_in_gets_a_prompt_that_fits_its_own_window() -> None:
    a, b = Named("a"), Named("b", window=2_000)
    async with open_world(a, models=pair(a, b)) as world:
        for number in range(1, 9):
            await world.say(world.start(), f"{number} " * 300)
            await world.hear("turn_response", times=number)
        a._script = down(ProviderOverloaded("busy"))
        await world.say(world.start(), "last")
        await world.hear("turn_response", times=9)
        assert len(b.prompts[0].conversation) < len(a.prompts[-1].conversation)
        assert b.prompts[0].max_tokens == 1_000


async def test_a_turn_may_be_answered_by_both() -> None:
    a = Named("a", in_turn(tool_calls(("c1", "ok", {})), [ProviderOverloaded("busy")]))
    b, till = Named("b", in_turn(reply("done", usage=Usage(input_tokens=9, output_tokens=1)))), Till()
    async with open_world(a, models=pair(a, b), tools=[tool("ok", ok)], meter=till) as world:
        await world.say(world.start(), "go")
        end = (await world.hear("turn_response"))[-1]["data"]
        assert [(entry.driver, entry.usage.total) for entry in await entries(world)] == [("a", 6), ("b", 10)]
        assert (end["price"], till.open) == (32, 0)


async def test_each_answer_counts_with_the_price_of_who_gave_it() -> None:
    def cost(driver: str, model: str, usage: Usage, at: int, provider: str = "") -> int:
        return usage.total * {"a": 1, "b": 1_000}[driver]

    a = Named("a", in_turn(tool_calls(("c1", "ok", {})), [ProviderOverloaded("busy")]))
    b = Named("b", in_turn(tool_calls(("c2", "ok", {})), reply("never asked")))
    # Six tokens of a cost 6, not 6,000; with six of b it is too much.
    async with open_world(
        a, models=pair(a, b), tools=[tool("ok", ok)], cost=cost, limits=Limits(turn_cost=Decimal("0.000006"))
    ) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        assert [entry.driver for entry in await entries(world)] == ["a", "b"]
        assert [error["code"] for error in data(heard, "error_occurred")] == ["turn_limit_reached"]


async def test_when_all_are_out_the_turn_fails_with_what_the_chosen_one_said_and_when_to_come_back() -> None:
    slow = ProviderRateLimited("a limits the rate of requests; try again in 60 s", retry_after=60)
    a, b, till = Named("a", down(slow)), Named("b", down(ProviderRateLimited("no", retry_after=70))), Till()
    async with open_world(a, models=pair(a, b), meter=till) as world:
        for number in (1, 2):
            await world.say(world.start(), "hello")
            heard = await world.hear("turn_response", times=number)
        first, second = data(heard, "error_occurred")
        assert first["message"] == "a limits the rate of requests; try again in 60 s"
        assert (first["code"], first["recoverable"]) == ("provider_rate_limited", True)
        # The second was not even asked; it says the same.
        assert second["message"] == "a limits the rate of requests; try again in 60 s"
        assert (len(a.prompts), len(b.prompts), till.open) == (1, 1, 0)


async def test_a_short_pause_is_waited_for_and_can_be_stopped() -> None:
    answers = in_turn([ProviderRateLimited("slow down", retry_after=0.05)], reply("back"))
    a = Named("a", answers)
    async with open_world(a, models=Models({"a": a}, "a")) as world:
        await world.say(world.start(), "one")
        await world.hear("turn_response")
        await world.say(world.start(), "two")
        assert (await world.hear("turn_response", times=2))[-1]["data"]["outcome"] == "completed"
        a._script = down(ProviderRateLimited("slow down", retry_after=25))
        await world.say(world.start(), "three")
        await world.hear("turn_response", times=3)
        agent = world.start()
        await world.say(agent, "four")
        agent.cancel(await agent.interrupt())
        assert (await world.hear("turn_response", times=4))[-1]["data"]["outcome"] == "interrupted"
        assert len(a.prompts) == 3


class Picky(Till):
    async def admit(self, planned: Planned, *, force: bool = False) -> Till:
        if planned.driver == "b":
            raise ModelUnpriced("Nobody knows what b costs")
        return await super().admit(planned, force=force)


async def test_who_may_not_be_paid_for_does_not_stand_in() -> None:
    a, b, till = Named("a", down(ProviderRateLimited("slow down", retry_after=60))), Named("b"), Picky()
    async with open_world(a, models=pair(a, b), meter=till) as world:
        await world.say(world.start(), "hello")
        heard = await world.hear("turn_response")
        assert [error["code"] for error in data(heard, "error_occurred")] == ["provider_rate_limited"]
        assert (b.prompts, till.open) == ([], 0)
        assert "provider_fallback" not in types(heard)


async def test_a_silent_provider_is_given_up_while_there_is_time_for_another() -> None:
    a, b = Named("a", in_turn([Pause(anyio.Event())])), Named("b")
    async with open_world(a, models=pair(a, b), limits=Limits(turn_seconds=1.0)) as world:
        await world.say(world.start(), "hello")
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"
        assert [one["reason"] for one in data(heard, "provider_fallback")] == ["timeout"]
        assert a.closed_early == 1


async def crashed_on(path: Path, till: Till) -> tuple[Named, Named]:
    """A process that died while who stands in was answering, as far as the disk knows."""
    spoken: list[ScriptStep] = [
        MessageStarted("", "m"),
        UsageReported(Usage(input_tokens=20, output_tokens=1)),
        TextStarted(),
        TextChunk("some words"),
        Pause(anyio.Event()),
    ]
    a, b = Named("a", down(ProviderOverloaded("busy"))), Named("b", in_turn(spoken))
    async with open_world(a, models=pair(a, b), meter=till, path=path, suspends=True) as world:
        await world.say(world.start(), "go")
        await world.hear("text_delta")
    return a, b


async def resumed(world: World) -> list[tuple[str, str, int]]:
    await world.hear("turn_response")
    return [(entry.driver, entry.model, entry.usage.input_tokens) for entry in await entries(world)]


async def test_a_call_that_a_restart_cut_off_is_billed_for_who_was_asked(tmp_path: Path) -> None:
    await crashed_on(tmp_path / "db", till := Till())
    a, b = Named("a"), Named("b")
    async with open_world(a, models=pair(a, b), meter=till, path=tmp_path / "db") as world:
        cut, again = await resumed(world)
        assert cut == ("b", "b-1", 20)
        assert again[:2] == ("a", "a-1")
    assert [planned.driver for planned in till.planned] == ["a", "b", "b", "a"]


async def test_a_call_to_a_provider_that_is_gone_since_is_billed_all_the_same() -> None:
    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        agent = world.start()
        cut = Cut(MessageId("msg_cut"), "m", Usage(input_tokens=0, output_tokens=5, estimated=True), "corp/gpt-x")
        agent.release(agent.resume(left(world), Done(), cut=cut))
        await world.hear("turn_response")
        (entry,) = [one for one in await entries(world) if one.key == "msg_cut"]
        assert (entry.driver, entry.model, entry.usage.output_tokens) == ("corp", "gpt-x", 5)
