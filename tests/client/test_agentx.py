from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from agentvm import WireEvent
from agentvm.client.agentx import RuntimeSource, create_agentx
from agentvm.client.remote import remote_runtime
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import ChannelClosed, InvalidInput
from agentvm.server.local import local_runtime, start_server

IN_MEMORY = ServerConfig(system=SystemSettings(data_dir=MEMORY, port=0))


@asynccontextmanager
async def open_source(kind: str) -> AsyncIterator[RuntimeSource]:
    drivers = {"scripted": ScriptedDriver()}
    if kind == "local":
        yield local_runtime(IN_MEMORY, drivers=drivers)
    else:
        async with start_server(IN_MEMORY, drivers=drivers) as server:
            yield remote_runtime(server.ws_url)


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_the_same_program_runs_here_and_elsewhere(kind: str) -> None:
    with anyio.fail_after(60):
        async with open_source(kind) as source, create_agentx(source) as agentx:
            assert (agentx.server is None) == (kind == "remote")
            image = await agentx.images.create(container_id="c1")
            agent = await agentx.runtime.images.run(image.image_id)
            text = "".join([str(event.data["text"]) async for event in agent.stream("Hello you") if event.type == "text_delta"])
            assert text == "Hello you"


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_an_agent_runs_once_without_a_session(kind: str) -> None:
    async with open_source(kind) as source, create_agentx(source) as agentx:
        with anyio.fail_after(60):
            heard = [event async for event in agentx.run("hello")]
    assert "".join(str(event.data["text"]) for event in heard if event.type == "text_delta") == "hello"
    assert heard[-1].type == "turn_response"


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_a_frame_goes_as_it_is_and_what_it_asks_for_comes_as_events(kind: str) -> None:
    async with open_source(kind) as source, create_agentx(source) as agentx:
        channel, answered = agentx.runtime.channel, anyio.Event()
        session = await agentx.runtime.sessions.create()
        agent = await session.resume()
        assert [event.type async for event in agent.stream("Hello")][-1] == "turn_response"
        heard: list[str] = []

        def hear(event: WireEvent) -> None:
            heard.append(event.type)
            if event.data.get("requestId") == "mine":
                answered.set()

        stop = channel.on(hear)
        await channel.send({"type": "nonsense"})
        await channel.send({"type": "container_create_request", "data": {"requestId": "mine", "containerId": "c2"}})
        with anyio.fail_after(60):
            await answered.wait()
        stop()
        assert [name for name in heard if not name.startswith("session_")] == [
            *("system_error", "container_created", "container_create_response")
        ]
        with pytest.raises(InvalidInput):
            await channel.send({"type": object()})
        await channel.disconnect()
        with pytest.raises(ChannelClosed):
            await channel.send({"type": "subscribe", "sessionId": session.session_id})
