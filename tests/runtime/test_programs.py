"""Programs that call tools: each call is an ordinary one, and the program outlives waits, crashes and restarts."""

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.runtime.fixtures import World, open_world, types
from tests.runtime.program_bench import Bench, answer, ended, journal, open_waits, results, running, three, value

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import ToolFailed
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.wait import WaitDecision
from agentvm.runtime import calls
from agentvm.runtime.tool_step import CallRunner
from agentvm.tools.base import OtherTools

pytestmark = pytest.mark.anyio


async def test_calls_of_a_program_are_told_as_its_children_and_the_model_hears_its_result_only() -> None:
    async def script(others: OtherTools) -> object:
        return [await others.call("look", {"n": 1}), await others.call("note", {"n": 2})]

    bench = Bench(script)
    async with running(bench) as world:
        await world.hear("turn_response")
        assert (await value(world))[0] == {"name": "look", "n": 1, "time": 1}
        assert bench.made == [("look", 1), ("note", 2)]
        told = [(event["type"], event["data"]["toolId"], event["data"].get("parentId"))
                for event in world.heard if event["type"] in ("tool_executing", "tool_started", "tool_completed")]  # fmt: skip
        assert told == [
            ("tool_executing", "p1", None),
            ("tool_executing", "p1.1", "p1"),
            ("tool_completed", "p1.1", "p1"),
            ("tool_executing", "p1.2", "p1"),
            # A call that must not be made twice: stored before it is made.
            ("tool_started", "p1.2", None),
            ("tool_completed", "p1.2", "p1"),
            ("tool_completed", "p1", None),
        ]
        assert types(world.heard).count("tool_result_message") == 1
        assert await journal(world) == ()


async def test_the_result_of_a_program_that_read_a_stranger_is_a_strangers_text() -> None:
    async def plain(others: OtherTools) -> object:
        return await others.call("note", {"n": 1})

    for script, tainted in ((plain, False), (lambda others: others.call("look", {"n": 1}), True)):
        async with running(Bench(script)) as world:
            await world.hear("turn_response")
            assert [row[3] for row in await results(world)] == [tainted]


@pytest.mark.parametrize("restarts", [0, 1, 3])
async def test_a_program_waits_without_memory_and_goes_on_where_it_was(tmp_path: Path, restarts: int) -> None:
    bench, path = Bench(three), tmp_path / "data"
    async with running(bench, path) as world:
        await world.hear("turn_parked")
        await world.start().rest()
        assert world.start().resting
        (wait,) = await open_waits(world)
        assert (wait.call_id, wait.tool, wait.input, wait.kind) == ("p1.2", "hammer", {"n": 2}, "approval")
        assert [entry.tool for entry in await journal(world)] == ["", "look"]
        if not restarts:
            await _approved(world, bench)
    for number in range(restarts):
        async with open_world(ScriptedDriver(), tools=bench.tools, path=path) as world:
            assert list(world.runtime.roster) == []
            if number == restarts - 1:
                await _approved(world, bench)


async def _approved(world: World, bench: Bench) -> None:
    (wait,) = await open_waits(world)
    assert await answer(world, wait)
    await world.hear("turn_response")
    assert bench.runs == 2
    assert bench.made == [("look", 1), ("hammer", 2), ("look", {"name": "hammer", "n": 2, "time": 2})]
    assert [entry["time"] for entry in await value(world)] == [1, 2, 3]
    assert await journal(world) == ()


@pytest.mark.parametrize(
    ("decision", "more", "told"),
    [("deny", {"reason": "too loud"}, "The call was denied: too loud"), ("expired", {}, calls.EXPIRED)],
)
async def test_a_denial_is_an_error_of_the_call_and_the_program_goes_on(
    decision: WaitDecision, more: dict[str, object], told: str
) -> None:
    async def script(others: OtherTools) -> object:
        try:
            return await others.call("hammer", {"n": 1})
        except ToolFailed as error:
            return [str(error), await others.call("look", {"n": 2})]

    bench = Bench(script)
    async with running(bench) as world:
        await world.hear("turn_parked")
        await answer(world, (await open_waits(world))[0], decision, **more)
        await world.hear("turn_response")
        assert await value(world) == [told, {"name": "look", "n": 2, "time": 1}]


async def test_an_edited_call_has_the_new_input_and_the_model_is_told() -> None:
    bench = Bench(lambda others: others.call("hammer", {"n": 1}))
    async with running(bench) as world:
        await world.hear("turn_parked")
        await answer(world, (await open_waits(world))[0], "edit", input={"n": 9})
        await world.hear("turn_response")
        assert bench.made == [("hammer", 9)]
        ((_, _, result, _),) = await results(world)
        assert result["notes"] == [f"p1.1 (hammer): {calls.EDITED}"]


async def test_a_tool_of_the_client_answers_the_program() -> None:
    async def script(others: OtherTools) -> object:
        return [await others.call("ask_client", {"n": 1}), await others.call("ask_client", {"n": 2})]

    bench = Bench(script)
    async with running(bench) as world:
        for number, result in enumerate(("photo", {"x": 1}), 1):
            await world.hear("turn_parked", times=number)
            await answer(world, (await open_waits(world))[0], "answer", result=result)
        await world.hear("turn_response")
        assert await value(world) == ["photo", {"x": 1}]
        assert (bench.runs, bench.made) == (3, [])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_two_programs_wait_beside_each_other_and_are_answered_in_any_order(order: tuple[int, int]) -> None:
    bench = Bench(three)
    async with running(bench, None, ("p2", "program")) as world:
        await world.hear("turn_parked")
        waits = sorted(await open_waits(world), key=lambda wait: wait.call_id)
        assert [wait.call_id for wait in waits] == ["p1.2", "p2.2"]
        for number in order:
            assert await answer(world, waits[number], "deny" if number else "approve")
        await world.hear("turn_response")
        assert Counter(name for name, _ in bench.made) == {"look": 3, "hammer": 1}
        outcomes = {call_id: result for call_id, _, result, _ in await results(world)}
        assert [entry["name"] for entry in outcomes["p1"]["value"]] == ["look", "hammer", "look"]
        assert outcomes["p2"] == "The call was denied; no reason was given"


async def test_a_program_that_swallows_everything_is_stopped_all_the_same() -> None:
    async def script(others: OtherTools) -> object:
        while True:
            try:
                return await others.call("hammer", {"n": 1})
            except Exception:  # noqa: BLE001
                continue

    bench = Bench(script)
    async with running(bench) as world:
        await world.hear("turn_parked")
        assert (bench.runs, bench.made) == (1, [])


async def test_another_call_than_before_is_a_divergence_and_nothing_further_is_made() -> None:
    bench = Bench(three)

    async def other(others: OtherTools) -> object:
        try:
            await others.call("look", {"n": 7})
        finally:
            await others.call("note", {"n": 8})
        return None

    async with running(bench) as world:
        await world.hear("turn_parked")
        bench.script = other
        await answer(world, (await open_waits(world))[0])
        await world.hear("turn_response")
        ((_, kind, text, _),) = await results(world)
        assert kind == "error-text"
        assert 'its call 1 is not the one of the first run: that was look, this is look with {"n":7}' in text
        assert bench.made == [("look", 1)]
        assert await journal(world) == ()


@pytest.mark.parametrize(("name", "n"), [("hammer", 99), ("note", 2)])
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_an_answer_is_for_the_call_that_people_saw_whatever_the_program_asks_for_now(
    name: str, n: int, decision: WaitDecision
) -> None:
    bench = Bench(three)

    async def other(others: OtherTools) -> object:
        await others.call("look", {"n": 1})
        return await others.call(name, {"n": n})

    async with running(bench) as world:
        await world.hear("turn_parked")
        bench.script = other
        await answer(world, (await open_waits(world))[0], decision)
        await world.hear("turn_response")
        ((_, kind, text, _),) = await results(world)
        assert kind == "error-text"
        assert f"its call 2 is not the one of the first run: that was hammer, this is {name} with" in text
        assert bench.made == [("look", 1)]


async def test_a_new_message_ends_a_program_that_waits() -> None:
    bench = Bench(three)
    async with running(bench) as world:
        await world.hear("turn_parked")
        turn_id = await world.say(world.start(), "never mind")
        await world.hear("turn_response", turn_id=turn_id)
        ((call_id, kind, _, _),) = await results(world)
        assert (call_id, kind) == ("p1", "execution-denied")
        assert await open_waits(world) == []
        first, _ = await world.turns()
        log = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id).log(world.image.session_id)
        assert await log.list_program(first.turn_id, "p1") == ()


MIXED = ("note", "look", "look", "note", "look")


@pytest.mark.parametrize("at", range(1, len(MIXED) + 1))
async def test_a_server_that_dies_at_any_call_makes_each_at_most_once_unless_that_does_no_harm(tmp_path: Path, at: int) -> None:
    async def script(others: OtherTools) -> object:
        heard: list[object] = []
        for number, name in enumerate(MIXED, 1):
            bench.hang = {name} if (number, bench.runs) == (at, 1) else set()
            try:
                heard.append(await others.call(name, {"n": number}))
            except ToolFailed as error:
                heard.append(str(error))
        return heard

    bench, path = Bench(script), tmp_path / "data"
    async with running(bench, path, suspends=True) as world:
        with anyio.fail_after(60):
            while len(bench.made) < at:
                await anyio.lowlevel.checkpoint()
        await world.runtime.journal.settle(
            await world.runtime.journal.open(DEFAULT_TENANT, world.image.container_id, world.image.session_id),
            world.start().scope,
        )
    async with open_world(ScriptedDriver(), tools=bench.tools, path=path) as world:
        await ended(world)
        heard = await value(world)
        made = Counter(number for _, number in bench.made)
        again = MIXED[at - 1] == "look"
        assert made == {number: 2 if number == at and again else 1 for number in range(1, len(MIXED) + 1)}
        assert [entry if isinstance(entry, str) else entry["n"] for entry in heard] == [
            calls.LOST if number == at and not again else number for number in range(1, len(MIXED) + 1)
        ]
        assert bench.runs == 2
        assert await journal(world) == ()


async def test_an_answer_that_comes_while_the_turn_is_about_to_be_parked_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(three)
    announce, times = CallRunner.announce, 0

    async def announce_and_answer(runner: CallRunner, actions: Any) -> None:
        nonlocal times
        await announce(runner, actions)
        times += 1
        # The third time is the one before the turn is parked: the program itself, its second call, the program again.
        if times == 3:
            (wait,) = await open_waits(world)
            assert await answer(world, wait)

    monkeypatch.setattr(CallRunner, "announce", announce_and_answer)
    async with running(bench) as world:
        await world.hear("turn_response")
        assert [entry["name"] for entry in await value(world)] == ["look", "hammer", "look"]
        assert "turn_parked" not in types(world.heard)
