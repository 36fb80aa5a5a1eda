import dataclasses
from typing import Any

import anyio
import pytest
from tests.operations.fixtures import ask_at_once, open_desk

from agentvm.drivers.base import UserEntry
from agentvm.drivers.scripted import Pause, ScriptedDriver, echo, last_user_text, reply
from agentvm.model.ids import ContainerId, ImageId
from agentvm.model.limits import Limits
from agentvm.storage.sql.store import TenantStore


async def test_a_message_to_a_cold_image_is_answered_before_its_turn_begins() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        desk.forget()
        sent = await desk.ask("message_send", imageId=image_id, content="Hello")
        assert set(sent) == {"imageId", "agentId", "messageId", "turnId", "sessionId", "cursor"}
        assert sent["imageId"] == image_id
        await desk.hear("turn_response")
        assert desk.types() == [
            "agent_registered", "message_persisted", "user_message", "turn_request", "message_send_response",
            "message_start", "conversation_start", "text_content_block_start", "text_delta", "conversation_responding",
            "text_content_block_stop", "message_delta",
            "message_stop", "assistant_message", "conversation_end", "turn_response",
        ]  # fmt: skip
        of_turn = [
            event["context"] for event in desk.heard if event["type"] not in ("agent_registered", "message_send_response")
        ]
        assert {(one["imageId"], one["agentId"], one["turnId"]) for one in of_turn} == {
            (image_id, sent["agentId"], sent["turnId"])
        }


async def test_a_message_may_go_to_a_running_agent() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        agent_id = (await desk.ask("image_run", imageId=image_id))["agentId"]
        sent = await desk.ask("message_send", agentId=agent_id, content="Hello")
        assert (sent["agentId"], sent["imageId"]) == (agent_id, image_id)
        await desk.hear("turn_response")


async def test_the_first_message_of_another_peer_to_an_agent_in_memory_is_answered_to_that_peer_too() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        await desk.ask("image_run", imageId=image_id)
        phone = desk.another()
        await phone.ask("message_send", imageId=image_id, content="Hello")
        await phone.hear("turn_response")
        await desk.hear("turn_response")


async def test_a_message_to_an_agent_in_memory_does_not_look_for_its_image(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[ImageId] = []
    find_image = TenantStore.find_image

    async def counted(store: TenantStore, image_id: ImageId) -> ContainerId | None:
        lookups.append(image_id)
        return await find_image(store, image_id)

    monkeypatch.setattr(TenantStore, "find_image", counted)
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        for times in range(1, 5):
            await desk.ask("message_send", imageId=image_id, content="Hello")
            await desk.hear("turn_response", times=times)
    # Once for the agent, and once more beside it: the image may have been rebuilt in between.
    assert lookups == [image_id] * 2


async def test_a_message_may_go_to_another_session_of_the_image_but_not_of_another_image() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        image, other = await desk.create_image(), await desk.create_image()
        second = (await desk.ask("session_create", imageId=image["imageId"]))["session"]["sessionId"]
        await desk.ask("message_send", imageId=image["imageId"], content="to the first")
        await desk.ask("message_send", imageId=image["imageId"], sessionId=second, content="to the second")
        await desk.hear("turn_response", times=2)
        asked = [[said.content for said in prompt.conversation if isinstance(said, UserEntry)] for prompt in driver.prompts]
        assert sorted(asked) == [["to the first"], ["to the second"]]
        for session_id in (other["sessionId"], "nope"):
            refused = await desk.ask("message_send", imageId=image["imageId"], sessionId=session_id, content="hi")
            assert refused["errorCode"] == "session_not_found"


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (
            {"imageId": "nope"},
            {"imageId": "nope", "agentId": "", "error": "Image not found: nope", "errorCode": "image_not_found"},
        ),
        ({"agentId": "nope"}, {"agentId": "nope", "error": "Agent not found: nope", "errorCode": "agent_not_found"}),
        ({}, {"agentId": "", "error": "Either imageId or agentId must be provided", "errorCode": "invalid_input"}),
        (
            {"imageId": "", "agentId": ""},
            {"imageId": "", "agentId": "", "error": "Either imageId or agentId must be provided", "errorCode": "invalid_input"},
        ),
    ],
)
async def test_a_message_to_nobody_is_refused_in_the_words_of_1x(data: dict[str, object], reply: dict[str, object]) -> None:
    async with open_desk() as desk:
        assert await desk.ask("message_send", content="hi", **data) == reply
        assert desk.types() == ["system_error", "message_send_response"]


@pytest.mark.parametrize("content", ["", []])
async def test_an_empty_message_is_refused(content: object) -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        reply = await desk.ask("message_send", imageId=image_id, content=content)
        assert reply["errorCode"] == "invalid_input"
        assert (await desk.ask("image_messages", imageId=image_id))["messages"] == []


async def test_two_messages_at_once_to_a_cold_image_find_one_agent() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        agents: list[str] = []

        async def send() -> None:
            peer = desk.another()
            agents.append((await peer.ask("message_send", imageId=image_id, content="hi"))["agentId"])

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(send)
        assert len(set(agents)) == 1
        await desk.hear("turn_response", times=5)


async def test_a_message_to_a_full_inbox_is_refused() -> None:
    driver = ScriptedDriver(lambda prompt: [Pause(anyio.Event())])
    async with open_desk(driver, limits=Limits(inbox=1)) as desk:
        image_id = (await desk.create_image())["imageId"]
        await desk.ask("message_send", imageId=image_id, content="runs")
        await anyio.wait_all_tasks_blocked()
        await desk.ask("message_send", imageId=image_id, content="waits")
        assert (await desk.ask("message_send", imageId=image_id, content="too many"))["errorCode"] == "inbox_full"


async def test_a_server_that_shuts_down_takes_no_message() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        agent_id = (await desk.ask("image_run", imageId=image_id))["agentId"]
        late = desk.another()
        desk.vm.runtime.broadcaster.detach(late.peer.channel)
        await desk.vm.runtime.drain(0)
        for named in ({"imageId": image_id}, {"agentId": agent_id}):
            assert (await late.ask("message_send", content="hi", **named))["errorCode"] == "shutting_down"
        assert (await late.ask("image_run", imageId=image_id))["errorCode"] == "shutting_down"


class SlowStore:
    """A tenant's store that holds an image back once it was read, as a busy reader thread does."""

    def __init__(self, inner: Any, read: anyio.Event, go_on: anyio.Event) -> None:
        self._inner, self._read, self._go_on = inner, read, go_on

    def container(self, container_id: str) -> Any:
        return SlowStore(self._inner.container(container_id), self._read, self._go_on)

    async def get_image(self, image_id: str) -> Any:
        image = await self._inner.get_image(image_id)
        self._read.set()
        await self._go_on.wait()
        return image

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_a_message_to_an_image_that_is_deleted_meanwhile_leaves_no_agent_behind() -> None:
    async with open_desk(ScriptedDriver(echo)) as desk:
        image_id = (await desk.create_image())["imageId"]
        sender, read, go_on = desk.another(), anyio.Event(), anyio.Event()
        sender.peer = dataclasses.replace(sender.peer, store=SlowStore(sender.peer.store, read, go_on))  # type: ignore[arg-type]  # a double
        replies: list[Any] = []

        async def send() -> None:
            replies.append(await sender.ask("message_send", imageId=image_id, content="hi"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send)
                await read.wait()
                await desk.ask("image_delete", imageId=image_id)
                go_on.set()
        assert replies[0]["errorCode"] == "session_not_found"
        assert await desk.ask("agent_list", containerId="c1") == {"agents": []}


async def test_a_message_sent_again_under_its_key_begins_no_second_turn() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        image_id = (await desk.create_image())["imageId"]
        replies: list[dict[str, Any]] = []

        async def send(key: str) -> None:
            sent = await desk.another().ask("message_send", imageId=image_id, content=key, clientMessageId=key)
            replies.append(sent)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(send, "one")
            await desk.hear("turn_response")
            await send("one")
            await send("two")
        await desk.hear("turn_response", times=2)
        assert len({reply["turnId"] for reply in replies}) == 2
        assert len({reply["messageId"] for reply in replies}) == 2
        said = [
            one["content"] for one in (await desk.ask("image_messages", imageId=image_id))["messages"] if one["role"] == "user"
        ]
        assert said == ["one", "two"]
        assert len(driver.prompts) == 2


@pytest.mark.parametrize("key", ["", "x" * 201])
async def test_a_key_has_a_length(key: str) -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        refused = await desk.ask("message_send", imageId=image_id, content="hi", clientMessageId=key)
        assert refused["errorCode"] == "invalid_input"


async def test_a_message_may_refuse_to_wait_for_a_running_turn() -> None:
    async with open_desk(ScriptedDriver(lambda prompt: [Pause(anyio.Event())])) as desk:
        image_id = (await desk.create_image())["imageId"]
        await desk.ask("message_send", imageId=image_id, content="runs", onBusy="reject")
        await anyio.wait_all_tasks_blocked()
        refused = await desk.ask("message_send", imageId=image_id, content="not now", onBusy="reject")
        assert refused["errorCode"] == "agent_busy"
        assert len((await desk.ask("image_messages", imageId=image_id))["messages"]) == 1


async def test_a_message_may_stop_the_running_turn_and_take_its_place() -> None:
    driver = ScriptedDriver(lambda prompt: [Pause(anyio.Event())] if last_user_text(prompt) == "runs" else echo(prompt))
    async with open_desk(driver) as desk:
        image_id = (await desk.create_image())["imageId"]
        await desk.ask("message_send", imageId=image_id, content="runs")
        await anyio.wait_all_tasks_blocked()
        await desk.ask("message_send", imageId=image_id, content="instead", onBusy="interrupt")
        await desk.hear("turn_response", times=2)
        ends = [event["data"]["outcome"] for event in desk.heard if event["type"] == "turn_response"]
        assert ends == ["interrupted", "completed"]


async def test_those_who_send_at_once_start_no_more_agents_than_the_limit() -> None:
    gate = anyio.Event()
    async with open_desk(ScriptedDriver(lambda prompt: [Pause(gate), *echo(prompt)])) as desk:
        images = [(await desk.create_image())["imageId"] for _ in range(10)]
        await desk.limit("running_agents", 2)
        sent: list[dict[str, object]] = [{"imageId": image_id, "content": "go"} for image_id in images]
        assert await ask_at_once([(desk.another(), "message_send", each) for each in sent]) == ["quota_exceeded"] * 8
        assert desk.vm.runtime.roster.count_running(desk.peer.tenant_id) == 2
        gate.set()


async def test_those_who_send_at_once_queue_no_more_messages_than_the_limit() -> None:
    gate = anyio.Event()
    async with open_desk(ScriptedDriver(lambda prompt: [Pause(gate), *echo(prompt)])) as desk:
        image_id = (await desk.create_image())["imageId"]
        await desk.ask("message_send", imageId=image_id, content="first")
        await anyio.wait_all_tasks_blocked()
        await desk.limit("queued_messages", 3)
        sent: dict[str, object] = {"imageId": image_id, "content": "go"}
        refused = await ask_at_once([(desk.another(), "message_send", sent) for _ in range(10)])
        assert refused == ["quota_exceeded"] * 7
        assert desk.vm.runtime.roster.count_waiting(desk.peer.tenant_id) == 3
        gate.set()


@pytest.mark.parametrize("content", ["ж" * 60_000, [{"type": "text", "text": "x" * 120_000}]])
async def test_a_message_takes_as_much_storage_as_it_has_bytes(content: object) -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        await desk.limit("storage_bytes", 100_000)
        refused = await desk.ask("message_send", imageId=image_id, content=content)
        assert refused["errorCode"] == "quota_exceeded"
        assert "errorCode" not in await desk.ask("message_send", imageId=image_id, content="ж" * 30_000)


async def test_a_session_alone_says_whom_a_message_or_a_stop_is_for() -> None:
    gate = anyio.Event()
    async with open_desk(ScriptedDriver(lambda prompt: [*reply("Hello")[:2], Pause(gate)])) as desk:
        image = await desk.create_image()
        other = (await desk.ask("session_create", imageId=image["imageId"]))["session"]["sessionId"]
        sent = await desk.ask("message_send", sessionId=other, content="Hello")
        assert (sent["imageId"], sent["sessionId"]) == (image["imageId"], other)
        await desk.hear("message_start")
        stopped = await desk.ask("agent_interrupt", sessionId=other)
        assert stopped["agentId"] == sent["agentId"]
        assert (await desk.hear("turn_response"))[-1]["data"]["outcome"] == "interrupted"
        assert (await desk.ask("message_send", sessionId="sess_none", content="Hello"))["errorCode"] == "session_not_found"


async def test_a_client_that_reads_a_session_in_the_middle_of_an_answer_subscribes_to_all_of_it() -> None:
    gate = anyio.Event()
    async with open_desk(ScriptedDriver(lambda prompt: [*reply("Hello")[:3], Pause(gate), *reply("Hello")[3:]])) as desk:
        image = await desk.create_image()
        sent = await desk.ask("message_send", imageId=image["imageId"], content="Hello")
        await desk.hear("text_delta")
        history = await desk.ask("session_history", sessionId=sent["sessionId"])
        assert [message["role"] for message in history["messages"]] == ["user"]
        assert history["logCursor"] == sent["cursor"]
        gate.set()
        end = (await desk.hear("turn_response"))[-1]
        assert (await desk.ask("session_history", sessionId=sent["sessionId"]))["logCursor"] == end["cursor"]
