from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import anyio
import msgspec
import pytest

from agentvm import ScriptedDriver, ServerConfig, create_agentx, local_runtime
from agentvm.client.file_verbs import AttachmentVerbs
from agentvm.client.handles import AgentHandle, SessionHandle
from agentvm.client.verbs import AgentX, RuntimeView
from agentvm.config import MEMORY, SystemSettings
from agentvm.errors import ChannelClosed
from agentvm.model.definition import Definition
from agentvm.model.ids import AgentId, ContainerId, ImageId, MessageId, SessionId, SummaryId
from agentvm.model.image import ImageConfig
from agentvm.model.session import Session, Summary
from agentvm.model.turn import OutputFormat
from agentvm.operations.agent import (
    AgentDestroy,
    AgentDestroyReply,
    AgentGetReply,
    AgentInterrupt,
    AgentInterruptReply,
    AgentListReply,
)
from agentvm.operations.attachment import AttachmentGet, AttachmentGetReply, AttachmentList, AttachmentListReply
from agentvm.operations.compaction import SessionCompactReply, SessionSummariesReply
from agentvm.operations.container import ContainerGetReply, ContainerIdReply, ContainerListReply
from agentvm.operations.definition import (
    DefinitionGet,
    DefinitionGetReply,
    DefinitionList,
    DefinitionListReply,
    DefinitionRegister,
    DefinitionRegisterReply,
)
from agentvm.operations.image import (
    ImageDelete,
    ImageGet,
    ImageGetReply,
    ImageIdReply,
    ImageList,
    ImageListReply,
    ImageRun,
    ImageRunReply,
    ImageStop,
)
from agentvm.operations.image_build import (
    ImageBuild,
    ImageCreate,
    ImageReply,
    ImageUpdate,
    ImageUpdates,
    ImageUpgrade,
    ImageUpgradeReply,
)
from agentvm.operations.message import MessageSend, MessageSendReply
from agentvm.operations.resource import ResourcePublish
from agentvm.operations.resource_views import ResourceRegisterReply
from agentvm.operations.session import SessionReply
from agentvm.operations.session_lists import SessionListReply, SessionMessagesReply
from agentvm.operations.table import command_name
from agentvm.protocol.link import ChannelState, EventHandler, Unsubscribe, WireEvent
from agentvm.protocol.records import AgentRecord, AttachmentRecord, DefinitionRecord, ImageRecord, ResourceRecord
from agentvm.protocol.requests import Reply, Request
from agentvm.runtime.observer import Observer

R = TypeVar("R", bound=Reply)

IMAGE = ImageRecord(
    image_id=ImageId("img_1"),
    container_id=ContainerId("c1"),
    session_id=SessionId("sess_1"),
    name="Chat",
    created_at=1,
    updated_at=1,
    online=False,
    definition_name="default",
    digest="sha256:0",
)
SESSION = Session(
    session_id=SessionId("sess_1"),
    image_id=ImageId("img_1"),
    container_id=ContainerId("c1"),
    title=None,
    created_at=1,
    updated_at=1,
)
RUN = ImageRunReply(image_id=IMAGE.image_id, agent_id="agent_1", reused=False, session_id=SESSION.session_id)


class FakeLink:
    """Gives the prepared replies, and remembers what was asked."""

    def __init__(self, *replies: Reply, events: Sequence[WireEvent] = ()) -> None:
        self.replies = list(replies)
        self.asked: list[Request[Any]] = []
        self.observer = Observer()
        self._events = events

    @property
    def state(self) -> ChannelState:
        return "open"

    async def connect(self) -> None: ...

    async def disconnect(self) -> None: ...

    async def ask(self, request: Request[R]) -> R:
        self.asked.append(request)
        return self.replies.pop(0)  # type: ignore[return-value]  # the test prepared the right one

    async def request(self, kind: str, data: dict[str, object]) -> WireEvent:
        return WireEvent(type=kind, data=data)

    async def send(self, frame: Mapping[str, object]) -> None: ...

    def on(self, kind: str | EventHandler, handler: EventHandler | None = None) -> Unsubscribe:
        return self.observer.on(kind, handler)

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[WireEvent]]:
        return self._open_events()

    @asynccontextmanager
    async def _open_events(self) -> AsyncIterator[AsyncIterator[WireEvent]]:
        async def iterate() -> AsyncIterator[WireEvent]:
            for event in self._events:
                yield event

        yield iterate()


async def test_images_and_definitions_are_asked_for_in_the_words_of_the_table() -> None:
    changed, gone = ImageReply(record=IMAGE), ImageGetReply(record=None)
    deleted = ImageIdReply(image_id=IMAGE.image_id)
    definition, agent = Definition(name="poet"), DefinitionRecord(name="seller", uri="resource://agents/seller")
    link = FakeLink(
        changed, changed, gone, ImageListReply(records=(IMAGE,)), changed, deleted, RUN, deleted,
        DefinitionRegisterReply(definition=definition),
        DefinitionListReply(definitions=(DefinitionRecord(name="poet"), agent)),
        DefinitionGetReply(definition=None),
    )  # fmt: skip
    view = RuntimeView(link)
    assert await view.images.build("poet", ImageConfig(name="x"), container_id="c1") == IMAGE
    assert await view.images.create() == IMAGE
    assert await view.images.get("img_1") is None
    assert await view.images.list("c1") == (IMAGE,)
    assert await view.images.update("img_1", name="new") == IMAGE
    await view.images.delete("img_1")
    running = await view.images.run("img_1")
    await view.images.stop("img_1")
    assert (running.agent_id, running.image_id, running.session_id) == ("agent_1", "img_1", "sess_1")
    assert await view.definitions.register(definition) == definition
    assert await view.definitions.list() == (definition, agent)
    assert await view.definitions.get("nobody") is None
    assert link.asked == [
        ImageBuild(container_id="c1", definition="poet", config=ImageConfig(name="x")),
        ImageCreate(container_id="default"),
        ImageGet(image_id=ImageId("img_1")),
        ImageList(container_id="c1"),
        ImageUpdate(image_id=ImageId("img_1"), updates=ImageUpdates(name="new")),
        ImageDelete(image_id=ImageId("img_1")),
        ImageRun(image_id=ImageId("img_1")),
        ImageStop(image_id=ImageId("img_1")),
        DefinitionRegister(definition=definition),
        DefinitionList(),
        DefinitionGet(definition_name="nobody"),
    ]


async def test_every_change_of_an_image_is_asked_for_by_its_name() -> None:
    upgraded = ImageUpgradeReply(record=IMAGE, changes=(), diff={}, applied=False)
    link = FakeLink(ImageReply(record=IMAGE), upgraded)
    images = RuntimeView(link).images
    given: dict[str, Any] = {
        "name": "n", "description": "d", "system_prompt": "s", "model": "m", "tools": ("t",), "sandbox": "b",
        "knowledge": ("k",), "skills": ("q",), "variables": {"v": 1}, "temperature": 0.5, "max_tokens": 7, "thinking": 9,
        "output": OutputFormat(name="n", schema={}), "api_key": "sk-1",
        "mcp_servers": {"s": {"url": "http://localhost:1"}}, "client_data": {"colour": "red"}, "clear": ("thinking",),
    }  # fmt: skip
    assert set(given) == set(ImageUpdates.__struct_fields__)
    assert await images.update("img_1", **given) == IMAGE
    assert await images.upgrade("img_1", dry_run=True) == upgraded
    assert link.asked == [
        ImageUpdate(image_id=ImageId("img_1"), updates=ImageUpdates(**given)),
        ImageUpgrade(image_id=ImageId("img_1"), dry_run=True),
    ]


async def test_containers_sessions_and_agents_are_asked_for_in_the_words_of_the_table() -> None:
    titled = msgspec.structs.replace(SESSION, title="t")
    record = AgentRecord(
        agent_id=AgentId("agent_1"), container_id=ContainerId("c1"), image_id=IMAGE.image_id, session_id=SESSION.session_id
    )
    link = FakeLink(
        ContainerIdReply(), ContainerGetReply(exists=True),
        ContainerListReply(container_ids=(ContainerId("c1"),)),
        SessionReply(session=SESSION), SessionReply(session=None), SessionReply(session=SESSION),
        SessionListReply(sessions=(SESSION,)), SessionReply(session=titled),
        AgentGetReply(exists=False), AgentListReply(agents=(record,)),
        AgentDestroyReply(agent_id=AgentId("agent_1"), success=True), ContainerIdReply(),
    )  # fmt: skip
    view = AgentX(link, None).runtime
    assert await view.containers.create("c1") == "c1"
    assert await view.containers.exists("c1")
    assert await view.containers.list() == ("c1",)
    assert (await view.sessions.create("img_1", "t")).record == SESSION
    assert await view.sessions.get("sess_0") is None
    found = await view.sessions.get("sess_1")
    assert found is not None
    assert found.session_id == "sess_1"
    assert [session.record for session in await view.sessions.list("img_1")] == [SESSION]
    assert (await view.sessions.set_title("sess_1", "t")).record.title == "t"
    assert not await view.agents.exists("agent_1")
    assert await view.agents.list("c1") == (record,)
    assert await view.agents.destroy("agent_1")
    await view.agents.destroy_all("c1")
    names = [command_name(request) for request in link.asked]
    assert names == [
        "container_create", "container_get", "container_list", "session_create", "session_get", "session_get",
        "session_list", "session_set_title", "agent_get", "agent_list", "agent_destroy", "agent_destroy_all",
    ]  # fmt: skip


async def test_a_session_handle_resumes_reads_and_renames_its_session() -> None:
    titled = SessionReply(session=msgspec.structs.replace(SESSION, title="t"))
    link = FakeLink(RUN, SessionMessagesReply(session_id=SESSION.session_id, messages=()), titled)
    session = SessionHandle(link, SESSION)
    assert (await session.resume()).agent_id == "agent_1"
    assert await session.messages() == ()
    await session.set_title("t")
    assert session.record.title == "t"


async def test_a_session_handle_has_its_session_summed_up() -> None:
    made = Summary(
        summary_id=SummaryId("sum_1"), message_id=MessageId("msg_1"), text="They met.", tokens=3, model="a/b", made_at=1
    )
    done = SessionCompactReply(session_id=SESSION.session_id, summary=made)
    link = FakeLink(done, SessionSummariesReply(session_id=SESSION.session_id, summaries=(made,)))
    session = SessionHandle(link, SESSION)
    assert await session.compact() == made
    assert await session.summaries() == (made,)
    assert [command_name(request) for request in link.asked] == ["session_compact", "session_summaries"]


def agent_over(link: FakeLink) -> AgentHandle:
    return AgentHandle(link, AgentId("agent_1"), ImageId("img_1"), SessionId("sess_1"))


async def test_an_agent_handle_sends_interrupts_and_stops() -> None:
    sent = MessageSendReply(agent_id="agent_1", turn_id="turn_1")
    link = FakeLink(sent, AgentInterruptReply(), AgentDestroyReply(agent_id=AgentId("agent_1"), success=True))
    agent = agent_over(link)
    assert await agent.receive("hi") == sent
    await agent.interrupt()
    await agent.stop()
    assert link.asked == [
        MessageSend(image_id=ImageId("img_1"), session_id=SessionId("sess_1"), content="hi"),
        AgentInterrupt(agent_id=AgentId("agent_1")),
        AgentDestroy(agent_id=AgentId("agent_1")),
    ]


def of_turn(kind: str, turn_id: str) -> WireEvent:
    return WireEvent(type=kind, context={"turnId": turn_id})


async def test_a_stream_is_one_turns_events_up_to_its_end() -> None:
    events = [
        of_turn("text_delta", "turn_0"),
        of_turn("turn_response", "turn_0"),
        WireEvent(type="container_created"),
        of_turn("text_delta", "turn_1"),
        of_turn("turn_response", "turn_1"),
        of_turn("text_delta", "turn_2"),
    ]
    link = FakeLink(MessageSendReply(agent_id="agent_1", turn_id="turn_1"), events=events)
    with anyio.fail_after(60):
        assert [event async for event in agent_over(link).stream("hi")] == events[3:5]


async def test_a_stream_whose_link_ends_before_its_turn_says_so() -> None:
    reply = MessageSendReply(agent_id="agent_1", turn_id="turn_1")
    link = FakeLink(reply, events=[of_turn("text_delta", "turn_1")])
    with anyio.fail_after(60):
        stream = agent_over(link).stream("hi")
        assert (await anext(stream)).type == "text_delta"
        with pytest.raises(ChannelClosed):
            await anext(stream)


async def test_the_wires_own_words_work_too() -> None:
    view = RuntimeView(link := FakeLink())
    response = await view.request("container_list_request")
    assert (response.type, response.data) == ("container_list_request", {})
    heard: list[str] = []
    for way in (view, view.channel):
        stops = [way.on("text_delta", lambda event: heard.append("one")), way.on(lambda event: heard.append(event.type))]
        for kind in ("text_delta", "turn_response"):
            link.observer.react(WireEvent(type=kind))
        for stop in stops:
            stop()
    link.observer.react(WireEvent(type="text_delta"))
    assert heard == ["one", "text_delta", "turn_response"] * 2
    with pytest.raises(TypeError, match="handler"):
        view.on("text_delta")  # type: ignore[call-overload]


async def test_an_application_hears_through_its_runtime_and_its_channel() -> None:
    agentx = AgentX(link := FakeLink(), None)
    assert agentx.runtime.channel is link
    assert agentx.runtime.channel.state == "open"
    assert not isinstance(agentx, RuntimeView)
    assert not hasattr(agentx, "on")
    assert agentx.server is None


async def test_a_reply_without_its_record_is_a_bug_not_a_none() -> None:
    view: Any = RuntimeView(FakeLink(SessionReply(session=None)))
    with pytest.raises(ValueError, match="record"):
        await view.sessions.create("img_1")


async def test_a_version_is_published_by_its_number_or_as_the_next() -> None:
    record = ResourceRecord(
        id="res_1", uri="u", type="prompts", owner="default", name="x", visibility="private", created_at=1, updated_at=1
    )
    done = ResourceRegisterReply(id="res_1", record=record, uri="u@1.0.1", version="1.0.1", digest="sha256:0")
    link = FakeLink(done, done)
    resources = RuntimeView(link).resources
    assert await resources.publish("u", {"text": "a"}) == done
    await resources.publish("u", {"text": "a"}, version="3.0.0", tag="stable")
    assert link.asked == [
        ResourcePublish(uri="u", content={"text": "a"}, bump="patch"),
        ResourcePublish(uri="u", content={"text": "a"}, version="3.0.0", tag="stable"),
    ]


ATTACHMENT = AttachmentRecord(
    attachment="attachment:sha256:0", digest="sha256:0", container_id=ContainerId("c"), size=1, media_type="a/b", created_at=1
)


async def test_files_are_listed_page_by_page_and_told_of() -> None:
    link = FakeLink(
        AttachmentListReply(records=(ATTACHMENT,), next_cursor="7"), AttachmentListReply(records=()),
        AttachmentGetReply(record=ATTACHMENT),
    )  # fmt: skip
    library = AttachmentVerbs(link)
    assert await library.list("c", limit=1) == ((ATTACHMENT,), "7")
    assert await library.list("c", cursor="7") == ((), None)
    assert await library.get("c", "attachment:sha256:0") == ATTACHMENT
    assert link.asked[1] == AttachmentList(container_id="c", cursor="7")


async def test_drafts_are_kept_through_any_link() -> None:
    source = local_runtime(ServerConfig(system=SystemSettings(data_dir=MEMORY)), drivers={"scripted": ScriptedDriver()})
    async with create_agentx(source) as agentx:
        image = await agentx.images.create(container_id="c1")
        kept = await agentx.drafts.save(image.session_id, "not yet", device="phone")
        assert kept.saved
        assert [one.text for one in await agentx.drafts.of(image.session_id)] == ["not yet"]
        assert [one.preview for one in await agentx.drafts.list("c1")] == ["not yet"]
        late = await agentx.drafts.save(image.session_id, "x", device="phone", if_updated_at=1)
        assert not late.saved


async def test_any_command_is_asked_as_its_type() -> None:
    link = FakeLink(AttachmentGetReply(record=ATTACHMENT))
    request = AttachmentGet(container_id="c", attachment="attachment:sha256:0")
    assert (await RuntimeView(link).ask(request)).record == ATTACHMENT
    assert link.asked == [request]


async def test_a_session_without_an_image_is_one_of_a_new_image_of_the_default_definition() -> None:
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY))
    async with create_agentx(local_runtime(config, drivers={"scripted": ScriptedDriver()})) as agentx:
        session = await agentx.runtime.sessions.create(title="Trip")
        image = await agentx.images.get(session.record.image_id)
        assert image is not None
        assert (session.record.title, image.container_id, image.definition_name) == ("Trip", "default", "default")
        agent = await session.resume()
        assert [event async for event in agent.stream("hi")][-1].type == "turn_response"
