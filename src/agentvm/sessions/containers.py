"""Containers — show a container, weigh what it holds, delete it.

A container is deleted for good. An administrator of the tenant and a key without a user may delete any container that they
may use; another user only a container that nobody else is bound to.
"""

from dataclasses import dataclass

import msgspec

from agentvm.errors import AccessDenied, ContainerNotFound
from agentvm.events.base import EventScope
from agentvm.events.lifecycle import ContainerDeleted
from agentvm.model.container import Container
from agentvm.model.ids import Clock, ContainerId, TenantId, UserId
from agentvm.model.principal import Principal
from agentvm.protocol.records import OwnedRecord
from agentvm.runtime.agent import Agent
from agentvm.runtime.runtime import Runtime
from agentvm.storage.base import TenantStore
from agentvm.storage.erasing import Owned
from agentvm.tenants.tenancy import Tenancy


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """The containers of `tenant_id` that one principal may use. `store` is limited to them."""

    store: TenantStore
    principal: Principal
    tenant_id: TenantId
    runtime: Runtime
    tenancy: Tenancy
    clock: Clock

    async def get(self, container_id: ContainerId) -> Container:
        found = await self.store.container(container_id).get()
        if found is None:
            raise ContainerNotFound(container_id)
        return found

    async def weigh(self, container_id: ContainerId) -> OwnedRecord:
        """Returns what would be deleted with the container."""
        await self.get(container_id)
        owned = await self.tenancy.store.erasing.weigh(self.tenant_id, container_id=container_id)
        if owned is None:
            raise ContainerNotFound(container_id)
        return shown(owned)

    async def delete(self, container_id: ContainerId) -> None:
        """Deletes the container for everybody at once; its contents are erased in the background."""
        await self.get(container_id)
        await self._check_alone(container_id)
        now = self.clock()
        unbound = await self.tenancy.store.erasing.delete_container(self.tenant_id, container_id, now)
        if unbound is None:
            raise ContainerNotFound(container_id)
        self.tenancy.people.erase()
        for user_id in unbound:
            self.tenancy.people.unbound(self.tenant_id, user_id)
        await self._stop_agents(container_id)
        told = ContainerDeleted(container_id=container_id, deleted_at=now)
        self.runtime.tell(self.tenant_id, EventScope(container_id=container_id), told)

    async def _stop_agents(self, container_id: ContainerId) -> None:
        roster = self.runtime.roster
        for named in roster.of_container(self.tenant_id, container_id):
            # Looked up again: while one was being stopped, another may have fallen asleep or woken up.
            present = roster.find(self.tenant_id, named.agent_id)
            if isinstance(present, Agent):
                await self.runtime.stop_agent(present)
            elif present is not None:
                roster.remove(present)

    async def _check_alone(self, container_id: ContainerId) -> None:
        """Refuses a user who shares the container with others."""
        user_id: UserId | None = self.principal.user_id
        if user_id is None or self.principal.may("tenants:admin"):
            return
        if container_id not in await self.tenancy.store.accounts(self.tenant_id).users.alone_in(user_id):
            raise AccessDenied("Other users are bound to this container; only an administrator of the tenant may delete it")


def shown(owned: Owned) -> OwnedRecord:
    return msgspec.convert(owned, OwnedRecord, from_attributes=True)
