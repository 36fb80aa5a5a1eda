"""Sub-agents of a server that dies after any commit: one for each call, and each answer counts once."""

from pathlib import Path

import anyio
import pytest
from tests.runtime.fixtures import World, open_world, tool
from tests.runtime.test_parking import Hammer, answer, open_waits, results
from tests.runtime.test_sub_agents import STRIKE, STRIKER, WORKER, by_prompt, children, delegate, steps, team, until_ended

from agentvm.drivers.scripted import reply, tool_calls
from agentvm.model.definition import Definition

pytestmark = pytest.mark.anyio


async def look(arguments: dict[str, object]) -> object:
    return "seen"


class Crash:
    """A store that takes no further commit after so many."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.died = anyio.Event()

    def __call__(self, number: int) -> bool:
        if number >= self.after:
            self.died.set()
        return self.died.is_set()


async def root_ended(world: World) -> None:
    with anyio.fail_after(60):
        while True:
            turns = await world.turns()
            if turns and turns[0].outcome is not None:
                return
            await anyio.sleep(0.005)


@pytest.mark.parametrize("last", range(2, 14))
async def test_a_call_has_one_sub_agent_whichever_commit_is_the_last_before_a_crash(last: int, tmp_path: Path) -> None:
    worker = {WORKER: Definition(name="worker", system_prompt="worker", tools=("look",))}
    driver = by_prompt(boss=delegate("x"), worker=steps(tool_calls(("w1", "look", {})), reply("looked")))
    tools, path, crash = [tool("look", look, repeatable=True)], tmp_path / "data", Crash(last)
    async with open_world(driver, definition=team(worker), tools=tools, path=path, fails=crash, suspends=True) as world:
        await world.say(world.start(), "go")
        with anyio.move_on_after(0.5):
            await crash.died.wait()
    async with open_world(driver, tools=tools, path=path, ids_from=10_000) as world:
        await root_ended(world)
        assert await results(world) == [("c1", "text", "looked")]
        (child,) = await children(world)
        assert (await until_ended(world, child.session_id)).outcome == "completed"


@pytest.mark.parametrize("last", range(2, 10))
async def test_an_answer_to_a_sub_agent_counts_once_whichever_commit_is_the_last_before_a_crash(
    last: int, tmp_path: Path
) -> None:
    hammer, path, crash = Hammer(), tmp_path / "data", Crash(last)
    driver = by_prompt(boss=delegate("x"), worker=STRIKE)
    async with open_world(driver, definition=team(STRIKER), tools=[hammer.tool], path=path) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        await world.start().rest()
    async with open_world(driver, tools=[hammer.tool], path=path, fails=crash, suspends=True, ids_from=10_000) as world:
        (wait,) = await open_waits(world)
        assert await answer(world, wait)
        with anyio.move_on_after(0.5):
            await crash.died.wait()
    async with open_world(driver, tools=[hammer.tool], path=path, ids_from=20_000) as world:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.runtime.housekeep)
            await root_ended(world)
            tasks.cancel_scope.cancel()
        assert len(await results(world)) == 1
        assert len(await children(world)) == 1
        assert len(hammer.calls) <= 1
        assert await open_waits(world) == []
