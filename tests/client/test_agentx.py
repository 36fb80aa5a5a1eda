from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from agentvm.client.agentx import RuntimeSource, create_agentx
from agentvm.client.remote import remote_runtime
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
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
