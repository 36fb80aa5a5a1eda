"""The socket over HTTP: the same frames as over a WebSocket, and nobody else's."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from tests.server.test_authentication import Site, bearer, open_site

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.server import http_socket
from agentvm.server.http_socket import HttpLink
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.reservation import ConnectionReservation
from agentvm.vm import OPEN_ACCESS

LIST = {"type": "image_list_request", "data": {"requestId": "r1"}}


@dataclass
class Client:
    """One socket over HTTP."""

    http: httpx2.AsyncClient
    events: AsyncIterator[tuple[str, Any]]
    link: str

    async def send(self, *frames: object, key: str | None = None) -> int:
        body = "\n".join(json.dumps(frame) for frame in frames)
        headers = {} if key is None else bearer(key)
        return (await self.http.post(f"/ws/{self.link}", content=body, headers=headers)).status_code

    async def until(self, kind: str) -> Any:
        """Returns the first frame of a type, or the event of that name."""
        with anyio.fail_after(60):
            async for name, data in self.events:
                if kind in (name, data.get("type")):
                    return data
        raise AssertionError(f"the stream ended without {kind}")


async def parsed(response: httpx2.Response) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
            name = ""


@asynccontextmanager
async def opened(site: Site, key: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(base_url=site.server.url, headers=bearer(key), timeout=60) as http,
        http.stream("POST", "/ws") as response,
    ):
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        client = Client(http, parsed(response), "")
        client.link = (await client.until("link"))["link"]
        yield client


async def test_frames_go_as_requests_and_come_as_events() -> None:
    async with open_site() as site:
        before = len(site.vm.runtime.broadcaster.channels)
        async with opened(site, site.operator) as client:
            assert (
                await client.send({"type": "image_create_request", "data": {"requestId": "r0", "containerId": "home"}}, LIST)
                == 204
            )
            made = await client.until("image_create_response")
            listed = await client.until("image_list_response")
            assert [image["imageId"] for image in listed["data"]["records"]] == [made["data"]["record"]["imageId"]]
            # A text that is no frame is answered as over a WebSocket, and what JSON holds is no end of a line.
            await client.http.post(f"/ws/{client.link}", content="nonsense \u2028\n".encode())
            assert (await client.until("system_error"))["type"] == "system_error"
            assert len(site.vm.runtime.broadcaster.channels) == before + 1
        with anyio.fail_after(60):
            while len(site.vm.runtime.broadcaster.channels) > before:  # Nothing tells when a peer has gone.
                await anyio.lowlevel.checkpoint()


async def test_a_link_is_its_owners_alone() -> None:
    async with open_site() as site:
        _, other = await site.key()
        async with opened(site, site.operator) as client:
            async with httpx2.AsyncClient(base_url=site.server.url, timeout=60) as stranger:
                frame = json.dumps(LIST)
                for link, headers in ((client.link, bearer(other)), ("unknown", bearer(site.operator))):
                    assert (await stranger.post(f"/ws/{link}", content=frame, headers=headers)).status_code == 404
                assert (await stranger.post(f"/ws/{client.link}", content=frame)).status_code == 401
                assert (await stranger.post("/ws")).status_code == 401
            assert await client.send(LIST) == 204


async def test_a_revoked_key_ends_its_socket_with_the_reason() -> None:
    async with open_site() as site:
        key_id, key = await site.key()
        async with opened(site, key) as client:
            await client.send(LIST)
            await client.until("image_list_response")
            async with httpx2.AsyncClient(base_url=site.server.url, headers=bearer(site.operator), timeout=60) as http:
                reply = await http.delete(f"/v1/auth/keys/{key_id}", params={"tenant": "acme"})
                assert reply.status_code in (200, 204), reply.text
            assert (await client.until("close"))["code"] == 4401


async def test_frames_that_nobody_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_socket, "WAITING_MAX_BYTES", 10)
    link = HttpLink(OPEN_ACCESS, ConnectionReservation(ByteBudget(1), TenantId("default")))
    link.put('{"a": 1}')
    with pytest.raises(ServerBusy):
        link.put('{"b": 2}')
    assert (await link.receive())["type"] == "websocket.connect"
    assert (await link.receive())["text"] == '{"a": 1}'
    # What was taken counts until its reader comes for the next one.
    link.inbox.recount()
    link.put('{"b": 2}')
