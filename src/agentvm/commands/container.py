"""Container commands — a user's isolation boundary."""

from agentvm.commands.call import Call
from agentvm.model.ids import ContainerId
from agentvm.protocol import commands as ask
from agentvm.sessions.containers import Containers


async def create(call: Call, command: ask.ContainerCreate) -> ask.ContainerIdReply:
    container_id = await ensure(call, command.container_id)
    return ask.ContainerIdReply(container_id=container_id)


async def get(call: Call, command: ask.ContainerGet) -> ask.ContainerGetReply:
    container_id = call.workspace.container_id(command.container_id)
    found = await call.peer.store.container(container_id).get()
    if found is None:
        return ask.ContainerGetReply(exists=False)
    call.peer.join(container_id)
    return ask.ContainerGetReply(exists=True, container_id=container_id)


async def list_all(call: Call, command: ask.ContainerList) -> ask.ContainerListReply:
    found, next_cursor = await call.peer.store.page_containers(command.cursor, command.limit)
    return ask.ContainerListReply(container_ids=found, next_cursor=next_cursor)


async def delete(call: Call, command: ask.ContainerDelete) -> ask.ContainerDeleteReply:
    container_id = call.workspace.container_id(command.container_id)
    containers = Containers(call.workspace)
    if command.dry_run:
        return ask.ContainerDeleteReply(container_id=container_id, deleted=False, owned=await containers.weigh(container_id))
    await containers.delete(container_id)
    return ask.ContainerDeleteReply(container_id=container_id, deleted=True)


async def ensure(call: Call, name: str) -> ContainerId:
    """Returns the container, created if there is none; the peer hears of it from now on, its creation included."""
    container_id = call.workspace.container_id(name)
    call.peer.join(container_id)
    await Containers(call.workspace).ensure(container_id)
    return container_id
