"""A socket over HTTP whose requests reach different nodes, as behind a load balancer."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import httpx2
import pytest
from tests.cluster.conftest import LEASE_SECONDS
from tests.server.test_http_socket import parsed

from agentvm.server.serving import Listener
from agentvm.vm import AgentVM

LIST = {"type": "image_list_request", "data": {"requestId": "r1"}}

Clients = tuple[httpx2.AsyncClient, httpx2.AsyncClient]


@pytest.fixture
async def clients(nodes: tuple[AgentVM, AgentVM]) -> AsyncIterator[Clients]:
    """A client of each node."""
    async with AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(Listener(node).listen("127.0.0.1", 0)) for node in nodes]
        here, there = [
            await stack.enter_async_context(
                httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60)
            )
            for port in ports
        ]
        yield here, there


async def test_frames_that_reach_another_node_are_handed_on_to_their_socket(clients: Clients) -> None:
    here, there = clients
    with anyio.fail_after(3 * LEASE_SECONDS):
        async with here.stream("POST", "/ws") as response:
            events = parsed(response)
            link = (await anext(events))[1]["link"]
            for client in (there, here, there):
                assert (await client.post(f"/ws/{link}", content=json.dumps(LIST))).status_code == 204
            listed = 0
            while listed < 3:
                listed += (await anext(events))[1].get("type") == "image_list_response"
        for unknown in (f"{link}x", "99.unknown", "unknown", "²." + link):
            assert (await there.post(f"/ws/{unknown}", content=json.dumps(LIST))).status_code == 404
