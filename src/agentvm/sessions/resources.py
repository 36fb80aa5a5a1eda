"""Resource library — one principal's view of the resource centre: find, register and publish within the tenant's limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentvm.blueprint.templates import check_name_free
from agentvm.model.resource import Resource, ResourceId, ResourceType
from agentvm.resources.agent import to_definition
from agentvm.resources.bundle import ImportedEntry, OnConflict, import_bundle
from agentvm.resources.kind import accept, versioned_uri
from agentvm.resources.kinds import KINDS, why_idle
from agentvm.resources.registry import Author, NewVersion, Registry, VersionChange
from agentvm.resources.resolver import VersionClosure
from agentvm.sessions.workspace import Workspace
from agentvm.storage.resources import Published
from agentvm.storage.sql.resources import ResourceStore


@dataclass(frozen=True, slots=True)
class ResourceLibrary:
    """The resources that the principal can see: those of its tenant, and public ones."""

    workspace: Workspace

    @property
    def registry(self) -> Registry:
        return self.workspace.resources.registry

    @property
    def store(self) -> ResourceStore:
        return self.workspace.resources.store.resources(self.workspace.tenant_id)

    @property
    def author(self) -> Author:
        principal = self.workspace.principal
        return Author(tenant_id=self.workspace.tenant_id, actor=principal.actor, may_publish=principal.may("resources:publish"))

    async def find(self, name: str) -> Resource:
        """Returns a resource by its id or URI."""
        return await self.registry.find(self.workspace.tenant_id, name)

    async def closure(self, resource: Resource, selector: str | None) -> VersionClosure:
        """Returns a version of a resource with everything that it is locked to."""
        return await self.workspace.resources.resolver.find(self.workspace.tenant_id, versioned_uri(resource, selector))

    async def register(self, draft: NewVersion) -> Published:
        """Registers a resource within the tenant's limits."""
        workspace = self.workspace
        if draft.type == "agents":
            content: Any = accept(KINDS["agents"], draft.content)
            definition = to_definition(draft.name, content)
            await check_name_free(workspace.tenant_id, workspace.definitions, draft.name, definition)
        quotas = workspace.tenancy.quotas
        async with quotas.adding(workspace.tenant_id, workspace.user_id, "resources", self.store.count):
            await self._check_storage()
            return await self.registry.register(self.author, draft)

    async def publish(self, resource_id: ResourceId, change: VersionChange) -> Published:
        """Publishes a version of an own resource within the tenant's limits."""
        await self._check_storage()
        return await self.registry.revise(self.author, resource_id, change)

    async def load(self, archive: bytes, on_conflict: OnConflict, *, dry_run: bool) -> list[ImportedEntry]:
        """Imports an archive within the tenant's limits; a dry run only reports what it would do."""
        workspace = self.workspace
        planned = await import_bundle(workspace.resources, self.author, archive, on_conflict=on_conflict, dry_run=True)
        if dry_run:
            return planned
        added = len({(entry.type, entry.name) for entry in planned if entry.is_new_resource})
        quotas = workspace.tenancy.quotas
        async with quotas.adding(workspace.tenant_id, workspace.user_id, "resources", self.store.count, added):
            await self._check_storage()
            return await import_bundle(workspace.resources, self.author, archive, on_conflict=on_conflict, dry_run=False)

    def warnings(self, kind: ResourceType, content: object) -> tuple[str, ...]:
        """Returns what this server does not act upon in a content that was just published."""
        tools = self.workspace.runtime.tools.names(self.workspace.tenant_id)
        reason = why_idle(kind, content, tools) if isinstance(content, Mapping) else None
        return () if reason is None else (reason,)

    async def _check_storage(self) -> None:
        await self.workspace.check_quota("storage_bytes", self.workspace.accounts.quotas.storage_bytes)
