"""Clients that name themselves, from their first frame to their last."""

import json
from typing import NoReturn

import anyio
import pytest
from tests.server.browser import CLIENT, Browser, paused_at, talk, words
from tests.server.fixtures import open_listener, open_socket

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import StoreFailed
from agentvm.protocol import acks
from agentvm.runtime.channel import GOING_AWAY
from agentvm.server import readers, writer
from agentvm.storage.sql.store import TenantStore


async def fail(self: object, *given: object) -> NoReturn:
    raise StoreFailed("the disk is gone")


async def test_a_client_that_comes_back_hears_what_it_missed_once_and_then_goes_on() -> None:
    async with open_listener(ScriptedDriver(words)) as (_, listener):
        async with open_socket(listener.app, client=CLIENT) as socket, open_socket(listener.app) as other:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await talk(here, image)
            await here.settle()
            await socket.leave()
            await anyio.wait_all_tasks_blocked()
            await talk(Browser(other), image)
            await other.leave()
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"])
            await back.until("turn_response")
            assert back.seqs[0] == here.seqs[-1] + 1
            await talk(back, image)
            assert here.seqs + back.seqs == list(range(1, back.seqs[-1] + 1))
            assert all(back.wrapped)
            await socket.leave()


async def test_without_a_name_nothing_is_replayed() -> None:
    async with open_listener(ScriptedDriver(words)) as (_, listener):
        async with open_socket(listener.app) as socket:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await talk(here, image)
            await socket.leave()
        for client in (None, CLIENT, "short"):
            async with open_socket(listener.app, client=client) as socket:
                back = Browser(socket)
                await back.subscribe(image["sessionId"])
                await back.settle()
                assert back.seqs == []
                await socket.leave()


async def test_what_was_not_acknowledged_is_sent_again() -> None:
    gate = anyio.Event()
    async with open_listener(paused_at(gate)) as (_, listener):
        async with open_socket(listener.app, client=CLIENT) as socket:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await here.ask("message_send", imageId=image["imageId"], content="Hi")
            await here.until("text_delta")
            await here.settle()
            heard = here.seqs[-1]
            gate.set()
            while (await here.read(deaf=True))["type"] != "turn_response":
                pass
            await socket.leave()
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"])
            await back.until("turn_response")
            assert back.seqs == list(range(heard + 1, here.seqs[-1] + 1))
            await socket.leave()


async def test_a_cursor_that_the_client_names_wins() -> None:
    async with open_listener(ScriptedDriver(words)) as (_, listener):
        async with open_socket(listener.app, client=CLIENT) as socket:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await talk(here, image)
            await here.subscribe(image["sessionId"], afterCursor="2")
            await here.until("turn_response")
            last = here.seqs[-1]
            assert here.seqs[last:] == list(range(3, last + 1))
            await here.settle()
            await socket.leave()
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"], afterCursor="4")
            await back.until("turn_response")
            assert back.seqs == list(range(5, last + 1))
            await back.subscribe(image["sessionId"])
            await back.settle()
            assert back.seqs[-1] == last
            await socket.leave()


async def test_a_session_that_is_heard_already_goes_on_as_it_is() -> None:
    async with open_listener(ScriptedDriver(words)) as (_, listener):
        async with open_socket(listener.app, client=CLIENT) as socket, open_socket(listener.app) as other:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await here.settle()
            await socket.leave()
            await anyio.wait_all_tasks_blocked()
            await talk(Browser(other), image)
            await other.leave()
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await talk(back, image)
            seqs = back.seqs
            await back.subscribe(image["sessionId"])
            await back.settle()
            assert back.seqs == seqs
            assert seqs[0] > 5
            await socket.leave()


async def test_a_socket_that_dies_before_it_subscribes_changes_nothing() -> None:
    async with open_listener(ScriptedDriver(words)) as (_, listener):
        async with open_socket(listener.app, client=CLIENT) as socket, open_socket(listener.app) as other:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await here.settle()
            await socket.leave()
            await anyio.wait_all_tasks_blocked()
            await talk(Browser(other), image)
            await other.leave()
        for subscribes in (False, True):
            async with open_socket(listener.app, client=CLIENT) as socket:
                if subscribes:
                    await socket.send({"type": "subscribe", "sessionId": image["sessionId"]})
                    await anyio.wait_all_tasks_blocked()
                await socket.leave()
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"])
            await back.until("turn_response")
            assert back.seqs == list(range(1, back.seqs[-1] + 1))
            await socket.leave()


async def test_a_socket_that_is_half_open_is_taken_over_and_stays() -> None:
    gate = anyio.Event()
    async with open_listener(paused_at(gate)) as (vm, listener), open_socket(listener.app, client=CLIENT) as old:
        here = Browser(old)
        image = (await here.ask("image_create", containerId="c1"))["record"]
        await here.ask("message_send", imageId=image["imageId"], content="Hi")
        await here.until("text_delta")
        await here.settle()
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"])
            await back.settle()
            gate.set()
            await back.until("turn_response")
            assert back.seqs == list(range(here.seqs[-1] + 1, back.seqs[-1] + 1))
            await here.until("turn_response")
            assert len(vm.runtime.broadcaster.channels) == 2
            await here.settle()
            await old.leave()
            await anyio.wait_all_tasks_blocked()
            await back.settle()
            await socket.leave()
        async with open_socket(listener.app, client=CLIENT) as socket:
            again = Browser(socket)
            await again.subscribe(image["sessionId"])
            await again.settle()
            assert again.seqs == [], "the old socket's end did not overwrite what the new one knew"
            await socket.leave()


async def test_two_tabs_under_one_name_do_not_throw_each_other_out() -> None:
    async with open_listener() as (vm, listener):
        async with open_socket(listener.app, client=CLIENT) as one, open_socket(listener.app, client=CLIENT) as two:
            for tab in (one, two, one):
                await Browser(tab).settle()
            assert len(vm.runtime.broadcaster.channels) == 2
            await one.leave()
            await two.leave()


async def test_a_stopping_server_waits_for_the_last_acknowledgements_before_it_closes() -> None:
    async with open_listener(ScriptedDriver(words)) as (vm, listener):
        async with open_socket(listener.app, client=CLIENT) as socket:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await here.ask("message_send", imageId=image["imageId"], content="Hi")
            await anyio.wait_all_tasks_blocked()
            (channel,) = vm.runtime.broadcaster.channels
            channel.close(GOING_AWAY)
            while (message := await here.read())["type"] != "websocket.close":
                pass
            assert message["code"] == 1001
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"])
            await back.settle()
            assert back.seqs == []
            await socket.leave()


async def test_a_client_that_never_acknowledges_gets_bare_frames_and_no_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "ACK_TIMEOUT_SECONDS", 0.01)
    async with open_listener(ScriptedDriver(words)) as (_, listener):
        async with open_socket(listener.app, client=CLIENT) as socket:
            image = (await socket.ask("image_create", containerId="c1"))["record"]
            await socket.ask("message_send", imageId=image["imageId"], content="Hi")
            await socket.read("turn_response")
            await socket.leave()
        async with open_socket(listener.app, client=CLIENT) as socket:
            await socket.send({"type": "subscribe", "sessionId": image["sessionId"]})
            for _ in range(2):
                await socket.ask("container_list")
            assert [json.loads(message["text"])["type"] for message in socket.received[2:]] == ["container_list_response"] * 2
            await socket.leave()


async def test_a_client_that_stops_acknowledging_is_served_and_gets_no_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (acks, readers):
        monkeypatch.setattr(module, "PENDING_FRAMES_MAX", 3)
    monkeypatch.setattr(readers, "ACK_TIMEOUT_SECONDS", 0.01)
    async with open_listener(ScriptedDriver(words)) as (_, listener):
        async with open_socket(listener.app, client=CLIENT) as socket:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await socket.send({"type": "message_send_request", "data": {"imageId": image["imageId"], "content": "Hi"}})
            while (await here.read(deaf=True))["type"] != "turn_response":
                pass
            await socket.leave()
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"])
            await back.settle()
            assert back.seqs == []
            await socket.leave()


async def test_a_client_that_acknowledges_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (acks, readers):
        monkeypatch.setattr(module, "PENDING_FRAMES_MAX", 2)
    async with open_listener(ScriptedDriver(words)) as (_, listener):
        async with open_socket(listener.app, client=CLIENT) as socket:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await talk(here, image)
            await here.settle()
            assert here.seqs == list(range(1, here.seqs[-1] + 1))
            await socket.leave()
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"])
            await talk(back, image)
            assert back.seqs[0] == here.seqs[-1] + 1
            await socket.leave()


@pytest.mark.parametrize("method", ["save_reader", "take_reader"])
async def test_a_store_that_fails_costs_the_replay_and_nothing_else(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_listener(ScriptedDriver(words)) as (_, listener):
        monkeypatch.setattr(TenantStore, method, fail)
        for _ in range(2):
            async with open_socket(listener.app, client=CLIENT) as socket:
                here = Browser(socket)
                image = (await here.ask("image_create", containerId="c1"))["record"]
                await talk(here, image)
                await socket.leave()
            assert not socket.aborted
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"])
            await back.settle()
            assert back.seqs == []
            await socket.leave()


async def test_a_peer_that_reads_nothing_any_more_is_cut_off_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LINGER_SECONDS", 0.01)
    gate = anyio.Event()
    async with open_listener(paused_at(gate)) as (vm, listener):
        async with open_socket(listener.app, client=CLIENT) as socket:
            here = Browser(socket)
            image = (await here.ask("image_create", containerId="c1"))["record"]
            await here.ask("message_send", imageId=image["imageId"], content="Hi")
            await here.until("text_delta")
            await here.settle()
            socket.stalled.set()
            gate.set()
            await anyio.wait_all_tasks_blocked()
            (channel,) = vm.runtime.broadcaster.channels
            channel.close(GOING_AWAY)
        assert socket.aborted
        async with open_socket(listener.app, client=CLIENT) as socket:
            back = Browser(socket)
            await back.subscribe(image["sessionId"])
            await back.until("turn_response")
            heard = here.seqs + back.seqs
            assert heard == list(range(1, heard[-1] + 1))
            await socket.leave()
