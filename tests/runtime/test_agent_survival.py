"""Turns that outlive a store that fails, a shutdown, a session that is deleted and a process that dies."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import msgspec
from tests.runtime.fixtures import World, left, open_world, types

from agentvm.blueprint.image import new_session
from agentvm.drivers.base import MessageStarted, ModelOutput, Prompt, TextChunk, TextStarted
from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import ProviderOverloaded
from agentvm.model.ids import DEFAULT_TENANT, SessionId, TurnId
from agentvm.runtime.lifecycle import AgentState
from agentvm.runtime.recovery.progress import Done

TURN = TurnId("turn_before")
HEAD = (MessageStarted("", "scripted"), TextStarted(), TextChunk("partial"))


def held() -> ScriptedDriver:
    return ScriptedDriver(lambda prompt: [*HEAD, Pause(anyio.Event())])


async def ok(arguments: dict[str, object]) -> object:
    return "fine"


def cursors(world: World) -> list[int]:
    return [int(event["cursor"]) for event in world.hear_nowait() if "cursor" in event]


async def logged(world: World) -> list[tuple[int, str]]:
    image, found = world.image, list[tuple[int, str]]()
    while True:
        after = found[-1][0] if found else 0
        missed = await world.runtime.replay.read(DEFAULT_TENANT, image.container_id, image.session_id, after)
        if not missed.events:
            return found
        found += [(event.seq, event.data.type) for event in missed.events]


async def test_an_end_that_could_not_be_stored_is_told_at_once_and_stored_when_the_disk_works_again() -> None:
    broken = [True]
    async with open_world(ScriptedDriver(), fails=lambda number: broken[0] and number > 1) as world:
        agent = world.start()
        first = await world.say(agent, "one")
        heard = await world.hear("turn_response")
        assert "cursor" not in heard[-1]
        await agent.rest()
        (turn,) = await world.turns()
        assert turn.outcome is None
        broken[0] = False
        second = await world.say(agent, "two")
        heard = await world.hear("turn_response", turn_id=second)
        assert [turn.outcome for turn in await world.turns()] == ["failed", "completed"]
        # In the log each turn has one end, before the next begins, and the numbers have no gap.
        log = await logged(world)
        assert cursors(world) == [seq for seq, _ in log] == list(range(1, len(log) + 1))
        assert [kind for _, kind in log].count("turn_response") == 2
        assert types(heard, first).count("turn_response") == 2
        assert await world.store.read_journal() == ()


async def test_an_end_that_is_owed_is_stored_once_although_two_ask_at_once() -> None:
    broken = [True]
    async with open_world(ScriptedDriver(), fails=lambda number: broken[0] and number > 1) as world:
        agent = world.start()
        await world.say(agent, "one")
        await world.hear("turn_response")
        await agent.rest()
        broken[0] = False
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(agent.interrupt)
        kinds = [kind for _, kind in await logged(world)]
        assert (kinds.count("turn_response"), kinds.count("interrupted")) == (1, 2)


async def test_an_interrupt_names_the_turn_it_stops() -> None:
    async with open_world(held()) as world:
        agent = world.start()
        await agent.interrupt()
        turn_id = await world.say(agent, "hi")
        await world.hear("text_delta")
        agent.cancel(await agent.interrupt())
        heard = await world.hear("turn_response")
        told = [event["data"].get("turnId") for event in heard if event["type"] == "interrupted"]
        assert told == [None, turn_id]


async def test_a_stop_works_although_it_cannot_be_stored() -> None:
    broken = [False]
    async with open_world(held(), fails=lambda number: broken[0]) as world:
        agent = world.start()
        turn_id = await world.say(agent, "hi")
        await world.hear("text_delta")
        broken[0] = True
        agent.cancel(await agent.interrupt())
        with anyio.fail_after(60):
            await agent.rest()
        heard = world.hear_nowait()
        assert "interrupted" in types(heard)
        assert types(heard, turn_id)[-1] == "turn_response"


async def test_a_stop_hits_the_turn_it_was_meant_for() -> None:
    gate = anyio.Event()
    driver = ScriptedDriver(lambda prompt: [*HEAD, Pause(gate), *reply("whole")[2:]])
    async with open_world(driver) as world:
        agent = world.start()
        turns = [await world.say(agent, text) for text in ("one", "two")]
        await world.hear("text_delta")
        gate.set()
        # The first turn ends while the stop is being told.
        agent.cancel(await agent.interrupt())
        heard = await world.hear("turn_response", times=2)
        ends = {event["context"]["turnId"]: event["data"]["outcome"] for event in heard if event["type"] == "turn_response"}
        assert ends[turns[1]] == "completed"


async def test_a_session_that_is_deleted_under_a_turn_ends_it_once() -> None:
    async with open_world(held()) as world:
        agent = world.start()
        turn_id = await world.say(agent, "hi")
        await world.hear("text_delta")
        await world.store.tenant(DEFAULT_TENANT).container(world.image.container_id).delete_image(world.image.image_id)
        with anyio.fail_after(60):
            await world.runtime.stop_agent(agent)
        heard = world.hear_nowait()
        assert types(heard, turn_id).count("turn_response") == 1
        assert types(heard)[-2:] == ["session_destroyed", "agent_unregistered"]
        assert cursors(world) == list(range(1, len(cursors(world)) + 1))


async def test_who_comes_after_a_stopped_agent_counts_on_where_it_was() -> None:
    async with open_world(ScriptedDriver()) as world:
        before = world.start()
        accepted = await before.receive("too late")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.runtime.stop_agent, before)
            await anyio.wait_all_tasks_blocked()
        after = world.start()
        assert after is not before
        before.release(accepted)
        turn_id = await world.say(after, "hi")
        await world.hear("turn_response", turn_id=turn_id)
        assert cursors(world) == list(range(1, len(cursors(world)) + 1))


async def test_a_suspended_turn_is_neither_ended_nor_told_to_be() -> None:
    async with open_world(held()) as world:
        agent = world.start()
        for text in ("one", "two"):
            await world.say(agent, text)
        accepted = await agent.receive("three")
        await world.hear("text_delta")
        with anyio.fail_after(60):
            await agent.suspend()
        agent.release(accepted)
        await anyio.wait_all_tasks_blocked()
        assert agent.state is AgentState.STOPPED
        assert "turn_response" not in types(world.hear_nowait())
        # Those who listen know that it goes on; only the turn that had begun is named.
        assert types(world.heard)[-1] == "turn_suspended"
        assert types(world.heard).count("turn_suspended") == 1
        assert len(await world.store.list_unfinished()) == 3


async def test_a_turn_that_was_stopped_before_the_crash_stays_stopped() -> None:
    driver = ScriptedDriver()
    async with open_world(driver) as world:
        agent = world.start()
        agent.release(agent.resume(left(world), Done(), stopped=True))
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "interrupted"
        assert driver.prompts == []


class RaisesLate(ScriptedDriver):
    """Fails when everything was said."""

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        async for output in super().run(prompt):
            yield output
        raise ProviderOverloaded("too late")


async def test_a_turn_whose_session_was_deleted_before_the_crash_ends_without_a_word(tmp_path: Path) -> None:
    path, other = tmp_path / "x.db", SessionId("other")
    async with open_world(held(), path=path) as world:
        tenant, image = world.store.tenant(DEFAULT_TENANT), world.image
        home = tenant.container(image.container_id)
        await home.add_session(new_session(image, other, None, 1))
        await home.log(other).record(turns=[msgspec.structs.replace(left(world), session_id=other)], now=1)
        assert await tenant.sessions((image.container_id,)).delete(other, 2) is not None
    driver = ScriptedDriver()
    async with open_world(driver, path=path) as world:
        with anyio.fail_after(60):
            while await world.store.list_unfinished():
                await anyio.lowlevel.checkpoint()
        home = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
        assert [turn.outcome for turn in await home.log(other).list_turns()] == ["interrupted"]
        assert driver.prompts == []


async def test_a_failure_after_the_end_is_no_second_end() -> None:
    async with open_world(RaisesLate()) as world:
        agent = world.start()
        await world.say(agent, "hi")
        await agent.rest()
        ends = [event["data"]["outcome"] for event in world.hear_nowait() if event["type"] == "turn_response"]
        assert ends == ["completed"]


async def test_an_end_that_was_taken_back_becomes_a_failure() -> None:
    async with open_world(ScriptedDriver(), fails=lambda number: number == 2) as world:
        agent = world.start()
        await world.say(agent, "hi")
        await agent.rest()
        ends = [event["data"]["outcome"] for event in world.hear_nowait() if event["type"] == "turn_response"]
        assert ends == ["failed"]
        assert [turn.outcome for turn in await world.turns()] == ["failed"]
        assert cursors(world) == list(range(1, len(cursors(world)) + 1))
