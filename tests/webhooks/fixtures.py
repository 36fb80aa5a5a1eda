"""A receiver of webhooks on this machine, and a server that may reach it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import msgspec
from tests.support.serving import Served, serving
from tests.support.web import Asked, Replied, Web, web

from agentvm.drivers.scripted import Script, echo
from agentvm.model.tool_settings import ToolNetwork, ToolSettings

LOCAL = ToolSettings(network=ToolNetwork(allow=("127.0.0.0/8",)))


class Receiver:
    """Answers with `statuses` in turn, then with 204; `got` are the requests."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)
        self.got: list[Asked] = []
        self._came = anyio.Event()

    def reply(self, asked: Asked) -> Replied:
        self.got.append(asked)
        self._came.set()
        return Replied(self._statuses.pop(0) if self._statuses else 204)

    async def wait(self, count: int) -> list[Asked]:
        with anyio.fail_after(60):
            while len(self.got) < count:
                self._came = anyio.Event()
                await self._came.wait()
        return self.got

    @property
    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(asked.body) for asked in self.got]


@asynccontextmanager
async def hooked(script: Script = echo, receiver: Receiver | None = None, **about: Any) -> AsyncIterator["Hooked"]:
    """A server on a socket without authentication, a receiver, and a client of the management API."""
    receiver = receiver or Receiver()
    async with (
        web(receiver.reply) as site,
        serving(script, tools=LOCAL, **about) as served,
        httpx2.AsyncClient(base_url=served.http, timeout=60, trust_env=False) as client,
    ):
        yield Hooked(receiver, site, served, client)


class Hooked:
    """A server and its receiver."""

    def __init__(self, receiver: Receiver, site: Web, served: Served, client: httpx2.AsyncClient) -> None:
        self.receiver, self.site, self.served, self._client = receiver, site, served, client

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        response = await self._client.request(method, path, json=body)
        assert response.is_success, response.text
        return response.json() if response.content else None

    async def create(self, *events: str) -> dict[str, Any]:
        made: dict[str, Any] = await self.ask("POST", "/v1/webhooks", {"url": self.site.url("/hook"), "events": events})
        return made
