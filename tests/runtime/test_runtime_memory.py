"""What a runtime keeps in memory, what it finds out about its disk, and what it does with what it cannot read."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.runtime.fixtures import World, open_world, tool, types
from tests.support.engines import damage

from agentvm.blueprint.image import new_session
from agentvm.config import ServerConfig
from agentvm.drivers.base import MessageStarted, Prompt, TextChunk, TextStarted
from agentvm.drivers.models import Models
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT, SessionId, id_factory
from agentvm.model.limits import Limits
from agentvm.runtime import journal
from agentvm.runtime.agent import Agent
from agentvm.runtime.roster import Sleeper
from agentvm.runtime.runtime import open_runtime
from agentvm.runtime.tools import ServerTools
from agentvm.storage.engine import open_store

UNREADABLE = b"\0"
HEAD = (MessageStarted("", "scripted"), TextStarted(), TextChunk("partial"))


def held() -> ScriptedDriver:
    return ScriptedDriver(lambda prompt: [*HEAD, Pause(anyio.Event())])


async def asleep(world: World, agent: Agent) -> Sleeper | None:
    """What is left of the agent once it has left memory."""
    with anyio.fail_after(60):
        while (found := world.runtime.roster.find(DEFAULT_TENANT, agent.agent_id)) is agent:
            await anyio.lowlevel.checkpoint()
    assert not isinstance(found, Agent)
    return found


async def test_an_agent_nobody_uses_leaves_memory_and_the_next_message_finds_it_under_its_id() -> None:
    async with open_world(ScriptedDriver(), limits=Limits(idle_seconds=0.01)) as world:
        agent = world.start()
        await world.say(agent, "one")
        await world.hear("turn_response")
        assert await asleep(world, agent) is not None
        # Nobody was told: it is as if it were there.
        assert "agent_unregistered" not in types(world.hear_nowait())
        assert "session_destroyed" not in types(world.heard)
        present = world.runtime.agent_of(DEFAULT_TENANT, world.image)
        assert present is not None
        woken = await world.runtime.wake_agent(DEFAULT_TENANT, agent.agent_id)
        assert woken is not None
        assert (woken is agent, woken.agent_id) == (False, agent.agent_id)
        turn_id = await world.say(woken, "two")
        heard = await world.hear("turn_response", turn_id=turn_id)
        cursors = [int(event["cursor"]) for event in heard if "cursor" in event]
        assert cursors == list(range(1, len(cursors) + 1))
        assert types(heard).count("agent_registered") == 1
        assert [type(message).__name__ for message in await world.messages()] == ["UserMessage", "AssistantMessage"] * 2


async def test_starting_a_sleeper_by_its_image_gives_the_same_agent_id() -> None:
    async with open_world(ScriptedDriver(), limits=Limits(idle_seconds=0.01)) as world:
        agent = world.start()
        await asleep(world, agent)
        again, reused = world.runtime.start_agent(DEFAULT_TENANT, world.image, world.image.session_id)
        assert (again.agent_id, reused) == (agent.agent_id, True)


async def test_of_an_agent_whose_session_nobody_hears_nothing_is_left() -> None:
    async with open_world(ScriptedDriver(), limits=Limits(idle_seconds=0.01)) as world:
        agent = world.start()
        world.runtime.broadcaster.detach(world.channel)
        assert await asleep(world, agent) is None
        assert world.runtime.roster.of_container(DEFAULT_TENANT, world.image.container_id) == ()
        assert await world.runtime.wake_agent(DEFAULT_TENANT, agent.agent_id) is None


async def test_a_sleeper_is_forgotten_when_its_last_listener_goes() -> None:
    async with open_world(ScriptedDriver(), limits=Limits(idle_seconds=0.01)) as world:
        agent = world.start()
        assert await asleep(world, agent) is not None
        world.runtime.broadcaster.detach(world.channel)
        with anyio.fail_after(60):
            while world.runtime.roster.find(DEFAULT_TENANT, agent.agent_id) is not None:
                await anyio.lowlevel.checkpoint()


async def test_an_agent_that_works_or_is_about_to_stays() -> None:
    async with open_world(held(), limits=Limits(idle_seconds=0.005)) as world:
        working, wanted, idle = (
            world.runtime.start_agent(DEFAULT_TENANT, world.image, session_id)[0]
            for session_id in (world.image.session_id, SessionId("s2"), SessionId("s3"))
        )
        with wanted.in_use():
            await world.say(working, "one")
            await world.hear("text_delta")
            await asleep(world, idle)
            assert world.runtime.roster.find(DEFAULT_TENANT, working.agent_id) is working
            assert world.runtime.roster.find(DEFAULT_TENANT, wanted.agent_id) is wanted
        await asleep(world, wanted)


async def test_when_there_are_too_many_agents_those_who_rested_longest_leave_first() -> None:
    async with open_world(ScriptedDriver(), limits=Limits(agents=10)) as world:
        agents = [world.runtime.start_agent(DEFAULT_TENANT, world.image, SessionId(f"s{n}"))[0] for n in range(12)]
        # The eleventh is within the margin, the thirteenth lets the oldest go.
        with agents[0].in_use():
            world.runtime.start_agent(DEFAULT_TENANT, world.image, SessionId("one more"))
            there = [isinstance(world.runtime.roster.find(DEFAULT_TENANT, agent.agent_id), Agent) for agent in agents]
            assert there == [True, False, False, *[True] * 9]


async def test_a_sleeper_can_be_stopped_like_any_agent() -> None:
    async with open_world(ScriptedDriver(), limits=Limits(idle_seconds=0.01)) as world:
        agent = world.start()
        names = await asleep(world, agent)
        assert names is not None
        await world.runtime.stop_agent(names)
        heard = await world.hear("agent_unregistered")
        assert heard[-1]["data"]["agentId"] == agent.agent_id
        assert "session_destroyed" in types(heard)
        assert world.runtime.roster.find(DEFAULT_TENANT, agent.agent_id) is None


async def test_while_the_store_refuses_the_server_is_not_ready_and_finds_out_when_it_works_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "PROBE_SECONDS", 0.001)
    broken = [False]
    async with open_world(ScriptedDriver(), fails=lambda number: broken[0]) as world:
        agent = world.start()
        broken[0] = True
        with pytest.raises(StoreFailed):
            await agent.receive("one")
        assert str(world.runtime.hindrance) == "the store refuses writes"
        broken[0] = False
        with anyio.fail_after(60):
            while world.runtime.hindrance is not None:
                await anyio.lowlevel.checkpoint()
        await world.say(agent, "two")
        await world.hear("turn_response")
        # Nothing of the attempts is left.
        await agent.rest()
        assert await world.store.read_journal() == ()


async def test_a_history_that_cannot_be_read_sets_its_session_aside_and_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    async with open_world(held(), path=path, suspends=True) as world:
        container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
        other = new_session(world.image, SessionId("sess_other"), None, 1)
        await container.add_session(other)
        for session_id in (world.image.session_id, other.session_id):
            agent = world.runtime.start_agent(DEFAULT_TENANT, world.image, session_id)[0]
            await world.say(agent, "one")
        await world.hear("text_delta", times=2)
    of_other = "session_key = (SELECT session_key FROM sessions WHERE session_id = ?)"
    damage(path, f"UPDATE all_messages SET body = ? WHERE {of_other}", UNREADABLE, other.session_id)
    async with open_world(ScriptedDriver(), path=path) as world:
        container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
        with anyio.fail_after(60):
            while await world.store.list_unfinished():
                await anyio.lowlevel.checkpoint()
        outcomes = [
            [turn.outcome for turn in await container.log(session_id).list_turns()]
            for session_id in (world.image.session_id, other.session_id)
        ]
        assert outcomes == [["completed"], ["failed"]]
        ((_, aside),) = await world.store.list_quarantined()
        assert aside.session_id == other.session_id
        assert "cannot be read" in str(aside.quarantine)


async def leave_a_turn(path: Path) -> World:
    """A process that was restarted in the middle of a turn, and what it left behind."""
    async with open_world(held(), path=path, suspends=True) as world:
        await world.say(world.start(), "one")
        await world.hear("text_delta")
    return world


async def test_an_image_that_cannot_be_read_keeps_nobody_from_starting(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    before = await leave_a_turn(path)
    damage(path, "UPDATE images SET config = ?", UNREADABLE)
    async with open_store(path) as store:
        numbers = iter(range(10**6))
        async with open_runtime(
            store=store,
            models=Models({"scripted": ScriptedDriver()}, "scripted"),
            tools=ServerTools(()),
            clock=lambda: 1,
            new_id=id_factory(lambda: 0, lambda bits: next(numbers)),
            settings=ServerConfig(),
        ) as runtime:
            assert runtime.hindrance is None
        ((_, aside),) = await store.list_quarantined()
        assert aside.session_id == before.image.session_id
        assert "image cannot be read" in str(aside.quarantine)


async def test_after_a_lost_journal_an_answer_gets_an_id_of_its_own_and_is_billed(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"

    async def look(arguments: dict[str, object]) -> object:
        return "seen"

    def script(prompt: Prompt) -> list[ScriptStep]:
        return [Pause(anyio.Event())] if len(prompt.conversation) > 1 else list(tool_calls(("c1", "look", {})))

    driver = ScriptedDriver(script)
    async with open_world(driver, tools=[tool("look", look)], path=path, suspends=True) as world:
        await world.say(world.start(), "one")
        await world.hear("tool_completed")
        with anyio.fail_after(60):
            while len(driver.prompts) < 2:
                await anyio.lowlevel.checkpoint()
    damage(path, "UPDATE journal SET body = ?", UNREADABLE)
    async with open_world(ScriptedDriver(lambda prompt: reply("THE ANSWER")), tools=[tool("look", look)], path=path) as world:
        with anyio.fail_after(60):
            while await world.store.list_unfinished():
                await anyio.lowlevel.checkpoint()
        said = await world.messages()
        assert getattr(said[-1], "text", "") == "THE ANSWER"
        # Also the call that was under way when the server was stopped.
        assert len(await world.store.accounts(DEFAULT_TENANT).ledger.list()) == 3


async def test_a_part_of_the_log_that_cannot_be_read_is_lost_and_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    async with open_world(ScriptedDriver(), path=path) as world:
        await world.say(world.start(), "one")
        await world.hear("turn_response")
    damage(path, "UPDATE log SET body = ?", UNREADABLE)
    async with open_world(ScriptedDriver(), path=path) as world:
        image = world.image
        missed = await world.runtime.replay.read(DEFAULT_TENANT, image.container_id, image.session_id, 0)
        assert (missed.lost, missed.events) == (True, [])
        turn_id = await world.say(world.start(), "two")
        await world.hear("turn_response", turn_id=turn_id)
