"""Workspace — one principal at work in one tenant: the store it may use, and the parts of the server that use cases need."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agentvm.blueprint.builder import ImageBuilder
from agentvm.blueprint.definition import Definitions
from agentvm.blueprint.templates import Templates
from agentvm.errors import ContainerForbidden, ImageNotFound, InvalidInput, SessionNotFound
from agentvm.events.base import EventData, EventScope
from agentvm.model.ids import Clock, ContainerId, ImageId, NewId, SessionId, TenantId, UserId, check_container_id
from agentvm.model.image import Image
from agentvm.model.node import TurnScope
from agentvm.model.principal import Principal
from agentvm.model.session import Session
from agentvm.resources.centre import ResourceCentre
from agentvm.runtime.runtime import Runtime
from agentvm.sessions.compaction import Compactor
from agentvm.storage.sql.accounts import Accounts
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.store import TenantStore
from agentvm.tenants.tenancy import Tenancy
from agentvm.tools.base import Caller
from agentvm.tools.sets import ToolSets


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """`store` is limited to the containers of `tenant_id` that the principal may use."""

    store: TenantStore
    principal: Principal
    tenant_id: TenantId
    runtime: Runtime
    definitions: Definitions
    resources: ResourceCentre
    tenancy: Tenancy
    clock: Clock
    new_id: NewId
    compactor: Compactor | None = None
    tool_sets: ToolSets | None = None

    @property
    def user_id(self) -> UserId | None:
        return self.principal.user_id

    @property
    def accounts(self) -> Accounts:
        return self.tenancy.store.accounts(self.tenant_id)

    @property
    def templates(self) -> Templates:
        return Templates(
            principal=self.principal, tenant_id=self.tenant_id, definitions=self.definitions, resources=self.resources
        )

    @property
    def builder(self) -> ImageBuilder:
        return ImageBuilder(
            principal=self.principal,
            tenant_id=self.tenant_id,
            resources=self.resources,
            models=self.runtime.models,
            own_keys=self.tenancy.own_keys,
            tools=self.runtime.tools.names(self.tenant_id),
            missing=self.runtime.tools.missing,
            tools_of_servers=self._tools_of_servers,
        )

    async def _tools_of_servers(self, servers: Mapping[str, object]) -> tuple[tuple[dict[str, object], ...], tuple[str, ...]]:
        if self.tool_sets is None:
            raise InvalidInput("This server calls no MCP servers")
        return await self.tool_sets.unpinned(servers, Caller(self.tenant_id, self.user_id or ""))

    def container_id(self, name: str) -> ContainerId:
        """Returns the id that a request names, whether or not the container exists. `ContainerForbidden` for others' names."""
        container_id = check_container_id(name)
        if not self.principal.reaches(container_id):
            raise ContainerForbidden(container_id)
        return container_id

    async def find_image(self, image_id: ImageId) -> tuple[ContainerStore, Image] | None:
        container_id = await self.store.find_image(image_id)
        if container_id is None:
            return None
        container = self.store.container(container_id)
        image = await container.get_image(image_id)
        return None if image is None else (container, image)

    async def image(self, image_id: ImageId) -> tuple[ContainerStore, Image]:
        """Returns the image and the store of its container."""
        image = await self.find_image(image_id)
        if image is None:
            raise ImageNotFound(image_id)
        return image

    async def find_session(self, session_id: SessionId) -> tuple[ContainerStore, Session] | None:
        container_id = await self.store.find_session(session_id)
        if container_id is None:
            return None
        container = self.store.container(container_id)
        session = await container.get_session(session_id)
        return None if session is None else (container, session)

    async def session(self, session_id: SessionId) -> tuple[ContainerStore, Session]:
        """Returns the session and the store of its container."""
        session = await self.find_session(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        return session

    async def check_quota(self, metric: str, count: Callable[[], Awaitable[int]], adding: int = 1) -> None:
        """Refuses with `QuotaExceeded` when there may not be this many more; counts only if there is a limit."""
        await self.tenancy.quotas.check(self.tenant_id, self.user_id, metric, count, adding)

    async def check_storage(self, size: int) -> None:
        """Refuses with `QuotaExceeded` when this many more bytes may not be stored."""
        await self.tenancy.admit_bytes(self.tenant_id, self.user_id, size)

    async def free_storage(self, size: int) -> None:
        """Takes this many bytes off the count, because they were deleted or not stored after all."""
        await self.tenancy.quotas.count(self.tenant_id, self.user_id, "storage_bytes", -size)

    async def stop_elsewhere(
        self,
        *,
        container_id: ContainerId | None = None,
        image_id: ImageId | None = None,
        session_id: SessionId | None = None,
    ) -> None:
        """Stops these turns on the other nodes of a cluster; `NodeSilent` if some go on."""
        containers = None if container_id is None else (container_id,)
        scope = TurnScope(tenant_id=self.tenant_id, container_ids=containers, image_id=image_id, session_id=session_id)
        await self.runtime.stop_elsewhere(scope)

    def announce(self, container_id: ContainerId, image_id: ImageId | None, event: EventData) -> None:
        """Sends the event to every connection that works with the container."""
        self.runtime.broadcast(self.tenant_id, EventScope(container_id=container_id, image_id=image_id), event)
