import json
import socket
import sys

import anyio
import pytest
from tests.server.fixtures import open_listener, open_socket
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agentvm import ServerConfig, start_server
from agentvm.client.verbs import RuntimeView
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import ConfigInvalid
from agentvm.server.serving import bind


def test_a_free_port_is_bound_and_listens() -> None:
    with bind("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname(), timeout=60):
        assert not bound.getblocking()


def test_a_port_in_use_is_refused_with_the_remedy() -> None:
    with bind("127.0.0.1", 0) as bound, pytest.raises(ConfigInvalid) as refused:
        bind("127.0.0.1", bound.getsockname()[1])
    assert "--port" in str(refused.value)


@pytest.mark.parametrize(
    ("host", "port"),
    [("no.such.host.invalid", 0), ("127.0.0.1", 70_000), ("127.0.0.1", -1), ("203.0.113.1", 0), ("a\x00b", 0), ("x" * 300, 0)],
)
def test_a_host_or_port_that_cannot_be_is_refused(host: str, port: int) -> None:
    with pytest.raises(ConfigInvalid):
        bind(host, port)


async def test_threads_give_way_to_the_event_loop_within_a_millisecond() -> None:
    async with open_listener() as (_, listener):
        with anyio.fail_after(60):
            async with listener.listen("127.0.0.1", 0):
                assert sys.getswitchinterval() <= 0.001


async def test_a_listener_serves_real_sockets_and_closes_them_when_it_is_left() -> None:
    async with open_listener() as (vm, listener):
        with anyio.fail_after(60):
            async with listener.listen("127.0.0.1", 0) as port:
                client = await connect(f"ws://127.0.0.1:{port}/ws")
                probe = json.loads(await client.recv())
                assert "__payload" in probe
                with pytest.raises(InvalidStatus) as refused:
                    await connect(f"ws://127.0.0.1:{port}/nope")
                assert refused.value.response.status_code == 404
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
            with pytest.raises(ConnectionError):
                await connect(f"ws://127.0.0.1:{port}/ws")
        assert vm.runtime.broadcaster.channels == ()


async def test_refusing_new_peers_keeps_those_that_are_connected() -> None:
    async with open_listener() as (_, listener):
        listener.refuse_new()
        with anyio.fail_after(60):
            async with listener.listen("127.0.0.1", 0) as port:
                client = await connect(f"ws://127.0.0.1:{port}/ws")
                await client.recv()
                listener.refuse_new()
                with pytest.raises(ConnectionError):
                    await connect(f"ws://127.0.0.1:{port}/ws")
                await client.send('{"type":"container_list_request","data":{"requestId":"r"}}')
                assert json.loads(await client.recv())["data"]["requestId"] == "r"
                await client.close()


async def test_each_new_peers_view_hears_what_the_peer_hears() -> None:
    async with open_listener() as (_, listener):
        heard: list[str] = []

        def welcome(view: RuntimeView) -> None:
            view.on("*", lambda event: heard.append(event.type))

        stop = listener.on_connection(welcome)
        async with open_socket(listener.app) as socket:
            await socket.ask("container_create", containerId="c1")
            await anyio.wait_all_tasks_blocked()
            assert heard == ["container_created", "container_create_response"]
            await socket.leave()
        stop()
        stop()
        async with open_socket(listener.app) as socket:
            await socket.ask("container_create", containerId="c2")
            await socket.leave()
        assert len(heard) == 2


async def test_a_peers_view_can_act_for_it() -> None:
    async with open_listener() as (_, listener):
        views: list[RuntimeView] = []
        listener.on_connection(views.append)
        async with open_socket(listener.app) as socket:
            await socket.ask("container_list")
            with anyio.fail_after(60):
                await views[0].images.create(container_id="c1")
            await socket.read("image_created")
            await socket.leave()


async def test_a_handler_that_fails_costs_its_peer_the_connection_and_nobody_else() -> None:
    async with open_listener() as (vm, listener):

        def broken(view: RuntimeView) -> None:
            raise ZeroDivisionError

        stop = listener.on_connection(broken)
        with pytest.raises(ExceptionGroup):
            async with open_socket(listener.app):
                pass
        stop()
        assert vm.runtime.broadcaster.channels == ()
        with anyio.fail_after(60):
            async with listener.listen("127.0.0.1", 0) as port, connect(f"ws://127.0.0.1:{port}/ws") as client:
                await client.recv()
        assert vars(listener)["_channels"] == {}


async def test_a_peer_hears_the_last_words_of_a_server_that_ends() -> None:
    heard: list[str] = []
    with anyio.fail_after(60):
        config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY))
        async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
            peer = await connect(server.ws_url)
            image = await server.agentx.images.create()
            await peer.send(json.dumps({"type": "subscribe", "sessionId": image.session_id}))
            await peer.send(json.dumps({"type": "container_list_request", "data": {"requestId": "r"}}))
            while "container_list_response" not in heard:
                heard.append(json.loads(await peer.recv()).get("type"))
            agent = await server.agentx.images.run(image.image_id)
            async for _ in agent.stream("hello"):
                pass
        async for frame in peer:
            heard.append(json.loads(frame)["type"])
    # A title may be told after the end of the turn.
    assert "turn_response" in heard
    assert peer.close_code == 1001
