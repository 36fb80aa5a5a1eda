import socket
from pathlib import Path

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect

from agentvm.client.agentx import create_agentx
from agentvm.client.remote import remote_runtime
from agentvm.client.verbs import AgentX, RuntimeView, ServerManager
from agentvm.config import MEMORY, LlmSettings, ServerConfig, SystemSettings
from agentvm.drivers.base import Driver
from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import ChannelClosed, ConfigInvalid, Conflict, DataDirInUse
from agentvm.model.definition import Definition
from agentvm.protocol.link import WireEvent
from agentvm.server.local import LocalRuntime, LocalServer, local_runtime, start_server

IN_MEMORY = ServerConfig(system=SystemSettings(data_dir=MEMORY, port=0))


def in_memory(driver: Driver | None = None) -> LocalRuntime:
    return local_runtime(IN_MEMORY, drivers={"scripted": driver or ScriptedDriver()}, definitions=[Definition(name="poet")])


def server_of(agentx: AgentX) -> ServerManager:
    assert agentx.server is not None
    return agentx.server


async def test_beside_a_running_server_a_local_runtime_says_in_pythons_words_what_to_do(tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(data_dir=str(tmp_path), port=0, shutdown_seconds=0))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        with pytest.raises(DataDirInUse) as refused:
            async with create_agentx(local_runtime(config)):
                pass
        said = str(refused.value)
        assert f'remote_runtime("{server.ws_url}")' in said
        assert "data_dir=..." in said
        assert "--data-dir" not in said
    async with create_agentx(local_runtime(config, drivers={"scripted": ScriptedDriver()})):
        with pytest.raises(DataDirInUse, match=r"remote_runtime\(url\)"):
            async with create_agentx(local_runtime(config)):
                pass


async def test_a_local_runtime_runs_turns_without_listening() -> None:
    with anyio.fail_after(60):
        async with create_agentx(in_memory()) as agentx:
            image = await agentx.images.build("poet")
            agent = await agentx.runtime.images.run(image.image_id)
            told = [event async for event in agent.stream("Hello")]
            assert told[-1].type == "turn_response"


async def test_it_listens_closes_and_listens_again() -> None:
    with anyio.fail_after(60):
        async with create_agentx(in_memory()) as agentx:
            server = server_of(agentx)
            await server.close()
            for _ in range(2):
                port = await server.listen(port=0)
                with pytest.raises(Conflict):
                    await server.listen(port=0)
                async with create_agentx(remote_runtime(f"ws://127.0.0.1:{port}")) as remote:
                    await remote.containers.create("c1")
                await server.close()
                await server.close()
            assert await agentx.containers.list() == ("c1",)


async def test_a_port_in_use_is_refused_and_another_can_be_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, anyio.fail_after(60):
        async with create_agentx(in_memory()) as agentx:
            server = server_of(agentx)
            with pytest.raises(ConfigInvalid):
                await server.listen(port=taken.getsockname()[1])
            assert await server.listen(port=0) > 0


async def test_each_connections_view_hears_that_peers_events() -> None:
    with anyio.fail_after(60):
        async with create_agentx(in_memory()) as agentx:
            heard: list[str] = []
            spoken = anyio.Event()

            def listen(event: WireEvent) -> None:
                heard.append(event.type)
                if event.type == "turn_response":
                    spoken.set()

            def welcome(view: RuntimeView) -> None:
                view.on("*", listen)

            server = server_of(agentx)
            assert isinstance(server, LocalServer)
            server.on_connection(welcome)
            port = await server.listen(port=0)
            assert server.vm.report().sockets == 0
            async with create_agentx(remote_runtime(f"ws://127.0.0.1:{port}/ws")) as remote:
                assert server.vm.report().sockets == 1
                image = await remote.images.create(container_id="c1")
                await (await remote.images.run(image.image_id)).receive("Hi")
                await spoken.wait()
            assert "text_delta" in heard


async def test_a_peer_that_a_server_hangs_up_on_is_told() -> None:
    views: list[RuntimeView] = []
    with anyio.fail_after(60):
        async with create_agentx(in_memory(ScriptedDriver())) as agentx:
            server = server_of(agentx)
            server.on_connection(views.append)
            port = await server.listen(port=0)
            async with connect(f"ws://127.0.0.1:{port}/ws") as peer:
                await peer.send('{"type": "container_list_request", "data": {"requestId": "r"}}')
                await peer.recv()
                await views[0].channel.disconnect()
                async for _ in peer:
                    pass
    assert (peer.close_code, peer.close_reason) == (1000, "closed by the server")


async def test_a_server_can_hang_up_on_a_peer() -> None:
    views: list[RuntimeView] = []
    gone = anyio.Event()
    with anyio.fail_after(60):
        async with create_agentx(in_memory(ScriptedDriver())) as agentx:
            server = server_of(agentx)
            server.on_connection(views.append)
            port = await server.listen(port=0)
            async with create_agentx(remote_runtime(f"ws://127.0.0.1:{port}/ws")) as remote:
                remote.runtime.on("disconnected", lambda event: gone.set())
                await remote.containers.create("c1")
                channel = views[0].channel
                await channel.connect()
                states: list[str] = [channel.state]
                await channel.disconnect()
                states.append(channel.state)
                await gone.wait()
                assert states == ["open", "closed"]
                await remote.runtime.channel.connect()
                assert await remote.containers.list() == ("c1",)
            with pytest.raises(ChannelClosed):
                await views[0].channel.connect()


async def test_closing_the_server_does_not_end_turns() -> None:
    gate = anyio.Event()
    driver = ScriptedDriver(lambda prompt: [*reply("a")[:3], Pause(gate), *reply("b")[2:]])
    with anyio.fail_after(60):
        async with create_agentx(in_memory(driver)) as agentx:
            server = server_of(agentx)
            port = await server.listen(port=0)
            ended = anyio.Event()
            agentx.runtime.on("turn_response", lambda event: ended.set())
            async with create_agentx(remote_runtime(f"ws://127.0.0.1:{port}/ws")) as remote:
                image = await remote.images.create(container_id="c1")
                await agentx.images.get(image.image_id)
                await (await remote.images.run(image.image_id)).receive("Hi")
            await server.close()
            gate.set()
            await ended.wait()


async def test_leaving_tells_peers_the_end_of_their_turns_before_it_closes_them() -> None:
    driver = ScriptedDriver(lambda prompt: [*reply("a")[:3], Pause(anyio.Event())])
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY, port=0, shutdown_seconds=0.01))
    heard: list[str] = []
    speaking, gone = anyio.Event(), anyio.Event()

    async def be_a_client(url: str) -> None:
        async with create_agentx(remote_runtime(url)) as agentx:
            agentx.runtime.on("*", lambda event: heard.append(event.type))
            agentx.runtime.on("text_delta", lambda event: speaking.set())
            agentx.runtime.on("disconnected", lambda event: gone.set())
            image = await agentx.images.create(container_id="c1")
            await (await agentx.images.run(image.image_id)).receive("Hi")
            await gone.wait()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            async with start_server(config, drivers={"scripted": driver}) as server:
                tasks.start_soon(be_a_client, server.ws_url)
                await speaking.wait()
    assert heard[heard.index("message_stop") :] == [
        "message_stop", "assistant_message", "conversation_end", "turn_response", "disconnected",
    ]  # fmt: skip


async def test_a_started_server_says_where_it_is() -> None:
    with anyio.fail_after(60):
        async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver()}) as server:
            assert server.url == f"http://127.0.0.1:{server.port}"
            assert server.ws_url == f"ws://127.0.0.1:{server.port}/ws"
            async with httpx2.AsyncClient() as client:
                assert (await client.get(f"{server.url}/health")).json()["status"] == "ok"


async def test_a_first_key_that_nobody_was_shown_is_replaced_by_the_next_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = ServerConfig(
            system=SystemSettings(data_dir=str(tmp_path), auth="on", port=taken.getsockname()[1]),
            llm=LlmSettings(provider="scripted"),
        )
        with pytest.raises(ConfigInvalid, match="Cannot listen"):
            async with start_server(config):
                pass
    async with start_server(config) as server:
        assert server.first_key is not None
        headers = {"Authorization": f"Bearer {server.first_key.reveal()}"}
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False, headers=headers) as web:
            assert (await web.get("/v1/config")).status_code == 200
    async with start_server(config) as server:
        assert server.first_key is None


async def test_an_ipv6_host_is_bracketed_in_urls() -> None:
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY, port=0, host="::1"))
    try:
        async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
            assert server.url == f"http://[::1]:{server.port}"
    except ConfigInvalid as error:
        pytest.skip(f"IPv6: {error}")


async def test_without_a_config_the_environment_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AVM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AVM_PORT", "1234")
    runtime = local_runtime()
    assert (runtime.config.data_dir, runtime.config.system.port) == (tmp_path / "data", 1234)
