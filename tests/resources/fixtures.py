"""A resource centre over a real store, two tenants that write to it, and short ways to say what they write."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from agentvm.model.account import Tenant
from agentvm.model.ids import TenantId
from agentvm.model.resource import ResourceId, ResourceType, Visibility
from agentvm.resources.centre import ResourceCentre, make_centre
from agentvm.resources.registry import Author, NewVersion, VersionChange
from agentvm.resources.resolver import Resolved
from agentvm.storage.engine import open_store
from agentvm.storage.resources import Published
from agentvm.storage.sql.resources import ResourceStore

ACME, BOLT = TenantId("ten_acme"), TenantId("ten_bolt")


@dataclass(slots=True)
class Clock:
    now: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@dataclass(slots=True)
class World:
    centre: ResourceCentre
    clock: Clock
    acme: Author = field(default_factory=lambda: Author(tenant_id=ACME, actor="ann", may_publish=True))
    bolt: Author = field(default_factory=lambda: Author(tenant_id=BOLT, actor="bob", may_publish=True))

    async def prompt(
        self,
        name: str,
        text: str = "Hello.",
        *,
        by: Author | None = None,
        version: str | None = None,
        visibility: Visibility | None = None,
        **more: Any,
    ) -> Published:
        draft = NewVersion(type="prompts", name=name, content={"text": text}, version=version, visibility=visibility, **more)
        return await self.centre.registry.register(by or self.acme, draft)

    async def add(
        self, kind: ResourceType, name: str, content: Mapping[str, object], *, by: Author | None = None, **more: Any
    ) -> Published:
        return await self.centre.registry.register(by or self.acme, NewVersion(type=kind, name=name, content=content, **more))

    async def revise(self, resource_id: ResourceId, text: str, *, by: Author | None = None, **more: Any) -> Published:
        return await self.centre.registry.revise(by or self.acme, resource_id, VersionChange(content={"text": text}, **more))

    async def resolve(self, uri: str, *, by: Author | None = None, **more: Any) -> Resolved:
        return await self.centre.resolver.resolve((by or self.acme).tenant_id, uri, **more)

    def view(self, author: Author | None = None) -> ResourceStore:
        return self.centre.store.resources((author or self.acme).tenant_id)


@asynccontextmanager
async def open_world(path: Path | None = None) -> AsyncIterator[World]:
    clock, numbers = Clock(), count(1)
    async with open_store(path) as store:
        for tenant_id, slug in ((ACME, "acme"), (BOLT, "bolt")):
            if await store.directory.get_tenant(tenant_id) is None:
                made = Tenant(tenant_id=tenant_id, slug=slug, name=slug, created_at=clock.now, updated_at=clock.now)
                await store.directory.add_tenant(made)
        yield World(make_centre(store, clock, lambda prefix: f"{prefix}_{next(numbers)}"), clock)
