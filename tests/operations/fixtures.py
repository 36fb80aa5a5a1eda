"""A desk — one peer of an in-memory AgentVM, asking as a client would: a frame in, its reply out."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import msgspec

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig, SessionSettings, SystemSettings
from agentvm.drivers.base import Driver
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.account import Quota
from agentvm.model.definition import Definition
from agentvm.model.ids import TenantId
from agentvm.model.limits import Compaction, Limits, MemorySettings
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.resource import ResourceType
from agentvm.model.settings import TitleSource
from agentvm.model.tool_settings import ToolSettings
from agentvm.operations.dispatch import answer, refuse_unreadable
from agentvm.operations.table import CODEC
from agentvm.protocol.connection import CommandReceived, CommandRefused, PeerConnection
from agentvm.resources.registry import Author, NewVersion, VersionChange
from agentvm.runtime.tools import Tool
from agentvm.vm import OPEN_ACCESS, AgentVM, Peer

Event = dict[str, Any]


@dataclass(slots=True)
class Desk:
    """Asks, and keeps everything it is sent."""

    vm: AgentVM
    peer: Peer
    heard: list[Event] = field(default_factory=list)

    async def ask(self, command: str, /, **data: object) -> Any:
        """The reply's data, without the request's id."""
        received = PeerConnection("c", CODEC).receive(
            json.dumps({"type": f"{command}_request", "data": {**data, "requestId": "req_1"}})
        )
        with anyio.fail_after(60):
            if isinstance(received, CommandReceived):
                await answer(self.peer, received.request, received.request_id)
            else:
                assert isinstance(received, CommandRefused)
                refuse_unreadable(self.peer, received.name, received.request_id, received.error)
        reply = next(event for event in reversed(self.hear_nowait()) if event["category"] == "response")
        assert reply["type"] == f"{command}_response"
        assert (reply["source"], reply["intent"]) == ("command", "result")
        return {name: value for name, value in reply["data"].items() if (name, value) != ("requestId", "req_1")}

    async def publish(self, kind: ResourceType, name: str, content: object, **about: Any) -> str:
        """A resource of the peer's tenant, or the next version of it; the version."""
        registry = self.vm.resources.registry
        author = Author(tenant_id=self.peer.tenant_id, actor="a", may_publish=True)
        found = await self.vm.resources.store.resources(self.peer.tenant_id).find(kind, name)
        if found is None or found.tenant_id != self.peer.tenant_id:
            return (await registry.register(author, NewVersion(type=kind, name=name, content=content, **about))).version.version
        return (await registry.revise(author, found.resource_id, VersionChange(content=content, **about))).version.version

    async def create_image(self, container_id: str = "c1", **config: object) -> Any:
        return (await self.ask("image_create", containerId=container_id, config=config))["record"]

    async def limit(self, metric: str, hard: int) -> None:
        """For the whole tenant, from now on."""
        await self.peer.workspace.accounts.quotas.put(Quota(metric=metric, hard=hard), 1)
        await self.vm.tenancy.quotas.reread(self.peer.tenant_id)

    def hear_nowait(self) -> list[Event]:
        self.heard += [msgspec.json.decode(frame.bare) for frame in self.peer.channel.take_nowait()]
        return self.heard

    async def hear(self, kind: str, times: int = 1) -> list[Event]:
        """Everything heard so far, once that event was heard that many times."""
        with anyio.fail_after(60):
            while self.types().count(kind) < times:
                self.heard += [msgspec.json.decode(frame.bare) for frame in await self.peer.channel.take()]
        return self.heard

    def types(self) -> list[str]:
        return [event["type"] for event in self.heard]

    def forget(self) -> None:
        self.hear_nowait()
        self.heard.clear()

    def another(self, tenant: str | None = None) -> "Desk":
        """Another peer of the same AgentVM."""
        principal = OPEN_ACCESS if tenant is None else Principal(tenant_id=TenantId(tenant), permissions=EVERYTHING)
        return Desk(self.vm, self.vm.attach(principal))


async def ask_at_once(asked: Sequence[tuple[Desk, str, dict[str, object]]]) -> list[str]:
    """Each desk its own question, all at the same time; the codes of those that were refused."""
    refused: list[str] = []

    async def ask(desk: Desk, command: str, data: dict[str, object]) -> None:
        reply = await desk.ask(command, **data)
        if "errorCode" in reply:
            refused.append(reply["errorCode"])

    async with anyio.create_task_group() as tasks:
        for one in asked:
            tasks.start_soon(ask, *one)
    return refused


class Vanishing:
    """A tenant's store in which things are still found, but gone once they are touched."""

    def __init__(self, inner: Any, *, without_images: bool = True) -> None:
        self._inner, self._without_images = inner, without_images

    def container(self, container_id: str) -> Any:
        return Vanishing(self._inner.container(container_id), without_images=self._without_images)

    async def get_image(self, image_id: str) -> Any:
        return None if self._without_images else await self._inner.get_image(image_id)

    async def update_image(self, image_id: str, **changes: object) -> None:
        return None

    async def set_title(self, session_id: str, title: str | None, now: int) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@asynccontextmanager
async def open_desk(
    driver: Driver | None = None,
    *,
    definitions: Sequence[Definition] = (),
    limits: Limits | None = None,
    compaction: Compaction | None = None,
    titles: TitleSource = "off",
    memory: MemorySettings | None = None,
    tools: Sequence[Tool] = (),
    tool_settings: ToolSettings | None = None,
) -> AsyncIterator[Desk]:
    numbers = iter(range(1_000, 1_000_000))
    config = ServerConfig(
        system=SystemSettings(data_dir=MEMORY),
        sessions=SessionSettings(titles=titles),
        limits=limits or Limits(),
        compaction=compaction or Compaction(),
        memory=memory or MemorySettings(),
        tools=tool_settings or ToolSettings(),
    )
    drivers = {"scripted": driver or ScriptedDriver()}
    clock = partial(next, numbers)
    async with open_agentvm(config, definitions=definitions, drivers=drivers, tools=tools, clock=clock) as vm:
        yield Desk(vm, vm.attach())
