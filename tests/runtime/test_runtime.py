import anyio
import pytest
from msgspec.structs import replace
from tests.runtime.fixtures import World, open_world, tool, types

from agentvm.drivers.base import MessageStarted, TextChunk, TextStarted
from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import AgentNotRunning, ShuttingDown
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, AgentId, ContainerId, ImageId, SessionId, TenantId
from agentvm.model.limits import Limits
from agentvm.runtime.channel import GOING_AWAY


def held(gate: anyio.Event) -> ScriptedDriver:
    head = (MessageStarted("", "scripted"), TextStarted(), TextChunk("partial"))
    return ScriptedDriver(lambda prompt: [*head, Pause(gate), *reply("whole")[2:]])


async def begin_turn(world: World) -> str:
    turn_id = await world.say(world.start(), "hi")
    await world.hear("text_delta", turn_id=turn_id)
    return turn_id


async def test_a_session_has_one_agent_however_often_it_is_started() -> None:
    async with open_world(ScriptedDriver()) as world:
        image = world.image
        first, reused = world.runtime.start_agent(DEFAULT_TENANT, image, image.session_id)
        assert not reused
        assert world.runtime.start_agent(DEFAULT_TENANT, image, image.session_id) == (first, True)
        heard = await world.hear("agent_registered")
        assert types(heard) == ["agent_registered"]
        assert heard[0]["data"] == {
            "containerId": "c1",
            "imageId": image.image_id,
            "sessionId": image.session_id,
            "agentId": first.agent_id,
            "definitionName": "Chat",
            "registeredAt": heard[0]["data"]["registeredAt"],
        }
        assert heard[0]["context"] == {"containerId": "c1", "agentId": first.agent_id}


async def test_two_who_start_an_agent_at_once_get_the_same_one() -> None:
    async with open_world(ScriptedDriver()) as world:
        started: list[AgentId] = []

        async def start() -> None:
            await world.store.tenant(DEFAULT_TENANT).find_image(world.image.image_id)
            started.append(world.start().agent_id)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(start)
        assert len(set(started)) == 1


async def test_agents_are_found_by_their_tenant_only() -> None:
    async with open_world(ScriptedDriver()) as world:
        runtime, image, other = world.runtime, world.image, TenantId("other")
        assert runtime.agent_of(DEFAULT_TENANT, image) is None
        assert runtime.roster.of_container(DEFAULT_TENANT, image.container_id) == ()
        agent = world.start()
        assert runtime.roster.find(DEFAULT_TENANT, agent.agent_id) is agent
        assert runtime.roster.find(other, agent.agent_id) is None
        assert runtime.roster.find(DEFAULT_TENANT, AgentId("nobody")) is None
        assert runtime.roster.of_container(DEFAULT_TENANT, image.container_id) == (agent,)
        assert runtime.roster.of_container(other, image.container_id) == ()
        assert runtime.roster.of_container(DEFAULT_TENANT, ContainerId("c2")) == ()
        assert runtime.agent_of(DEFAULT_TENANT, image) is agent
        assert runtime.agent_of(other, image) is None
        assert runtime.agent_of(DEFAULT_TENANT, image, SessionId("sess_2")) is None


async def test_stopping_in_the_middle_of_a_turn_ends_the_turn_first() -> None:
    async with open_world(held(anyio.Event())) as world:
        await begin_turn(world)
        agent = world.start()
        with anyio.fail_after(60):
            await world.runtime.stop_agent(agent)
            await world.runtime.stop_agent(agent)
        assert types(world.hear_nowait())[-6:] == [
            "message_stop", "assistant_message", "conversation_end", "turn_response",
            "session_destroyed", "agent_unregistered",
        ]  # fmt: skip
        assert world.runtime.roster.find(DEFAULT_TENANT, agent.agent_id) is None
        assert world.start() is not agent


async def test_two_who_stop_an_agent_are_told_of_it_once_and_after_the_ends_of_its_turns() -> None:
    async with open_world(held(anyio.Event())) as world:
        await begin_turn(world)
        agent = world.start()
        await world.say(agent, "queued")
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(world.runtime.stop_agent, agent)
        heard = types(world.hear_nowait())
        assert heard.count("turn_response") == 2
        assert heard[-3:] == ["turn_response", "session_destroyed", "agent_unregistered"]


async def test_an_agent_whose_stopper_went_away_is_gone_nevertheless() -> None:
    async with open_world(held(anyio.Event())) as world:
        await begin_turn(world)
        agent = world.start()
        with anyio.CancelScope() as asker:
            asker.cancel()
            await world.runtime.stop_agent(agent)
        assert world.runtime.roster.find(DEFAULT_TENANT, agent.agent_id) is None
        turn_id = await world.say(world.start(), "hi again")
        await world.hear("text_delta", turn_id=turn_id)


async def test_stopping_an_image_stops_the_agents_of_all_its_sessions() -> None:
    async with open_world(ScriptedDriver()) as world:
        runtime, image = world.runtime, world.image
        await runtime.stop_image(DEFAULT_TENANT, image)
        world.start()
        runtime.start_agent(DEFAULT_TENANT, image, SessionId("sess_2"))
        await runtime.stop_image(TenantId("other"), image)
        assert len(runtime.roster.of_container(DEFAULT_TENANT, image.container_id)) == 2
        await runtime.stop_image(DEFAULT_TENANT, image)
        assert runtime.roster.of_container(DEFAULT_TENANT, image.container_id) == ()
        assert types(world.hear_nowait()).count("agent_unregistered") == 2


async def test_draining_lets_turns_finish_and_refuses_new_work() -> None:
    gate = anyio.Event()
    async with open_world(held(gate)) as world:
        turn_id = await begin_turn(world)
        accepting = [world.runtime.accepting]
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(world.runtime.drain, 5)
                await anyio.wait_all_tasks_blocked()
                accepting.append(world.runtime.accepting)
                with pytest.raises(ShuttingDown):
                    world.start()
                gate.set()
        assert accepting == [True, False]
        heard = world.hear_nowait()
        assert types(heard, turn_id)[-1] == "turn_response"
        assert heard[-1]["data"]["outcome"] == "completed"
        assert world.channel.closing is GOING_AWAY


async def test_draining_cuts_what_does_not_finish_in_time() -> None:
    async with open_world(held(anyio.Event())) as world:
        turn_id = await begin_turn(world)
        agent = world.start()
        with anyio.fail_after(60):
            await world.runtime.drain(0.01)
        heard = world.hear_nowait()
        assert types(heard, turn_id)[-1] == "turn_response"
        assert heard[-1]["data"]["outcome"] == "interrupted"
        with pytest.raises(AgentNotRunning):
            await agent.receive("too late")
        await world.runtime.drain(0)


async def test_leaving_the_runtime_ends_every_turn_and_leaves_no_task() -> None:
    before = {task.id for task in anyio.get_running_tasks()}
    with anyio.fail_after(60):
        async with open_world(held(anyio.Event())) as world:
            await begin_turn(world)
    assert {task.id for task in anyio.get_running_tasks()} == before
    assert types(world.hear_nowait())[-1] == "turn_response"


async def test_an_error_in_the_body_is_raised_as_it_was_after_every_turn_has_ended() -> None:
    worlds: list[World] = []

    async def use() -> None:
        async with open_world(held(anyio.Event())) as world:
            worlds.append(world)
            await begin_turn(world)
            raise ZeroDivisionError

    with anyio.fail_after(60), pytest.raises(ZeroDivisionError):
        await use()
    assert types(worlds[0].hear_nowait())[-1] == "turn_response"


async def test_what_is_too_old_leaves_the_log_and_its_end_stays() -> None:
    async with open_world(ScriptedDriver(), limits=Limits(log_days=0.0)) as world:
        agent = world.start()
        for text in ("first", "second"):
            await world.hear("turn_response", turn_id=await world.say(agent, text))
        log = world.store.tenant(DEFAULT_TENANT).container(ContainerId("c1")).log(world.image.session_id)
        first, last = await log.range()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(world.runtime.housekeep)
                # Each read waits its turn behind the writer, so this does not spin.
                while (await log.range())[0] == first:
                    pass
                tasks.cancel_scope.cancel()
        assert (await log.range())[1] == last


async def test_an_image_that_is_built_anew_is_used_by_its_agents_and_no_other() -> None:
    async with open_world(ScriptedDriver()) as world:
        runtime, image = world.runtime, world.image
        agent = world.start()
        other, _ = runtime.start_agent(DEFAULT_TENANT, replace(image, image_id=ImageId("img_2")), SessionId("sess_2"))
        newer = replace(image, definition=Definition(name="default", system_prompt="new"), updated_at=image.updated_at + 5)
        runtime.replace_image(DEFAULT_TENANT, newer)
        runtime.replace_image(TenantId("other"), replace(newer, name="theirs"))
        assert agent.image is newer
        assert other.image is not newer
        # Who has read the image before that finds the agent, and changes nothing.
        assert runtime.start_agent(DEFAULT_TENANT, image, image.session_id) == (agent, True)
        assert agent.image is newer
        newest = replace(newer, updated_at=newer.updated_at + 1)
        runtime.start_agent(DEFAULT_TENANT, newest, image.session_id)
        assert agent.image is newest


async def test_the_tools_of_the_process_are_named() -> None:
    async def nothing(arguments: dict[str, object]) -> object:
        return None

    async with open_world(ScriptedDriver(), tools=[tool("clock", nothing)]) as world:
        assert world.runtime.tools.names(None) == ("clock",)
