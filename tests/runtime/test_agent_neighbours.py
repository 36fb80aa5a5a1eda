"""What one turn, one session or one agent must never do to the others."""

import asyncio
from collections.abc import AsyncGenerator

import anyio
import anyio.lowlevel
import pytest
from tests.runtime.fixtures import left, open_world

from agentvm.blueprint.image import new_session
from agentvm.drivers.base import MessageStarted, ModelOutput, Prompt, TextChunk, TextStarted, UsageReported
from agentvm.drivers.scripted import Pause, ScriptedDriver, last_user_text, reply
from agentvm.errors import WritesRefused
from agentvm.model.ids import DEFAULT_TENANT, SessionId
from agentvm.model.limits import Limits
from agentvm.model.usage import Usage
from agentvm.runtime.accepted import Incoming
from agentvm.runtime.recovery.progress import Done

HEAD = (MessageStarted("", "scripted"), TextStarted(), TextChunk("partial"))


class Cancelling(ScriptedDriver):
    """Lets out a cancellation of its own, as a library may."""

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        if last_user_text(prompt) == "bad":
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        async for output in super().run(prompt):
            yield output


async def test_a_cancellation_that_nobody_asked_for_ends_that_turn_and_nothing_else() -> None:
    async with open_world(Cancelling()) as world:
        agent = world.start()
        bad = await world.say(agent, "bad")
        heard = await world.hear("turn_response", turn_id=bad)
        assert [event["data"]["code"] for event in heard if event["type"] == "error_occurred"] == ["internal_error"]
        good = await world.say(agent, "good")
        assert (await world.hear("turn_response", turn_id=good))[-1]["data"]["outcome"] == "completed"


async def test_one_sessions_contradiction_fails_no_other() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        session = new_session(world.image, SessionId("sess_2"), None, 1)
        await world.store.tenant(DEFAULT_TENANT).container(world.image.container_id).add_session(session)
        other = world.runtime.start_agent(DEFAULT_TENANT, world.image, session.session_id)[0]
        accepted = await agent.receive(Incoming("one", "key"))
        agent.release(accepted)
        await world.hear("turn_response")
        async with anyio.create_task_group() as tasks:

            async def again() -> None:
                # Past the check for repeated keys, as only a bug could come.
                with pytest.raises(WritesRefused):
                    await agent.receive(Incoming("again", "key"))

            tasks.start_soon(again)
            fine = await world.say(other, "two")
        assert (await world.hear("turn_response", turn_id=fine))[-1]["data"]["outcome"] == "completed"
        assert world.runtime.hindrance is None
        # And the session itself goes on.
        await world.say(agent, "three")
        assert (await world.hear("turn_response", times=3))[-1]["data"]["outcome"] == "completed"


async def test_an_absurd_report_of_usage_is_bounded_and_stored() -> None:
    absurd = [*HEAD, UsageReported(Usage(input_tokens=10**25, output_tokens=10**25)), *reply("x")[-1:]]
    async with open_world(ScriptedDriver(lambda prompt: absurd)) as world:
        await world.say(world.start(), "hi")
        end = (await world.hear("turn_response"))[-1]["data"]
        assert (end["outcome"], end["usage"]["estimated"]) == ("completed", True)
        assert (await world.turns())[0].outcome == "completed"


async def test_a_turn_that_waits_under_suspicion_can_be_stopped_at_once() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        agent.resume(left(world), Done())
        agent.cancel(await agent.interrupt())
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "interrupted"


async def test_an_agent_that_woke_up_meanwhile_is_stopped_too() -> None:
    async with open_world(ScriptedDriver(lambda prompt: [*HEAD, Pause(anyio.Event())])) as world:
        runtime, image = world.runtime, world.image
        first, second = (runtime.start_agent(DEFAULT_TENANT, image, SessionId(f"s{n}"))[0] for n in range(2))
        # The second falls asleep and wakes up under its id while somebody holds on to its former body.
        runtime.roster.evict_agent(second)
        woken = runtime.start_agent(DEFAULT_TENANT, image, second.session_id)[0]
        assert woken.agent_id == second.agent_id
        assert not runtime.roster.remove(second)
        await runtime.stop_image(DEFAULT_TENANT, image)
        assert list(runtime.roster) == []
        assert [agent.state.value for agent in (first, woken)] == ["stopped", "stopped"]


async def test_an_end_that_was_told_while_the_disk_was_full_is_stored_when_it_is_back() -> None:
    broken = [True]
    limits = Limits(idle_seconds=0.02)
    async with open_world(ScriptedDriver(), limits=limits, fails=lambda number: broken[0] and number > 1) as world:
        agent = world.start()
        with agent.in_use():
            await world.say(agent, "one")
            await world.hear("turn_response")
            await agent.rest()
            broken[0] = False
            world.runtime._ports.journal.failing = False
            with anyio.fail_after(60):
                while (await world.turns())[0].outcome is None:
                    await anyio.lowlevel.checkpoint()
            assert (await world.turns())[0].outcome == "failed"
