import json
from typing import Any, NoReturn

import anyio
import pytest
from tests.server.fixtures import open_listener, open_socket

from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.protocol.codec import Frame
from agentvm.runtime.channel import GOING_AWAY, LARGE_CHARACTERS, MAX_BYTES, RESERVE_FACTOR
from agentvm.server import writer
from agentvm.storage.sql.store import TenantStore
from agentvm.vm import AgentVM


def the_channel(vm: AgentVM) -> Any:
    (channel,) = vm.runtime.broadcaster.channels
    return channel


async def test_a_peer_is_greeted_with_the_probe_answered_and_told_of_its_turns() -> None:
    async with open_listener() as (vm, listener), open_socket(listener.app) as socket:
        assert (await socket.from_server.receive())["type"] == "websocket.accept"
        probe = json.loads((await socket.from_server.receive())["text"])
        assert json.loads(probe["__payload"])["type"] == "server_hello"
        image = (await socket.ask("image_create", containerId="c1"))["record"]
        await socket.send(
            {"type": "message_send_request", "data": {"imageId": image["imageId"], "content": "Hi", "requestId": "r"}}
        )
        await socket.read("turn_response")
        types = [json.loads(message["text"])["type"] for message in socket.received if message["type"] == "websocket.send"]
        assert types.index("message_send_response") < types.index("message_start")
        await socket.leave()
    assert vm.runtime.broadcaster.channels == ()
    assert not socket.aborted


async def test_a_peer_that_acknowledges_the_probe_gets_wrapped_frames() -> None:
    async with open_listener() as (_, listener), open_socket(listener.app) as socket:
        await socket.from_server.receive()
        probe = json.loads((await socket.from_server.receive())["text"])
        await socket.send({"__ack": probe["__msgId"]})
        await socket.ask("container_list")
        assert "__payload" in json.loads(socket.received[-1]["text"])
        await socket.leave()


@pytest.mark.parametrize("noise", ["not json", "null", "[]", '{"type":5}', "[" * 10_000, "{}", '{"type":"ping"}'])
async def test_noise_is_told_to_its_sender_and_the_socket_stays(noise: str) -> None:
    async with open_listener() as (_, listener), open_socket(listener.app) as socket:
        await socket.send(noise)
        assert (await socket.read("system_error"))["data"]["code"] == "invalid_input"
        assert (await socket.ask("container_list"))["containerIds"] == []
        await socket.leave()


@pytest.mark.parametrize("frame", [{"type": "auth", "headers": {"a": "b"}}, {"__ack": "x"}, {"type": "assistant_message"}])
async def test_what_asks_for_nothing_is_not_answered(frame: object) -> None:
    async with open_listener() as (_, listener), open_socket(listener.app) as socket:
        await socket.send(frame)
        await socket.ask("container_list")
        assert len(socket.received) == 3, "accept, probe and reply"
        await socket.leave()


async def test_binary_frames_are_read_as_text() -> None:
    async with open_listener() as (_, listener), open_socket(listener.app) as socket:
        await socket.to_server.send({"type": "websocket.receive", "bytes": b'{"type":"container_list_request","data":{}}'})
        await socket.read("container_list_response")
        await socket.to_server.send({"type": "websocket.receive", "bytes": b"\xff\xfe"})
        await socket.read("system_error")
        await socket.leave()


async def test_an_unreadable_request_is_answered_under_its_id() -> None:
    async with open_listener() as (_, listener), open_socket(listener.app) as socket:
        assert (await socket.ask("image_explode"))["requestId"] == "req_1"
        assert (await socket.ask("image_run", imageId=5))["errorCode"] == "invalid_input"
        await socket.leave()


async def test_a_subscriber_hears_the_session_and_an_unknown_session_is_ignored() -> None:
    async with open_listener() as (_, listener), open_socket(listener.app) as one, open_socket(listener.app) as two:
        image = (await one.ask("image_create", containerId="c1"))["record"]
        for session_id in ("nope", image["sessionId"], image["sessionId"]):
            await two.send({"type": "subscribe", "sessionId": session_id})
        await two.ask("container_list")
        await one.ask("message_send", imageId=image["imageId"], content="Hi")
        await two.read("turn_response")
        texts = [json.loads(message["text"]) for message in two.received if message["type"] == "websocket.send"]
        assert [event["data"]["text"] for event in texts if event.get("type") == "text_delta"] == ["Hi"]
        await one.leave()
        await two.leave()


async def test_a_subscription_the_store_cannot_look_up_is_told_and_the_socket_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: object, session_id: str) -> NoReturn:
        raise StoreFailed("the disk is gone")

    async with open_listener() as (_, listener), open_socket(listener.app) as socket:
        monkeypatch.setattr(TenantStore, "find_session", fail)
        await socket.send({"type": "subscribe", "sessionId": "sess_1"})
        assert (await socket.read("system_error"))["data"]["code"] == "store_failed"
        await socket.ask("container_list")
        await socket.leave()


async def test_a_turn_goes_on_when_its_sender_leaves() -> None:
    gate = anyio.Event()
    driver = ScriptedDriver(lambda prompt: [*reply("a")[:3], Pause(gate), *reply("b")[2:]])
    async with open_listener(driver) as (_, listener):
        async with open_socket(listener.app) as socket:
            image_id = (await socket.ask("image_create", containerId="c1"))["record"]["imageId"]
            await socket.ask("message_send", imageId=image_id, content="Hi")
            await socket.read("text_delta")
            await socket.leave()
        async with open_socket(listener.app) as later:
            await later.ask("image_get", imageId=image_id)
            gate.set()
            await later.read("turn_response")
            history = (await later.ask("image_messages", imageId=image_id))["messages"]
            assert [message["subtype"] for message in history] == ["user", "assistant"]
            await later.leave()


async def test_a_closed_channel_closes_the_socket_with_its_code_after_the_last_words() -> None:
    async with open_listener() as (vm, listener), open_socket(listener.app) as socket:
        await socket.ask("container_create", containerId="c1")
        await socket.send({"type": "container_list_request", "data": {"requestId": "r"}})
        await anyio.wait_all_tasks_blocked()
        the_channel(vm).close(GOING_AWAY)
        assert await socket.read_close() == {"type": "websocket.close", "code": 1001, "reason": "server shutting down"}
    assert vm.runtime.broadcaster.channels == ()


async def test_a_peer_that_does_not_read_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LINGER_SECONDS", 0.01)
    async with open_listener() as (vm, listener):
        async with open_socket(listener.app) as socket:
            await socket.ask("container_create", containerId="c1")
            socket.stalled.set()
            for _ in range(2 * RESERVE_FACTOR * MAX_BYTES // LARGE_CHARACTERS + 2):
                the_channel(vm).send(Frame("x" * LARGE_CHARACTERS))
                await anyio.wait_all_tasks_blocked()
        assert socket.aborted
        assert vm.runtime.broadcaster.channels == ()


async def test_a_peer_that_breaks_off_while_it_is_written_to_is_forgotten() -> None:
    async with open_listener() as (vm, listener):
        async with open_socket(listener.app) as socket:
            await socket.ask("container_create", containerId="c1")
            socket.gone = True
            await socket.send({"type": "container_list_request", "data": {}})
            await socket.leave()
        assert vm.runtime.broadcaster.channels == ()


async def test_whoever_is_being_closed_is_no_longer_obeyed() -> None:
    async with open_listener() as (vm, listener):
        async with open_socket(listener.app) as socket:
            await socket.ask("container_create", containerId="before")
            socket.stalled.set()
            await socket.send({"type": "container_list_request", "data": {}})
            await anyio.wait_all_tasks_blocked()
            the_channel(vm).close(GOING_AWAY)
            await socket.send({"type": "container_create_request", "data": {"containerId": "after"}})
            await anyio.wait_all_tasks_blocked()
            await socket.leave()
        assert await vm.tenancy.store.tenant(DEFAULT_TENANT).list_containers() == (ContainerId("before"),)


async def test_a_list_is_told_of_messages_and_a_reader_also_of_deltas() -> None:
    gate = anyio.Event()
    driver = ScriptedDriver(lambda prompt: [*reply("one ")[:3], Pause(gate), *reply("two ")[2:]])
    async with (
        open_listener(driver=driver) as (_, listener),
        open_socket(listener.app) as lists,
        open_socket(listener.app) as sends,
    ):
        await lists.send({"type": "subscribe", "containerId": "c1", "deltas": False})
        await lists.ask("container_list")
        image = (await sends.ask("image_create", containerId="c1"))["record"]
        sent = await sends.ask("message_send", imageId=image["imageId"], content="Hi")
        await sends.read("text_delta")
        page = await lists.ask("session_history", sessionId=image["sessionId"], follow=True)
        assert [one["content"] for one in page["messages"]] == ["Hi"]
        before = [message.get("text", "") for message in lists.received]
        assert not any('"text_delta"' in text for text in before)
        assert any('"turn_request"' in text for text in before)
        # The running turn is told again from its beginning, deltas included, behind the reply.
        assert (await lists.read("turn_request"))["data"]["turnId"] == sent["turnId"]
        assert (await lists.read("text_delta"))["data"]["text"] == "one "
        await lists.send({"type": "unsubscribe", "sessionId": image["sessionId"]})
        await lists.ask("container_list")
        count = len(lists.received)
        gate.set()
        await lists.read("turn_response")
        after = [message.get("text", "") for message in lists.received[count:]]
        assert not any('"text_delta"' in text for text in after)
        for socket in (lists, sends):
            await socket.leave()
