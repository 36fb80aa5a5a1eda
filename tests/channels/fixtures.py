"""A server with a channel, and what every fake platform of the tests does."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
from tests.support.serving import Play, Served, serving

from agentvm import Definition
from agentvm.drivers.scripted import Script
from agentvm.model.tool_settings import ToolNetwork, ToolSettings

LOOPBACK = ToolSettings(network=ToolNetwork(allow=("127.0.0.0/8",)))
SECONDS = 60


@dataclass(slots=True)
class Office:
    """The administrator of a tenant, at the HTTP interface of a server."""

    served: Served
    http: httpx2.AsyncClient

    async def call(self, method: str, path: str, body: object = None) -> Any:
        reply = await self.http.request(method, f"/v1{path}", json=body)
        assert reply.status_code < 400, reply.text
        return reply.json() if reply.content else None

    async def connect(self, kind: str, secrets: dict[str, str], settings: dict[str, str], **about: Any) -> Any:
        """Creates a channel, with its secrets stored first."""
        for name, value in secrets.items():
            await self.call("PUT", f"/secrets/{kind}.{name}", {"value": value})
        named = {**settings, **{name: f"{kind}.{name}" for name in secrets}}
        return await self.call(
            "POST", "/channels", {"name": "bot", "kind": kind, "agent": "default", "settings": named, **about}
        )

    async def hook(self, headers: Mapping[str, str], body: bytes) -> httpx2.Response:
        """Calls the channel as its platform does."""
        path = urlsplit((await self.channel())["status"]["hook"]).path
        return await self.http.post(path, content=body, headers=dict(headers))

    async def channel(self) -> Any:
        return (await self.call("GET", "/channels"))["items"][0]

    async def until(self, is_so: Callable[[Any], bool]) -> Any:
        """Waits until the first channel is so."""
        with anyio.fail_after(SECONDS):
            while True:
                channel = await self.channel()
                if is_so(channel):
                    return channel
                await anyio.sleep(0.02)


@asynccontextmanager
async def office(
    script: Script | None = None,
    data_dir: Path | None = None,
    tools: ToolSettings = LOOPBACK,
    definitions: Sequence[Definition] = (),
    public_url: str | None = None,
) -> AsyncIterator[Office]:
    about: dict[str, Any] = {"data_dir": data_dir, "tools": tools, "definitions": definitions, "public_url": public_url}
    async with serving(script or Play(), **about) as served:
        async with httpx2.AsyncClient(base_url=served.http, timeout=SECONDS) as http:
            yield Office(served, http)


class Seen:
    """What a fake platform has received; a test waits until it has seen something."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._more = anyio.Event()

    def add(self, item: Any) -> None:
        self.items.append(item)
        self._more.set()
        self._more = anyio.Event()

    async def wait(self, is_so: Callable[[list[Any]], Any]) -> Any:
        with anyio.fail_after(SECONDS):
            while not (found := is_so(self.items)):
                await self._more.wait()
        return found
