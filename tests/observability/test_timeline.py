"""What a timeline says is what happened, and its stages add up to the whole."""

from collections.abc import Sequence
from pathlib import Path

import anyio
from tests.observability.scripts import plan, play
from tests.observability.test_metrics import run
from tests.runtime.fixtures import World, open_world, tool
from tests.runtime.test_answering_fallback import Named, down, pair
from tests.runtime.test_billing import Till, entries

from agentvm.drivers.base import MessageStarted, TextChunk, TextStarted
from agentvm.drivers.scripted import Pause, ScriptedDriver, reply, tool_calls
from agentvm.errors import ProviderOverloaded
from agentvm.events.base import Event
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.usage import NO_USAGE
from agentvm.observability.timeline import Timeline, draw


async def told(world: World) -> list[Event]:
    image, found = world.image, list[Event]()
    while True:
        after = found[-1].seq if found else 0
        missed = await world.runtime.replay.read(DEFAULT_TENANT, image.container_id, image.session_id, after)
        if not missed.events:
            return found
        found += missed.events


async def drawn(world: World, *, now: int = 10**9) -> list[Timeline]:
    """Of every turn, oldest first."""
    events, ledger = await told(world), await entries(world)
    return [
        draw(
            row,
            [event for event in events if event.scope.turn_id == row.turn_id],
            [entry for entry in ledger if entry.turn_id == row.turn_id],
            now=now,
            complete=True,
        )
        for row in await world.turns()
    ]


def total(line: Timeline) -> int:
    assert line.stages is not None
    of = line.stages
    return of.queue + of.wait + of.stream + of.tools + of.other + of.away


def whats(line: Timeline) -> Sequence[str]:
    return [moment.what for moment in line.moments]


async def test_every_turn_adds_up_whatever_became_of_it() -> None:
    planned = plan(1, 25)

    async def good(arguments: dict[str, object]) -> object:
        return "fine"

    driver = ScriptedDriver(lambda prompt: play(planned, prompt))
    async with open_world(driver, tools=[tool("good", good)], meter=Till()) as world:
        await run(world, planned)
        lines, ledger = await drawn(world), await entries(world)
    assert len(lines) == 25
    for one, line in zip(planned, lines, strict=True):
        assert total(line) == line.duration
        assert line.outcome == {"refused": "failed", "cut": "failed", "stopped": "interrupted"}.get(one.kind, "completed")
        assert len(line.calls) == {"refused": 0, "tools": 2}.get(one.kind, 1)
        assert len(line.tools) == one.good + one.bad
        assert sum(step.error is not None for step in line.tools) == one.bad
        assert all(call.ended_at is not None and call.cost is not None for call in line.calls)
        assert (whats(line)[0], whats(line)[-1]) == ("accepted", "ended")
    assert sum((line.usage for line in lines), NO_USAGE) == sum((entry.usage for entry in ledger), NO_USAGE)
    assert sum(line.price for line in lines) == sum(entry.price or 0 for entry in ledger)


async def test_the_steps_are_in_order_and_each_has_its_time() -> None:
    async def good(arguments: dict[str, object]) -> object:
        return "fine"

    answers = iter([tool_calls(("c1", "good", {}), text="Let me see."), reply("It is fine.")])
    async with open_world(ScriptedDriver(lambda prompt: next(answers)), tools=[tool("good", good)], meter=Till()) as world:
        await world.say(world.start(), "hello")
        await world.hear("turn_response")
        (line,) = await drawn(world)
    first, second = line.calls
    (step,) = line.tools
    times = [
        line.accepted_at, first.asked_at, first.started_at, first.first_token_at, first.ended_at, step.ended_at,
        second.asked_at, second.started_at, second.first_token_at, second.ended_at,
    ]  # fmt: skip
    known = [at for at in times if at is not None]
    assert len(known) == 10
    assert known == sorted(known)
    assert step.started_at == first.ended_at
    assert (first.provider, first.model, first.answered_by, first.attempt) == ("scripted", "scripted", "scripted", 1)
    assert (first.stop_reason, second.stop_reason, line.stop_reason) == ("tool_use", "end_turn", "end_turn")
    assert line.stages is not None
    assert line.stages.tools == (step.ended_at or 0) - (step.started_at or 0)
    assert line.stages.queue == (first.asked_at or 0) - line.accepted_at


async def test_a_fallback_and_its_reason_are_shown() -> None:
    a, b = Named("a", down(ProviderOverloaded("busy"))), Named("b")
    async with open_world(a, models=pair(a, b)) as world:
        await world.say(world.start(), "hello")
        await world.hear("turn_response")
        (line,) = await drawn(world)
    (call,) = line.calls
    assert (call.provider, call.model, call.attempt) == ("b", "b-1", 2)
    (fallback,) = (moment for moment in line.moments if moment.what == "fallback")
    assert fallback.details == {"from": "a/a-1", "to": "b/b-1", "reason": "provider_overloaded"}


async def test_a_turn_that_runs_is_drawn_up_to_now() -> None:
    head = (MessageStarted("", "scripted"), TextStarted(), TextChunk("part"))
    async with open_world(ScriptedDriver(lambda prompt: [*head, Pause(anyio.Event())])) as world:
        agent = world.start()
        await world.say(agent, "hello")
        waiting = await world.say(agent, "and this")
        await world.hear("text_delta")
        first, second = await drawn(world, now=50_000)
        assert (first.outcome, first.ended_at, first.duration) == (None, None, 50_000 - first.accepted_at)
        assert total(first) == first.duration
        assert first.calls[0].ended_at is None
        assert first.stages is not None
        assert first.stages.stream > 40_000
        assert (second.turn_id, whats(second), second.calls) == (waiting, ["accepted", "queued"], [])
        assert second.stages is not None
        assert second.stages.queue == second.duration
        # As it is when the turns end: see the other tests.
        await world.runtime.stop_agent(agent)


async def test_time_that_the_server_was_away_is_told_apart(tmp_path: Path) -> None:
    head = (MessageStarted("", "scripted"), TextStarted(), TextChunk("part"))
    first = ScriptedDriver(lambda prompt: [*head, Pause(anyio.Event())])
    async with open_world(first, path=tmp_path / "a.db", suspends=True) as world:
        await world.say(world.start(), "hello")
        await world.hear("text_delta")
    async with open_world(ScriptedDriver(), path=tmp_path / "a.db") as world:
        await world.hear("turn_response")
        (line,) = await drawn(world)
    assert whats(line) == ["accepted", "suspended", "resumed", "ended"]
    assert len(line.calls) == 2
    assert line.stages is not None
    assert sum(call.first_token_at is not None for call in line.calls) == 2


async def test_what_is_no_longer_told_is_still_billed() -> None:
    async with open_world(ScriptedDriver(), meter=Till()) as world:
        await world.say(world.start(), "hello")
        await world.hear("turn_response")
        (row,), ledger = await world.turns(), await entries(world)
    line = draw(row, (), ledger, now=5, complete=False)
    assert (line.complete, line.stages, line.moments) == (False, None, [])
    (call,) = line.calls
    assert (call.provider, call.usage, call.price) == ("scripted", ledger[0].usage, ledger[0].price)
    assert line.duration == (row.ended_at or 0) - row.accepted_at
