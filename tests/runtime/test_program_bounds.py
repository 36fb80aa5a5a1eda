"""Bounds of programs that call tools."""

import anyio
import pytest
from tests.runtime.fixtures import open_world, types
from tests.runtime.program_bench import Bench, running, value

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors import ToolFailed
from agentvm.model.program import JOURNAL_MAX_BYTES
from agentvm.runtime.tools import Tool
from agentvm.tools.base import OtherTools

pytestmark = pytest.mark.anyio


async def test_results_beyond_the_journal_are_told_as_made_and_left_out() -> None:
    async def script(others: OtherTools) -> object:
        sizes: list[object] = []
        for number in range(3):
            try:
                sizes.append(len(str(await others.call("look", {"n": number}))))
            except ToolFailed as error:
                sizes.append(str(error))
        return sizes

    bench = Bench(script)
    tools = bench.tools
    big = "x" * (JOURNAL_MAX_BYTES // 2 - 10_000)

    async def long(arguments: dict[str, object]) -> object:
        return big

    tools[1] = Tool(spec=tools[1].spec, run=long, repeatable=True)
    driver = ScriptedDriver(in_turn(tool_calls(("p1", "program", {})), reply("done")))
    async with open_world(driver, tools=tools) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        first, second, third = await value(world)
        assert (first, second) == (len(big), len(big))
        assert third.startswith("The call was made, but the results of one program have at most 16,777,216 bytes")
        told = [event for event in world.heard if event["type"] == "tool_completed" and "parentId" in event["data"]]
        assert max(len(str(event)) for event in told) < 3_000


async def test_calls_that_come_at_once_are_made_one_after_the_other() -> None:
    running_now, most = 0, 0

    async def script(others: OtherTools) -> object:
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                one: dict[str, object] = {"n": number}
                tasks.start_soon(others.call, "look", one)
        return None

    bench = Bench(script)
    tools = bench.tools

    async def slow(arguments: dict[str, object]) -> object:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        await anyio.lowlevel.checkpoint()
        running_now -= 1
        return None

    tools[1] = Tool(spec=tools[1].spec, run=slow, repeatable=True)
    driver = ScriptedDriver(in_turn(tool_calls(("p1", "program", {})), reply("done")))
    async with open_world(driver, tools=tools) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        assert most == 1


async def test_a_call_that_the_program_did_not_wait_for_is_told_as_ended() -> None:
    async def script(others: OtherTools) -> object:
        with anyio.move_on_after(0.01):
            await others.call("look", {"n": 1})
        return "over"

    async with running(Bench(script, hang={"look"})) as world:
        await world.hear("turn_response")
        (failed,) = [event["data"] for event in world.heard if event["type"] == "tool_failed"]
        assert (failed["toolId"], failed["error"]) == ("p1.1", "The program ended without waiting for this call.")
        assert await value(world) == "over"


async def test_a_program_that_was_abandoned_makes_no_call_and_tells_nothing_after_its_turn() -> None:
    begun, released, refused = anyio.Event(), anyio.Event(), anyio.Event()

    async def script(others: OtherTools) -> object:
        with anyio.CancelScope(shield=True):
            begun.set()
            await released.wait()
            try:
                await others.call("note", {"n": 1})
            except ToolFailed:
                refused.set()
        return None

    bench = Bench(script)
    async with running(bench) as world:
        with anyio.fail_after(60):
            await begun.wait()
            agent = world.start()
            stopped = await agent.interrupt()
            assert stopped is not None
            stopped.stop()
            await world.hear("turn_response")
            released.set()
            await refused.wait()
        assert bench.made == []
        assert types(world.heard)[-1] == "turn_response"
