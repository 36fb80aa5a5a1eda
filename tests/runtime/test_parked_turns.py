"""Many parked turns, for a long time and over restarts: they cost nothing, and every answer still counts."""

import asyncio
from itertools import permutations
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from bench.waits import copy, database_in
from tests.runtime.fixtures import Ticking, World, open_world, tool
from tests.runtime.test_parking import Hammer, answer, asked_for, look, open_waits, parked, results

from agentvm.config import ServerConfig
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.policy import Approval, Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings
from agentvm.model.wait import WaitDecision
from agentvm.runtime.tools import Tool

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000
TURNS = 500


def ruled(*rules: PolicyRule) -> ServerConfig:
    return ServerConfig(tools=ToolSettings(policy=Policy(rules=rules)))


async def tasks_of(world: World, most: int | None = None) -> int:
    """The tasks of a server that has nothing to do; waits until there are at most so many."""
    with anyio.fail_after(60):
        while world.runtime.journal.waiting or (most is not None and len(asyncio.all_tasks()) > most):
            await anyio.lowlevel.checkpoint()
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    return len(asyncio.all_tasks())


async def test_a_parked_turn_survives_restarts_without_a_task_or_an_agent_and_is_answered_after_30_days(tmp_path: Path) -> None:
    hammer, path, clock = Hammer(), tmp_path / "data", Ticking()
    settings = ruled(PolicyRule(do="ask", ask=Approval(expires="60d")))
    tools = [hammer.tool]
    async with open_world(ScriptedDriver(), tools=tools) as world:
        idle = await tasks_of(world)
    async with open_world(asked_for(("c1", "hammer")), tools=tools, path=path, clock=clock, settings=settings) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        await world.start().rest()
        assert await tasks_of(world, idle) <= idle
    for _ in range(3):
        clock.now += 10 * DAY_MS
        async with open_world(ScriptedDriver(), tools=tools, path=path, clock=clock, settings=settings) as world:
            assert await tasks_of(world, idle) <= idle
            assert list(world.runtime.roster) == []
            (wait,) = await open_waits(world)
            assert world.hear_nowait() == []
    async with open_world(ScriptedDriver(), tools=tools, path=path, clock=clock, settings=settings) as world:
        assert await answer(world, wait)
        end = (await world.hear("turn_response"))[-1]["data"]
        assert (end["outcome"], end["duration"] >= 30 * DAY_MS) == ("completed", True)
        assert hammer.calls == [{"n": 1}]
        assert await results(world) == [("c1", "text", "struck")]


async def test_a_wait_that_expired_while_the_server_was_down_is_denied_at_the_next_start(tmp_path: Path) -> None:
    hammer, path, clock = Hammer(), tmp_path / "data", Ticking()
    async with parked(hammer, ("c1", "hammer"), path=path):
        pass
    clock.now += 8 * DAY_MS
    async with open_world(ScriptedDriver(), tools=[hammer.tool], path=path, clock=clock) as world:
        await world.hear("turn_response")
        assert [text for _, _, text in await results(world)] == ["Nobody answered in time, so the call was not made."]
        assert hammer.calls == []


@pytest.mark.parametrize("order", list(permutations(range(4))))
async def test_a_mixed_batch_is_answered_in_any_order(order: tuple[int, ...]) -> None:
    """Of the calls one is allowed, one forbidden, and four wait: for an approval, a denial, an edit, and the client."""
    hammer, plain = Hammer(), tool("photo", look)
    photo = Tool(spec=plain.spec, run=plain.run, runtime="client", waits_for="client")
    calls = [("c0", "look"), ("c1", "hammer"), ("c2", "saw"), ("c3", "hammer"), ("c4", "photo"), ("c5", "hammer")]
    decisions: dict[str, tuple[WaitDecision, dict[str, object]]] = {
        "c1": ("approve", {}),
        "c3": ("deny", {"reason": "once is enough"}),
        "c4": ("answer", {"result": {"photo": 7}}),
        "c5": ("edit", {"input": {"n": 2}}),
    }
    settings = ruled(PolicyRule(do="deny", tool="saw"), PolicyRule(do="ask", tool="hammer"))
    tools = [hammer.tool, tool("look", look), tool("saw", look), photo]
    async with open_world(asked_for(*calls), tools=tools, settings=settings) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        waits = {wait.call_id: wait for wait in await open_waits(world)}
        assert waits.keys() == decisions.keys()
        assert {(call_id, kind) for call_id, kind, _ in await results(world)} == {("c0", "text"), ("c2", "execution-denied")}
        for count, number in enumerate(order, 1):
            call_id = [*decisions][number]
            decision, more = decisions[call_id]
            assert await answer(world, waits[call_id], decision, **more)
            await world.hear("tool_answered", times=count)
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "completed"
        assert sorted(str(given) for given in hammer.calls) == ["{'n': 1}", "{'n': 2}"]
        told = {call_id: (kind, text) for call_id, kind, text in await results(world)}
        assert len(await results(world)) == len(calls)
        assert told["c1"] == ("text", "struck")
        assert told["c3"] == ("execution-denied", "The call was denied: once is enough")
        assert told["c4"] == ("json", '{"photo":7}')
        assert "A person changed the input" in told["c5"][1]
        assert await open_waits(world) == []


@pytest.mark.usefixtures("sqlite_file")
async def test_a_start_with_many_parked_turns_builds_no_agent_and_each_can_be_answered(tmp_path: Path) -> None:
    hammer, path = Hammer(), tmp_path / "data"
    async with parked(hammer, ("c1", "hammer"), path=path):
        pass
    copy(database_in(tmp_path), TURNS - 1)
    async with open_world(ScriptedDriver(), tools=[hammer.tool]) as world:
        idle = await tasks_of(world)
    async with open_world(ScriptedDriver(), tools=[hammer.tool], path=path) as world:
        assert list(world.runtime.roster) == []
        assert await tasks_of(world, idle) <= idle
        assert await world.store.list_unfinished() == ()
        waits = world.store.tenant(DEFAULT_TENANT).waits(None)
        page = await waits.list_page(session_id=None, state="open", after=0, limit=TURNS + 1)
        assert len(page) == TURNS
        await answer(world, (await open_waits(world))[0])
        await world.hear("turn_response")
        assert hammer.calls == [{"n": 1}]
        assert len(list(world.runtime.roster)) == 1
