"""avm waits, avm answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from tests.cli.desk import Desk, open_desk

from agentvm import ImageConfig
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.runtime.function_tool import tool

struck: list[int] = []


@tool(effect="destructive", world="closed")
async def hammer(n: int) -> str:
    """Strikes."""
    struck.append(n)
    return "struck"


@asynccontextmanager
async def waiting() -> AsyncIterator[tuple[Desk, str, anyio.Event]]:
    """A desk whose agent waits for an approval, the id of the wait, and the end of the turn."""
    struck.clear()
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "hammer", {"n": 1})), reply("done")))
    definition = Definition(name="smith", tools=("hammer",))
    async with open_desk(driver, tools=[hammer], definitions=[definition]) as desk:
        agentx, parked, ended = desk.server.agentx, anyio.Event(), anyio.Event()
        agentx.runtime.on("turn_parked", lambda event: parked.set())
        agentx.runtime.on("turn_response", lambda event: ended.set())
        image = await agentx.images.create(ImageConfig(definition="smith"))
        agent = await agentx.images.run(image.image_id)
        await agent.receive("go")
        with anyio.fail_after(60):
            await parked.wait()
        (wait,) = await desk.record("waits")
        yield desk, wait["waitId"], ended


async def test_what_waits_is_listed_shown_and_approved() -> None:
    async with waiting() as (desk, wait_id, ended):
        listed = await desk.ok("waits")
        assert "hammer" in listed
        assert '{"n": 1}' in listed
        shown = await desk.ok("answer", wait_id, "show")
        assert "default rule 1: destructive" in shown
        assert "The turn continues." in await desk.ok("answer", wait_id, "approve")
        with anyio.fail_after(60):
            await ended.wait()
        assert struck == [1]
        assert "Nothing waits." in (await desk.avm("waits")).err
        assert "hammer" in await desk.ok("waits", "--all")


async def test_an_edited_call_runs_with_the_new_input() -> None:
    async with waiting() as (desk, wait_id, ended):
        odd = await desk.avm("answer", wait_id, "edit", "--input", "{")
        assert (odd.code, "not valid JSON" in odd.err) == (2, True)
        assert await desk.ok("answer", wait_id, "edit", "--input", '{"n": 2}')
        with anyio.fail_after(60):
            await ended.wait()
        assert struck == [2]
        late = await desk.avm("answer", wait_id, "deny")
        assert (late.code, "answered already: edit" in late.err) == (1, True)
        assert (await desk.avm("answer", "wait_none", "approve")).code == 5
