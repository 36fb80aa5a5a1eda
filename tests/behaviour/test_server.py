"""What only a local runtime has: it can listen."""

import anyio
import pytest
from tests.support.serving import Play
from tests.support.wire import client

from agentvm import AgentX, RuntimeView, ScriptedDriver, ServerConfig, create_agentx, local_runtime, remote_runtime
from agentvm.client.verbs import ServerManager
from agentvm.config import MEMORY, SystemSettings
from agentvm.errors import ConfigInvalid, Conflict
from agentvm.server.local import LocalRuntime


def runtime(play: Play) -> LocalRuntime:
    return local_runtime(
        ServerConfig(system=SystemSettings(data_dir=MEMORY, shutdown_seconds=0)), drivers={"scripted": ScriptedDriver(play)}
    )


def server_of(agentx: AgentX) -> ServerManager:
    assert agentx.server is not None
    return agentx.server


async def test_a_local_runtime_listens_and_a_remote_one_does_not() -> None:
    async with create_agentx(runtime(Play())) as here:
        port = await server_of(here).listen(port=0)
        async with create_agentx(remote_runtime(f"ws://127.0.0.1:{port}")) as there:
            assert there.server is None
            image = await there.images.create(container_id="c1")
            assert await here.images.get(image.image_id) == image


async def test_listening_twice_is_refused_and_after_close_it_is_allowed() -> None:
    async with create_agentx(runtime(Play())) as here:
        server = server_of(here)
        port = await server.listen(port=0)
        with pytest.raises(Conflict):
            await server.listen(port=0)
        await server.close()
        await server.close()
        assert await server.listen(port=port) == port
        async with client(f"ws://127.0.0.1:{port}/ws") as alice:
            await alice.settle()


async def test_a_port_that_is_taken_is_said_and_the_runtime_lives_on() -> None:
    async with create_agentx(runtime(Play())) as here, create_agentx(runtime(Play())) as other:
        port = await server_of(here).listen(port=0)
        with pytest.raises(ConfigInvalid):
            await server_of(other).listen(port=port)
        assert await other.containers.list() == ()


async def test_after_a_port_was_taken_another_one_can_be_used() -> None:
    async with create_agentx(runtime(Play())) as here, create_agentx(runtime(Play())) as other:
        port = await server_of(here).listen(port=0)
        with pytest.raises(ConfigInvalid):
            await server_of(other).listen(port=port)
        assert await server_of(other).listen(port=0) > 0


async def test_close_ends_connections_and_turns_run_on() -> None:
    play = Play()
    async with create_agentx(runtime(play)) as here:
        port = await server_of(here).listen(port=0)
        ended = anyio.Event()
        here.runtime.on("turn_response", lambda event: ended.set())
        async with client(f"ws://127.0.0.1:{port}/ws") as alice:
            record = await alice.image()
            await here.images.get(record["imageId"])
            await alice.request("message_send_request", imageId=record["imageId"], content="slow")
            await alice.wait("text_delta", 2)
            await server_of(here).close()
            assert await alice.wait_closed() == 1001
        play.gate.set()
        with anyio.fail_after(60):
            await ended.wait()


async def test_on_connection_gives_each_peers_own_view() -> None:
    async with create_agentx(runtime(Play())) as here:
        server = server_of(here)
        views: list[RuntimeView] = []
        heard: list[str] = []

        def greet(view: RuntimeView) -> None:
            views.append(view)
            view.on("text_delta", lambda event: heard.append(str(event.data["text"])))

        stop = server.on_connection(greet)
        port = await server.listen(port=0)
        async with client(f"ws://127.0.0.1:{port}/ws") as alice, client(f"ws://127.0.0.1:{port}/ws") as bob:
            await alice.settle()
            await bob.settle()
            assert len(views) == 2
            record = await alice.image("alices")
            await bob.image("bobs")
            # The server side acts for its peer: what it asks, the peer hears.
            assert [image.container_id for image in await views[0].images.list()] == ["alices"]
            await (await views[0].images.run(record["imageId"])).receive("hello you")
            await alice.wait("turn_response")
            assert heard == ["hello", " you"]
            stop()
            async with client(f"ws://127.0.0.1:{port}/ws") as eve:
                await eve.settle()
            assert len(views) == 2
