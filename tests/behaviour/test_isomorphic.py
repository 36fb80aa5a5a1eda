"""One suite, two runtimes: an application cannot tell whether its agents run in this process or behind a socket."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import anyio
import pytest
from tests.support.serving import Play, serving

from agentvm import (
    AgentX,
    Definition,
    ImageConfig,
    ScriptedDriver,
    ServerConfig,
    WireEvent,
    create_agentx,
    local_runtime,
    remote_runtime,
)
from agentvm.client.handles import AgentHandle
from agentvm.config import MEMORY, SessionSettings, SystemSettings
from agentvm.drivers.scripted import Script
from agentvm.errors import (
    AgentNotFound,
    AgentVMError,
    DefinitionConflict,
    DefinitionNotFound,
    DriverNotFound,
    ImageNotFound,
    InboxFull,
    InvalidInput,
    SessionNotFound,
    ToolNotFound,
    UnknownCommand,
)
from agentvm.model.message import AssistantMessage, ErrorMessage, ToolCallMessage, ToolResultMessage, UserMessage
from agentvm.protocol.records import DefinitionRecord

POET = Definition(name="poet", description="Writes verse", system_prompt="Answer in verse.", tools=("calculator",))


class Open(Protocol):
    def __call__(self, script: Script) -> AbstractAsyncContextManager[AgentX]: ...


@asynccontextmanager
async def local(script: Script) -> AsyncIterator[AgentX]:
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY, shutdown_seconds=0), sessions=SessionSettings(titles="off"))
    source = local_runtime(config, definitions=[POET], drivers={"scripted": ScriptedDriver(script)})
    async with create_agentx(source) as agentx:
        yield agentx


@asynccontextmanager
async def remote(script: Script) -> AsyncIterator[AgentX]:
    async with serving(script, definitions=[POET]) as server, create_agentx(remote_runtime(server.url)) as agentx:
        yield agentx


@pytest.fixture(params=[local, remote], ids=["local", "remote"])
def opened(request: pytest.FixtureRequest) -> Open:
    chosen: Open = request.param
    return chosen


async def run(agentx: AgentX, container_id: str = "c1") -> AgentHandle:
    image = await agentx.images.create(container_id=container_id)
    return await agentx.images.run(image.image_id)


async def text_of(agent: AgentHandle, content: str) -> str:
    with anyio.fail_after(60):
        events = [event async for event in agent.stream(content)]
    return "".join(str(event.data["text"]) for event in events if event.type == "text_delta")


async def test_definitions_are_registered_once_listed_and_found(opened: Open) -> None:
    async with opened(Play()) as agentx:
        listed = await agentx.definitions.list()
        assert [one.name for one in listed][:2] == ["default", "poet"]
        assert all(isinstance(one, DefinitionRecord) for one in listed[2:]), "the agents that ship with the server"
        assert await agentx.definitions.get("poet") == POET
        assert await agentx.definitions.get("nobody") is None
        critic = Definition(name="critic", system_prompt="Find fault.")
        assert await agentx.definitions.register(critic) == critic
        assert await agentx.definitions.register(critic) == critic
        assert (await agentx.definitions.list())[2] == critic
        with pytest.raises(DefinitionConflict):
            await agentx.definitions.register(Definition(name="critic", system_prompt="Praise."))
        with pytest.raises(DefinitionConflict):
            await agentx.definitions.register(Definition(name="poet"))
        with pytest.raises(ToolNotFound):
            await agentx.definitions.register(Definition(name="burglar", tools=("crowbar",)))


async def test_python_shows_what_a_build_does_not_act_upon(opened: Open) -> None:
    async with opened(Play()) as agentx:
        with pytest.warns(UserWarning, match="variables have no effect"):
            image = await agentx.images.create(ImageConfig(variables={"a": 1}), container_id="c1")
        assert image.warnings is not None
        tool: dict[str, object] = {
            "description": "d",
            "inputSchema": {"type": "object"},
            "runtime": "agent",
            "entry": "resource://agents/assistant",
        }
        made = await agentx.resources.register("tools", "weather", tool)
        assert made.warnings == ()


async def test_images_are_built_listed_renamed_and_deleted(opened: Open) -> None:
    async with opened(Play()) as agentx:
        built = await agentx.images.build("poet", ImageConfig(name="Ode"), container_id="c1")
        assert (built.name, built.definition_name, built.system_prompt) == ("Ode", "poet", "Answer in verse.")
        assert (built.container_id, built.online, built.agent_id) == ("c1", False, None)
        inline = await agentx.images.build(Definition(name="mine", system_prompt="Be mine."), container_id="c1")
        assert inline.name == "mine"
        assert await agentx.images.get(built.image_id) == built
        assert {image.image_id for image in await agentx.images.list("c1")} == {built.image_id, inline.image_id}
        renamed = await agentx.images.update(built.image_id, name="Elegy", description="sad")
        assert (renamed.name, renamed.description, renamed.digest) == ("Elegy", "sad", built.digest)
        await agentx.images.delete(built.image_id)
        await agentx.images.delete(built.image_id)
        assert await agentx.images.get(built.image_id) is None
        assert [image.image_id for image in await agentx.images.list()] == [inline.image_id]


async def test_containers_are_created_once_and_keep_their_own(opened: Open) -> None:
    async with opened(Play()) as agentx:
        assert await agentx.containers.exists("alice") is False
        for _ in range(2):
            assert await agentx.containers.create("alice") == "alice"
        await agentx.containers.create("bob")
        assert sorted(await agentx.containers.list()) == ["alice", "bob"]
        await agentx.images.create(container_id="alice")
        assert len(await agentx.images.list("alice")) == 1
        assert await agentx.images.list("bob") == ()


async def test_sessions_of_one_image_have_their_own_histories_and_titles(opened: Open) -> None:
    async with opened(Play()) as agentx:
        image = await agentx.images.build("poet", container_id="c1")
        first, second = await agentx.sessions.create(image.image_id, "First"), await agentx.sessions.create(image.image_id)
        for session, content in ((first, "hello one"), (second, "hello two")):
            agent = await session.resume()
            assert agent.image_id == image.image_id
            assert await text_of(agent, content) == content
        assert [type(message) for message in await first.messages()] == [UserMessage, AssistantMessage]
        said = (await second.messages())[1]
        assert isinstance(said, AssistantMessage)
        assert said.text == "hello two"
        await second.set_title("Second")
        titles = [session.record.title for session in await agentx.sessions.list(image.image_id)]
        assert set(titles) == {None, "First", "Second"}
        found = await agentx.sessions.get(second.session_id)
        assert found is not None
        assert found.record.title == "Second"
        assert await agentx.sessions.get("sess_nope") is None


async def test_agents_run_are_listed_and_destroyed(opened: Open) -> None:
    async with opened(Play()) as agentx:
        agent = await run(agentx)
        again = await agentx.images.run(agent.image_id)
        assert again.agent_id == agent.agent_id
        assert await agentx.agents.exists(agent.agent_id)
        assert [one.agent_id for one in await agentx.agents.list("c1")] == [agent.agent_id]
        assert await agentx.agents.destroy(agent.agent_id) is True
        assert await agentx.agents.destroy(agent.agent_id) is False
        other = await agentx.images.run(agent.image_id)
        assert other.agent_id != agent.agent_id
        await agentx.agents.destroy_all("c1")
        assert await agentx.agents.list("c1") == ()


async def test_request_speaks_the_names_of_the_wire(opened: Open) -> None:
    async with opened(Play()) as agentx:
        await agentx.request("container_create_request", {"containerId": "user-alice"})
        config = {"name": "My Assistant", "systemPrompt": "You are helpful"}
        created = await agentx.request("image_create_request", {"containerId": "user-alice", "config": config})
        assert (created.type, created.category, created.source) == ("image_create_response", "response", "command")
        record = created.data["record"]
        assert isinstance(record, dict)
        heard: list[str] = []
        ended = anyio.Event()
        agentx.runtime.on("text_delta", lambda event: heard.append(str(event.data["text"])))
        agentx.runtime.on("turn_response", lambda event: ended.set())
        sent = await agentx.request("message_send_request", {"imageId": record["imageId"], "content": "Hello there"})
        assert sent.data["imageId"] == record["imageId"]
        with anyio.fail_after(60):
            await ended.wait()
        assert heard == ["Hello", " there"]


async def test_on_hears_one_kind_or_all_until_it_is_told_to_stop(opened: Open) -> None:
    async with opened(Play()) as agentx:
        one: list[WireEvent] = []
        everything: list[WireEvent] = []
        stop = agentx.runtime.on("text_delta", one.append)
        agentx.runtime.on("*", everything.append)
        agent = await run(agentx)
        await text_of(agent, "hello there")
        assert [event.type for event in one] == ["text_delta"] * 2
        assert one[0] in everything
        assert {"container_created", "image_created", "agent_registered", "message_persisted", "turn_response"} <= {
            event.type for event in everything
        }
        stop()
        stop()
        await text_of(agent, "hello again")
        assert len(one) == 2


async def test_a_stream_is_one_turn_from_its_first_event_to_its_last(opened: Open) -> None:
    async with opened(Play()) as agentx:
        agent = await run(agentx)
        with anyio.fail_after(60):
            events = [event async for event in agent.stream("tool please")]
        kinds = [event.type for event in events]
        assert kinds[0] == "message_persisted"
        assert kinds[-1] == "turn_response"
        assert {event.context["turnId"] for event in events} == {str(events[-1].data["turnId"])}
        assert kinds.count("tool_result_message") == 1
        session = await agentx.sessions.get(agent.session_id)
        assert session is not None
        assert [type(message) for message in await session.messages()] == [
            *(UserMessage, ToolCallMessage, AssistantMessage, ToolResultMessage, AssistantMessage),
        ]


async def test_an_interrupt_ends_the_turn_and_keeps_what_was_said(opened: Open) -> None:
    async with opened(Play()) as agentx:
        agent = await run(agentx)
        kinds: list[str] = []
        with anyio.fail_after(60):
            async for event in agent.stream("slow"):
                kinds.append(event.type)
                if event.data.get("text") == "w1 ":
                    await agent.interrupt()
        assert event.data["outcome"] == "interrupted"
        assert kinds.count("assistant_message") == 1
        assert await text_of(agent, "and on") == "and on"


async def test_stopping_an_agent_ends_its_turn_and_it_can_be_resumed(opened: Open) -> None:
    async with opened(Play()) as agentx:
        agent = await run(agentx)
        with anyio.fail_after(60):
            async for event in agent.stream("slow"):
                if event.data.get("text") == "w1 ":
                    await agent.stop()
        assert event.data["outcome"] == "interrupted"
        assert await agentx.agents.exists(agent.agent_id) is False
        session = await agentx.sessions.get(agent.session_id)
        assert session is not None
        resumed = await session.resume()
        assert resumed.agent_id != agent.agent_id
        assert await text_of(resumed, "and on") == "and on"


async def test_a_failing_model_is_an_event_and_a_message(opened: Open) -> None:
    async with opened(Play()) as agentx:
        agent = await run(agentx)
        with anyio.fail_after(60):
            events = [event async for event in agent.stream("fail")]
        occurred = next(event for event in events if event.type == "error_occurred")
        assert occurred.data == {"code": "provider_overloaded", "message": "the model is overloaded", "recoverable": True}
        session = await agentx.sessions.get(agent.session_id)
        assert session is not None
        assert isinstance((await session.messages())[-1], ErrorMessage)


async def refusal(agentx: AgentX, what: str) -> None:
    """One call that is refused."""
    match what:
        case "image":
            await agentx.images.run("img_nope")
        case "rename":
            await agentx.images.update("img_nope", name="x")
        case "session":
            await agentx.sessions.set_title("sess_nope", "x")
        case "agent":
            await agentx.request("message_send_request", {"agentId": "agent_nope", "content": "hi"})
        case "definition":
            await agentx.images.build("nobody")
        case "model":
            await agentx.images.create(ImageConfig(model="nobody/nothing"))
        case "container":
            await agentx.containers.create("../up")
        case "content":
            await (await run(agentx)).receive("")
        case "type":
            await agentx.request("image_get_request", {"imageId": 5})
        case "value":
            await agentx.request("image_get_request", {"imageId": object()})
        case "surrogate":
            await agentx.containers.create("half \ud83d")
        case "half":
            await (await run(agentx)).receive("half \ud83d")
        case "command":
            await agentx.request("bogus_request")
        case "inbox":
            agent = await run(agentx)
            for _ in range(40):
                await agent.receive("slow")
        case _:
            raise AssertionError(what)


REFUSALS: dict[str, type[AgentVMError]] = {
    "image": ImageNotFound,
    "rename": ImageNotFound,
    "session": SessionNotFound,
    "agent": AgentNotFound,
    "definition": DefinitionNotFound,
    "model": DriverNotFound,
    "container": InvalidInput,
    "content": InvalidInput,
    "type": InvalidInput,
    "value": InvalidInput,
    "surrogate": InvalidInput,
    "half": InvalidInput,
    "command": UnknownCommand,
    "inbox": InboxFull,
}


@pytest.mark.parametrize("what", REFUSALS)
async def test_a_refusal_is_the_same_error_here_and_there(opened: Open, what: str) -> None:
    async with opened(Play()) as agentx:
        with pytest.raises(AgentVMError) as refused:
            await refusal(agentx, what)
        assert type(refused.value) is REFUSALS[what]
        assert refused.value.code == REFUSALS[what].code
        assert str(refused.value)
        assert await text_of(await run(agentx, "other"), "hello") == "hello"
