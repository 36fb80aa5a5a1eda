"""F10: a stop at every point of a turn ends it once, and it stays ended."""

from typing import Any

import anyio
import pytest
from tests.faults.invariants import check_events, check_texts
from tests.runtime.fixtures import open_world, tool

from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, reply, tool_calls

ASKS: list[ScriptStep] = list(tool_calls(("c1", "hammer", {"size": 3}), text="Let me see."))
ANSWERS: list[ScriptStep] = list(reply("All ", "is ", "well."))
IN_TOOL = len(ASKS) + 1
LAST = len(ASKS) + len(ANSWERS) + 2


class Reached:
    """In place of an event: says that the turn has come here, and holds it."""

    def __init__(self) -> None:
        self.here = anyio.Event()

    async def wait(self) -> None:
        self.here.set()
        await anyio.sleep_forever()


@pytest.mark.parametrize("position", range(LAST + 1))
async def test_f10_a_turn_is_stopped_at_any_point(position: int) -> None:
    reached = Reached()
    hold: Any = Pause(reached)  # type: ignore[arg-type]  # only waited for

    def script(prompt: Prompt) -> list[ScriptStep]:
        if len(driver.prompts) > 2:
            return list(reply("fine"))
        if isinstance(prompt.conversation[-1], UserEntry):
            return [*ASKS[:position], hold, *ASKS[position:]] if position <= len(ASKS) else ASKS
        at = position - IN_TOOL - 1
        return [*ANSWERS[:at], hold, *ANSWERS[at:]]

    async def hammer(arguments: dict[str, object]) -> object:
        if position == IN_TOOL:
            await reached.wait()
        return "bang"

    driver = ScriptedDriver(script)
    async with open_world(driver, tools=[tool("hammer", hammer, 60)]) as world:
        agent = world.start()
        turn_id = await world.say(agent, "go")
        with anyio.fail_after(60):
            await reached.here.wait()
            agent.cancel(await agent.interrupt())
            await agent.rest()
        heard = [event for event in world.hear_nowait() if "cursor" in event]
        check_events(heard)
        check_texts(heard)
        # At the last point the turn has already ended: the stop comes too late and changes nothing.
        outcome = "completed" if position == LAST else "interrupted"
        assert [event["data"]["outcome"] for event in heard if event["type"] == "turn_response"] == [outcome]
        (turn,) = await world.turns()
        assert (turn.turn_id, turn.outcome) == (turn_id, outcome)
        driver.prompts += driver.prompts * 2
        await world.say(agent, "and now?")
        assert (await world.hear("turn_response", times=2))[-1]["data"]["outcome"] == "completed"
