"""Counts equal what is known of scripted turns, whatever becomes of them."""

from collections import Counter
from pathlib import Path

import anyio
import pytest
from tests.observability.scripts import Planned, Sums, plan, play
from tests.runtime.fixtures import Ticking, World, open_world, tool
from tests.runtime.test_answering_fallback import Named, down, pair
from tests.runtime.test_billing import Till, entries

from agentvm.drivers.base import MessageStarted, TextChunk, TextStarted
from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import ProviderOverloaded
from agentvm.events.base import Event, EventScope
from agentvm.events.stream import TextDelta
from agentvm.events.turn import ModelCalled
from agentvm.model.ids import DEFAULT_TENANT, TurnId
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.observability import metrics as module
from agentvm.observability.metrics import OTHER, Metrics, ModelCount


def counting(*known: str) -> Metrics:
    names = known or ("scripted/scripted",)
    return Metrics(
        Ticking(), lambda provider, model: any(f"{provider}/{model}" in (one, f"{one.split('/')[0]}/") for one in names)
    )


def used(count: ModelCount) -> Usage:
    return Usage(
        input_tokens=count.input_tokens,
        output_tokens=count.output_tokens,
        cache_read_tokens=count.cache_read_tokens,
        cache_write_tokens=count.cache_write_tokens,
        thinking_tokens=count.thinking_tokens,
    )


async def run(world: World, planned: list[Planned]) -> None:
    agent = world.start()
    for number, one in enumerate(planned):
        turn_id = await world.say(agent, str(number))
        if one.kind == "stopped":
            await world.hear("text_delta", turn_id=turn_id)
            agent.cancel(await agent.interrupt())
        await world.hear("turn_response", turn_id=turn_id)
        await agent.rest()


@pytest.mark.parametrize("seed", range(4))
async def test_counts_are_those_of_the_script_and_of_the_ledger(seed: int) -> None:
    planned, till = plan(seed, 25), Till()
    sums = Sums()
    for one in planned:
        sums.add(one)

    async def good(arguments: dict[str, object]) -> object:
        return "fine"

    counted = counting()
    counted._tool_names = lambda: ("good",)
    driver = ScriptedDriver(lambda prompt: play(planned, prompt))
    async with open_world(driver, tools=[tool("good", good)], meter=till, effectors=[counted]) as world:
        await run(world, planned)
        ledger = await entries(world)
    assert (counted.accepted, counted.turns) == (25, {"completed": 0, "interrupted": 0, "failed": 0} | sums.turns)
    assert counted.turn_errors == sums.errors
    (count,) = counted.models.values()
    assert Counter(completed=count.completed, interrupted=count.interrupted, failed=count.failed) == sums.calls
    assert used(count) == sums.usage
    tools = {(name, "completed"): one.completed for name, one in counted.tools.items()}
    tools |= {(name, "failed"): one.failed for name, one in counted.tools.items()}
    assert +Counter(tools) == +sums.tools
    # The ledger is written by others, from the same calls.
    assert count.calls == len(ledger) == counted.model_time.count
    assert used(count) == sum((entry.usage for entry in ledger), NO_USAGE)
    assert (count.cost, count.price) == (sum(entry.cost or 0 for entry in ledger), sum(entry.price or 0 for entry in ledger))
    assert counted.turn_time.count == 25
    assert counted.commit_time.count == 50
    assert counted.first_token.count == counted.queue_time.count == sums.first_tokens
    assert counted.tool_time.count == sum(sums.tools.values())
    assert not counted._open


async def test_an_end_that_is_told_twice_is_counted_once() -> None:
    broken, counted = [True], counting()
    async with open_world(ScriptedDriver(), fails=lambda number: broken[0] and number > 1, effectors=[counted]) as world:
        agent = world.start()
        await world.say(agent, "one")
        await world.hear("turn_response")
        await agent.rest()
        assert counted.turns["failed"] == 1
        broken[0] = False
        second = await world.say(agent, "two")
        heard = await world.hear("turn_response", turn_id=second)
        await agent.rest()
    assert sum(event["type"] == "turn_response" for event in heard) == 3
    assert counted.turns == {"completed": 1, "interrupted": 0, "failed": 1}
    assert sum(counted.turn_errors.values()) == 1
    (count,) = counted.models.values()
    # A call that cannot be noted is not made.
    assert count.calls == 1


async def test_after_a_restart_a_turn_is_counted_where_it_ends(tmp_path: Path) -> None:
    hold = anyio.Event()
    head = (MessageStarted("", "scripted"), TextStarted(), TextChunk("part"))
    before, after = counting(), counting()
    first = ScriptedDriver(lambda prompt: [*head, Pause(hold)])
    async with open_world(first, path=tmp_path / "a.db", suspends=True, effectors=[before]) as world:
        await world.say(world.start(), "hello")
        await world.hear("text_delta")
    assert (before.accepted, before.suspended, sum(before.turns.values())) == (1, 1, 0)
    second = ScriptedDriver(lambda prompt: reply("well", usage=Usage(input_tokens=3, output_tokens=2)))
    async with open_world(second, path=tmp_path / "a.db", suspends=True, effectors=[after]) as world:
        await world.hear("turn_response")
        ledger = await entries(world)
    assert (after.accepted, after.resumed, after.turns["completed"]) == (0, 1, 1)
    (count,) = after.models.values()
    assert (count.calls, count.completed) == (len(ledger), 1)
    assert count.input_tokens + count.output_tokens == sum(
        entry.usage.input_tokens + entry.usage.output_tokens for entry in ledger
    )
    # What it waited for before is not known here, and not guessed.
    assert (after.queue_time.count, after.first_token.count, after.turn_time.count) == (0, 0, 1)


async def test_a_fallback_and_the_attempts_before_it_are_counted() -> None:
    a, b = Named("a", down(ProviderOverloaded("busy"))), Named("b")
    counted = counting("a/a-1", "b/b-1")
    async with open_world(a, models=pair(a, b), effectors=[counted]) as world:
        await world.say(world.start(), "hello")
        heard = await world.hear("turn_response")
    assert counted.fallbacks == {("a", "b"): 1}
    (start,) = (event["data"] for event in heard if event["type"] == "message_start")
    assert (counted.retries, start["attempt"]) == (1, 2)
    assert list(counted.models) == [("b", "b-1")]


def called(counted: Metrics, model: str, number: int) -> None:
    scope = EventScope(turn_id=TurnId(f"turn_{number}"))
    data = ModelCalled(call_id=f"msg_{number}", model=model, usage=Usage(input_tokens=1, output_tokens=0))
    counted.react(Event(data=data, scope=scope, timestamp=1, tenant_id=DEFAULT_TENANT))


def test_models_that_the_operator_does_not_know_are_one() -> None:
    counted = counting()
    for number in range(500):
        called(counted, f"made-up-{number}", number)
    assert list(counted.models) == [(OTHER, OTHER)]
    assert counted.models[OTHER, OTHER].input_tokens == 500


def test_there_are_never_more_than_so_many_labels() -> None:
    counted = Metrics(Ticking(), lambda provider, model: True)
    for number in range(module.LABELS_MAX + 50):
        called(counted, f"m{number}", number)
    assert len(counted.models) == module.LABELS_MAX + 1
    assert counted.models[OTHER, OTHER].input_tokens == 50


def test_a_method_that_a_client_makes_up_is_no_label() -> None:
    counted = counting()
    counted.served("GET", "/v1/usage", 200, 10)
    counted.served("BREW", "other", 405, 10)
    assert counted.http == {("GET", "/v1/usage", "2xx"): 1, (OTHER, "other", "4xx"): 1}


def test_commands_are_counted_by_how_they_ended() -> None:
    counted = counting()
    counted.answered("image_list", refused=False, micros=1_500)
    counted.answered("image_list", refused=True, micros=500)
    assert counted.commands == {("image_list", "ok"): 1, ("image_list", "refused"): 1}
    assert (counted.command_time.count, counted.command_time.total) == (2, 2_000)


def test_a_delta_changes_nothing() -> None:
    counted = counting()
    counted.react(Event(data=TextDelta(text="x"), scope=EventScope(turn_id=TurnId("t")), timestamp=1, tenant_id=DEFAULT_TENANT))
    assert not counted._open
