"""Container commands — a user's isolation boundary."""

from agentvm.commands.call import Call
from agentvm.events.base import EventScope
from agentvm.events.lifecycle import ContainerCreated
from agentvm.model.ids import ContainerId
from agentvm.protocol import commands as ask
from agentvm.sessions.containers import Containers


async def create(call: Call, command: ask.ContainerCreate) -> ask.ContainerIdReply:
    container_id = await ensure(call, command.container_id)
    return ask.ContainerIdReply(container_id=container_id)


async def get(call: Call, command: ask.ContainerGet) -> ask.ContainerGetReply:
    container_id = call.container_id(command.container_id)
    found = await call.peer.store.container(container_id).get()
    if found is None:
        return ask.ContainerGetReply(exists=False)
    call.peer.join(container_id)
    return ask.ContainerGetReply(exists=True, container_id=container_id)


async def list_all(call: Call, command: ask.ContainerList) -> ask.ContainerListReply:
    found, next_cursor = await call.peer.store.page_containers(command.cursor, command.limit)
    return ask.ContainerListReply(container_ids=found, next_cursor=next_cursor)


async def delete(call: Call, command: ask.ContainerDelete) -> ask.ContainerDeleteReply:
    container_id, peer = call.container_id(command.container_id), call.peer
    containers = Containers(
        store=peer.store,
        principal=peer.principal,
        tenant_id=peer.tenant_id,
        runtime=peer.vm.runtime,
        tenancy=peer.vm.tenancy,
        clock=peer.vm.clock,
    )
    if command.dry_run:
        return ask.ContainerDeleteReply(container_id=container_id, deleted=False, owned=await containers.weigh(container_id))
    await containers.delete(container_id)
    return ask.ContainerDeleteReply(container_id=container_id, deleted=True)


async def ensure(call: Call, wanted: str) -> ContainerId:
    """Get-or-create; the peer hears of the container from now on, its creation included."""
    container_id = call.container_id(wanted)
    peer = call.peer
    container = peer.store.container(container_id)

    async def count() -> int:
        # One that is there already is not one more.
        return -1 if await container.get() is not None else await peer.accounts.quotas.count_containers()

    now = peer.vm.clock()
    async with peer.vm.tenancy.quotas.adding(peer.tenant_id, peer.principal.user_id, "containers", count):
        peer.join(container_id)
        created = await container.create(now)
    if created:
        scope = EventScope(container_id=container_id)
        peer.vm.runtime.tell(peer.tenant_id, scope, ContainerCreated(container_id=container_id, created_at=now))
    return container_id
