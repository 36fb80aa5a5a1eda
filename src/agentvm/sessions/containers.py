"""Containers — show a container, measure its content, delete it.

A container is deleted permanently. An administrator of the tenant and a key without a user may delete any container that they
may use; another user only a container that no other user is bound to.
"""

from dataclasses import dataclass

from agentvm.errors import AccessDenied, ContainerNotFound, QuotaExceeded
from agentvm.events.lifecycle import ContainerCreated, ContainerDeleted
from agentvm.model.container import Container
from agentvm.model.ids import ContainerId, UserId
from agentvm.protocol.records import OwnedRecord
from agentvm.runtime.agent import Agent
from agentvm.sessions.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Containers:
    """The containers in the workspace."""

    workspace: Workspace

    async def ensure(self, container_id: ContainerId) -> None:
        """Creates the container if there is none."""
        workspace = self.workspace
        container = workspace.store.container(container_id)
        if await container.get() is not None:
            return
        now, quotas, count = workspace.clock(), workspace.tenancy.quotas, workspace.accounts.quotas.count_containers
        try:
            async with quotas.adding(workspace.tenant_id, workspace.user_id, "containers", count):
                created = await container.create(now)
        except QuotaExceeded:
            # The last one that may be may be this very container, if somebody else has just created it.
            if await container.get() is None:
                raise
            return
        if created:
            workspace.announce(container_id, None, ContainerCreated(container_id=container_id, created_at=now))

    async def get(self, container_id: ContainerId) -> Container:
        container = await self.workspace.store.container(container_id).get()
        if container is None:
            raise ContainerNotFound(container_id)
        return container

    async def weigh(self, container_id: ContainerId) -> OwnedRecord:
        """Returns the amount of data that would be deleted with the container."""
        await self.get(container_id)
        owned = await self.workspace.tenancy.store.erasing.weigh(self.workspace.tenant_id, container_id=container_id)
        if owned is None:
            raise ContainerNotFound(container_id)
        return owned

    async def delete(self, container_id: ContainerId) -> None:
        """Deletes the container at once; its contents are erased in the background."""
        await self.get(container_id)
        await self._check_alone(container_id)
        # Those that begin after this are stopped before the contents are erased.
        await self.workspace.stop_elsewhere(container_id=container_id)
        now = self.workspace.clock()
        unbound = await self.workspace.tenancy.store.erasing.delete_container(self.workspace.tenant_id, container_id, now)
        if unbound is None:
            raise ContainerNotFound(container_id)
        self.workspace.tenancy.people.erase()
        for user_id in unbound:
            self.workspace.tenancy.people.unbound(self.workspace.tenant_id, user_id)
        await self._stop_agents(container_id)
        self.workspace.announce(container_id, None, ContainerDeleted(container_id=container_id, deleted_at=now))

    async def _stop_agents(self, container_id: ContainerId) -> None:
        roster = self.workspace.runtime.roster
        for named in roster.of_container(self.workspace.tenant_id, container_id):
            # Looked up again: while one was being stopped, another may have fallen asleep or woken up.
            present = roster.find(self.workspace.tenant_id, named.agent_id)
            if isinstance(present, Agent):
                await self.workspace.runtime.stop_agent(present)
            elif present is not None:
                roster.remove(present)

    async def _check_alone(self, container_id: ContainerId) -> None:
        """Refuses a user who shares the container with others."""
        user_id: UserId | None = self.workspace.principal.user_id
        if user_id is None or self.workspace.principal.may("tenants:admin"):
            return
        if container_id not in await self.workspace.tenancy.store.accounts(self.workspace.tenant_id).users.only_member_of(
            user_id
        ):
            raise AccessDenied("Other users are bound to this container; only an administrator of the tenant may delete it")
