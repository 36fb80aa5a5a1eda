"""Resource library — one principal's view of the resource centre: find, register and publish within the tenant's limits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import anyio.to_thread
import msgspec

from agentvm.blueprint.templates import check_name_free
from agentvm.errors import InvalidInput
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.collection import parse_reference
from agentvm.model.knowledge import NO_EMBEDDER
from agentvm.model.resource import Resource, ResourceType, ResourceUri
from agentvm.model.semver import Bump
from agentvm.resources.agent import to_definition
from agentvm.resources.archive import Bundle, read_archive
from agentvm.resources.bundle import ImportedEntry, OnConflict, export_bundle, import_bundle
from agentvm.resources.kind import accept, versioned_uri
from agentvm.resources.kinds import KINDS, why_idle
from agentvm.resources.knowledge import mode_of
from agentvm.resources.registry import Author, NewVersion, Registry, VersionChange
from agentvm.resources.resolver import VersionClosure
from agentvm.resources.tool import SETS
from agentvm.resources.tool_set import ToolChange, names_source
from agentvm.sessions.published_tool import check_published
from agentvm.sessions.saved_collections import SavedCollections
from agentvm.sessions.workspace import Workspace
from agentvm.storage.resources import Published
from agentvm.storage.sql.resources import ResourceStore
from agentvm.tools.base import Caller
from agentvm.tools.sets import FrozenSet, compare

Warned = tuple[str, ...]
"""Sentences about parts of a published content that this server does not act upon."""


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

    async def register(self, draft: NewVersion, *, dry_run: bool = False) -> tuple[Published, Warned]:
        """Registers a resource within the tenant's limits; a dry run only checks it."""
        workspace = self.workspace
        await self._check_knowledge(draft.type, draft.content)
        frozen = await self._freeze(draft.type, draft.content)
        draft = replace(draft, content=frozen.content)
        if draft.type == "agents":
            content: Any = accept(KINDS["agents"], draft.content)
            definition = to_definition(draft.name, content)
            await check_name_free(workspace.tenant_id, workspace.definitions, draft.name, definition)
        quotas = workspace.tenancy.quotas
        async with quotas.adding(workspace.tenant_id, workspace.user_id, "resources", self.store.count):
            await self._check_storage()
            published = await self.registry.register(self.author, draft, dry_run=dry_run)
        return published, (*self._idle(draft.type, draft.content), *frozen.notes)

    async def publish(self, resource: Resource, change: VersionChange, *, dry_run: bool = False) -> tuple[Published, Warned]:
        """Publishes a version of an own resource within the tenant's limits; a dry run only checks it."""
        await self._check_storage()
        await self._check_knowledge(resource.type, change.content)
        frozen = await self._freeze(resource.type, change.content)
        change = replace(change, content=frozen.content)
        published = await self.registry.revise(self.author, resource.resource_id, change, dry_run=dry_run)
        return published, (*self._idle(resource.type, change.content), *frozen.notes)

    async def pin(
        self, resource: Resource, bump: Bump, *, dry_run: bool
    ) -> tuple[Published | None, tuple[ToolChange, ...], Warned]:
        """Reads the tools of a set from its source again, and publishes a version with them if they have changed."""
        closure = await self.closure(resource, None)
        before = msgspec.json.decode(closure.root.content)
        if resource.type != "tools" or before.get("runtime") not in SETS:
            raise InvalidInput("Only a set of tools, with the runtime openapi or mcp, is pinned")
        after = {name: value for name, value in before.items() if name not in ("frozen", "pin")}
        frozen = await self._freeze("tools", after)
        after = dict(frozen.content)
        if pinned := {name: after["frozen"][name]["pin"] for name in before.get("pin") or {} if name in after["frozen"]}:
            after["pin"] = pinned
        changes = compare(before, after)
        if dry_run or all(change.change == "same" for change in changes):
            return None, changes, frozen.notes
        revision = VersionChange(content=after, bump=bump, expected=closure.root.version.digest)
        published, warned = await self.publish(resource, revision)
        return published, changes, (*warned, *frozen.notes)

    async def _check_knowledge(self, kind: ResourceType, content: Any) -> None:
        """Refuses a knowledge base that names a collection which is not there, or a search that this server does not have."""
        if kind != "knowledge" or not isinstance(content, Mapping):
            return
        named: Any = accept(KINDS["knowledge"], content)
        if (mode := mode_of(named.retrieval)) != "words":
            if self.workspace.runtime.settings_of(self.workspace.tenant_id).tools.embedder.model is None:
                raise ResourceInvalid(f"retrieval.mode: {mode} {NO_EMBEDDER}")
        if named.collection is None:
            return
        collection_id, revision = parse_reference(named.collection)
        collection = await self.workspace.resources.store.collections(self.workspace.tenant_id).get(collection_id)
        if collection is None or not collection.oldest <= revision <= collection.revision:
            there = "" if collection is None else f"; it has the revisions {max(collection.oldest, 1)} to {collection.revision}"
            raise ResourceInvalid(f"collection: there is no {named.collection}{there}")

    async def _freeze(self, kind: ResourceType, content: Any) -> FrozenSet:
        """Returns the content as it is stored: that of a set of tools with its tools. Refuses members without effect."""
        if kind == "tools" and isinstance(content, Mapping):
            check_published(content, self.workspace.runtime.tools.of_spec)
        if kind != "tools" or not names_source(content):
            return FrozenSet(content)
        if self.workspace.tool_sets is None:
            raise InvalidInput("This server does not read sets of tools")
        return await self.workspace.tool_sets.freeze(content, Caller(self.workspace.tenant_id, self.workspace.user_id or ""))

    async def load(self, archive: bytes | Bundle, on_conflict: OnConflict, *, dry_run: bool = False) -> list[ImportedEntry]:
        """Imports an archive within the tenant's limits; a dry run only reports the changes."""
        workspace, saved = self.workspace, SavedCollections(self.workspace)
        bundle = archive if isinstance(archive, Bundle) else await anyio.to_thread.run_sync(read_archive, archive)
        planned = await import_bundle(workspace.resources, self.author, bundle, on_conflict=on_conflict, dry_run=True)
        absent = await saved.check(bundle.collections)
        if dry_run:
            return planned
        added = len({(entry.type, entry.name) for entry in planned if entry.is_new_resource})
        quotas = workspace.tenancy.quotas
        async with quotas.adding(workspace.tenant_id, workspace.user_id, "resources", self.store.count, added):
            await self._check_storage()
            async with saved.adding(absent, bundle.blobs):
                return await import_bundle(workspace.resources, self.author, bundle, on_conflict=on_conflict, dry_run=False)

    async def export(self, uri: ResourceUri, *, deps: bool = True, documents: bool = True) -> bytes:
        """Returns an archive of a version, with those that it is locked to, and with the documents of its collections."""
        collections = SavedCollections(self.workspace).save if documents else None
        centre, tenant_id = self.workspace.resources, self.workspace.tenant_id
        return await export_bundle(centre, tenant_id, uri, deps=deps, collections=collections)

    def _idle(self, kind: ResourceType, content: object) -> Warned:
        tools = self.workspace.runtime.tools.names(self.workspace.tenant_id)
        reason = why_idle(kind, content, tools) if isinstance(content, Mapping) else None
        return () if reason is None else (reason,)

    async def _check_storage(self) -> None:
        await self.workspace.check_quota("storage_bytes", self.workspace.accounts.quotas.storage_bytes)
