"""One edge in miniflare for all tests of a process: starting it takes longer than most of them."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.provision import Unavailable
from tests.provision.edge import edge_tools
from tests.support.edge import EdgeServer
from tests.support.provider import ScriptedProvider


@pytest.fixture(scope="session")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeServer]:
    """The Worker, which asks for keys."""
    try:
        tools = edge_tools()
    except Unavailable as error:
        pytest.skip(f"edge Worker: {error}")
    server = EdgeServer(tools, tmp_path_factory.mktemp("edge"), LEASE_SECONDS="1", SILENCE_SECONDS="20", KEY_SECONDS="0.001")
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def provider(edge: EdgeServer) -> AsyncIterator[ScriptedProvider]:
    async with edge.provider() as provider:
        yield provider


@pytest.fixture
def url(edge: EdgeServer) -> str:
    """The address of the Worker for a tenant of the test's own."""
    return edge.new_url()
