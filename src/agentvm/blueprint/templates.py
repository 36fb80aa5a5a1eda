"""Templates — the definitions that one principal can build images from: registered ones, and agents of the resource centre."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from agentvm.blueprint.definition import Definitions, agent_definition
from agentvm.errors import DefinitionConflict, DefinitionNotFound, InvalidInput
from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import TenantId
from agentvm.model.principal import Principal
from agentvm.model.resource import SYSTEM, Resource, ResourceUri, check_name, is_reference, latest_of, parse_uri
from agentvm.resources.centre import ResourceCentre
from agentvm.storage.resources import Search

READ_PERMISSION = "resources:read"
LISTED_MAX = 1_000
"""Agents of the resource centre in one list."""
LISTED_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of the contents of those agents."""
PAGE_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """A registered definition wins over an agent of the same name."""

    principal: Principal
    tenant_id: TenantId
    definitions: Definitions
    resources: ResourceCentre

    async def list(self) -> AsyncIterator[tuple[Definition, Resource | None]]:
        """Yields each definition, with its resource if it is an agent of the resource centre."""
        names: set[str] = set()
        for definition in await self.definitions.list(self.tenant_id):
            names.add(definition.name)
            yield definition, None
        if self.principal.may(READ_PERMISSION):
            async for resource, content in self._agents():
                if resource.name not in names:
                    names.add(resource.name)
                    yield agent_definition(resource.name, content), resource

    async def get(self, name: str) -> tuple[Definition, Resource | None]:
        """Returns the definition of that name or URI. `DefinitionNotFound` or `ResourceNotFound` when there is none."""
        base = await self.find(name)
        if isinstance(base, Definition):
            return base, None
        agent = (await self.resources.resolver.find(self.tenant_id, parse_uri(base))).root
        return agent_definition(agent.resource.name, agent.content), agent.resource

    async def find(self, name: str) -> Definition | str:
        """Returns the registered definition of that name, or the URI of an agent, which a build resolves."""
        if is_reference(name):
            self.principal.require(READ_PERMISSION)
            uri = parse_uri(name)
            if uri.type != "agents":
                raise InvalidInput(f"A definition must be one of agents; {uri} is one of {uri.type}")
            return name
        try:
            return await self.definitions.get(self.tenant_id, name)
        except DefinitionNotFound:
            if not self.principal.may(READ_PERMISSION) or await self._agent_named(name) is None:
                raise
        return str(ResourceUri(type="agents", name=name))

    async def register(self, definition: Definition) -> Definition:
        """Stores the definition. `DefinitionConflict` when its name means another definition or another agent of the tenant."""
        resource = await self._agent_named(definition.name)
        if resource is not None and resource.tenant_id == self.tenant_id:
            agent = await self._latest(resource)
            if agent is None or not _same(agent, definition):
                raise DefinitionConflict(f"resource://agents/{definition.name} is another definition; choose another name")
        return await self.definitions.register(self.tenant_id, definition)

    async def _agent_named(self, name: str) -> Resource | None:
        """Returns the tenant's own agent of that name, else the server's."""
        try:
            check_name(name)
        except InvalidInput:
            return None
        return await self.resources.store.resources(self.tenant_id).find("agents", name)

    async def _agents(self) -> AsyncIterator[tuple[Resource, bytes]]:
        """Yields the tenant's own agents, then the server's, by name, with their latest content, but not withdrawn ones."""
        store, count, size = self.resources.store.resources(self.tenant_id), 0, 0
        for scope in (Search(scope="own"), Search(owner=SYSTEM)):
            search: Search | None = replace(scope, type="agents", limit=PAGE_MAX, with_content=True)
            while search is not None:
                page = await store.search(search)
                for hit in page.items:
                    count, size = count + 1, size + len(hit.content or b"")
                    if count > LISTED_MAX or size > LISTED_BYTES_MAX:
                        return
                    if hit.content is not None:
                        yield hit.resource, hit.content
                search = None if page.next is None else replace(search, after=page.next)

    async def _latest(self, resource: Resource) -> Definition | None:
        """Returns None when all versions are withdrawn, or the resource was deleted in the meantime."""
        store = self.resources.store.resources(self.tenant_id)
        version = latest_of((await store.history(resource.resource_id)).versions)
        if version is None:
            return None
        node = (await store.closure(version.version_id, limit=1)).get(version.version_id)
        return None if node is None else agent_definition(node.resource.name, node.content)


async def check_name_free(
    tenant_id: TenantId, definitions: Definitions, name: str, definition: Definition | None = None
) -> None:
    """Refuses an agent whose name is that of another registered definition with `DefinitionConflict`."""
    try:
        registered = await definitions.get(tenant_id, name)
    except DefinitionNotFound:
        return
    if definition is None or not _same(registered, definition):
        raise DefinitionConflict(f"A definition named {name!r} is registered on this server; choose another name")


def _same(definition: Definition, other: Definition) -> bool:
    return snapshot_of(definition) == snapshot_of(other)
