"""Agent commands — look at, interrupt and end what runs."""

import msgspec

from agentvm.commands.call import Call
from agentvm.errors import InvalidInput
from agentvm.protocol import commands as ask
from agentvm.protocol.records import AgentRecord
from agentvm.runtime.agent import Agent
from agentvm.runtime.roster import Present
from agentvm.vm import LISTEN_PERMISSION


async def get(call: Call, command: ask.AgentGet) -> ask.AgentGetReply:
    agent = call.find_agent(command.agent_id)
    if agent is None:
        return ask.AgentGetReply(exists=False)
    readable = call.peer.principal.may(LISTEN_PERMISSION)
    return ask.AgentGetReply(exists=True, **msgspec.structs.asdict(_record(agent, readable=readable)))


async def list_of_container(call: Call, command: ask.AgentList) -> ask.AgentListReply:
    container_id = call.workspace.container_id(command.container_id)
    agents = call.peer.vm.runtime.roster.of_container(call.peer.tenant_id, container_id)
    # Who may not read sessions is not told which there are.
    readable = call.peer.principal.may(LISTEN_PERMISSION)
    return ask.AgentListReply(agents=tuple(_record(agent, readable=readable) for agent in agents))


async def destroy(call: Call, command: ask.AgentDestroy) -> ask.AgentDestroyReply:
    agent = call.find_agent(command.agent_id)
    if agent is not None:
        call.peer.join(agent.container_id)
        await call.peer.vm.runtime.stop_agent(agent)
    return ask.AgentDestroyReply(agent_id=command.agent_id, success=agent is not None)


async def destroy_all(call: Call, command: ask.AgentDestroyAll) -> ask.ContainerIdReply:
    container_id = call.workspace.container_id(command.container_id)
    call.peer.join(container_id)
    for agent in call.peer.vm.runtime.roster.of_container(call.peer.tenant_id, container_id):
        present = call.find_agent(agent.agent_id)
        if present is not None:
            await call.peer.vm.runtime.stop_agent(present)
    return ask.ContainerIdReply(container_id=container_id)


async def interrupt(call: Call, command: ask.AgentInterrupt) -> ask.AgentInterruptReply:
    agent = await _to_interrupt(call, command)
    if agent is None:
        return ask.AgentInterruptReply(image_id=command.image_id)
    with agent.in_use():
        current = await agent.interrupt()
    call.after.append(lambda: agent.cancel(current))
    return ask.AgentInterruptReply(image_id=agent.image_id, agent_id=agent.agent_id)


async def _to_interrupt(call: Call, command: ask.AgentInterrupt) -> Agent | None:
    peer = call.peer
    if command.image_id:
        found = await call.workspace.find_image(command.image_id)
        present = None if found is None else peer.vm.runtime.agent_of(peer.tenant_id, found[1], command.session_id)
        return None if present is None else await peer.vm.runtime.wake_agent(peer.tenant_id, present.agent_id)
    if command.agent_id:
        return await call.agent(command.agent_id)
    raise InvalidInput("Either imageId or agentId must be provided")


def _record(agent: Present, *, readable: bool) -> AgentRecord:
    return AgentRecord(
        agent_id=agent.agent_id,
        container_id=agent.container_id,
        image_id=agent.image_id,
        session_id=agent.session_id if readable else None,
        state=agent.state.value if isinstance(agent, Agent) else "asleep",
        queued=len(agent.inbox) if isinstance(agent, Agent) else 0,
    )
