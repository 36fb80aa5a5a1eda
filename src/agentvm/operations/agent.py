"""Agents — show, list, interrupt and stop running agents."""

from typing import TYPE_CHECKING

import msgspec

from agentvm.errors import InvalidInput
from agentvm.model.ids import AgentId, ContainerId, ImageId, SessionId, TurnId, is_sub_session
from agentvm.operations.container import ContainerIdReply
from agentvm.operations.operation import Context, OperationGroup
from agentvm.protocol.records import AgentRecord, AgentStateName
from agentvm.protocol.requests import Reply, Request

if TYPE_CHECKING:
    from agentvm.runtime.agent import Agent
    from agentvm.runtime.roster import Present

operation = OperationGroup("agents")

USE, READ_SESSIONS = "agent:use", "sessions:read"


class AgentGetReply(Reply):
    """`queued` is the number of messages that wait behind the running turn."""

    exists: bool
    agent_id: AgentId | None = None
    container_id: ContainerId | None = None
    image_id: ImageId | None = None
    session_id: SessionId | None = None
    state: AgentStateName | None = None
    queued: int | None = None
    answers_as: str | None = None
    """The agent of the image that answers since a handoff, by its URI; absent for the image's own."""

    def joined(self, other: "AgentGetReply") -> "AgentGetReply":
        """The reply of the node that runs a turn of it, if it has one."""
        return other if other.exists else self


class AgentGet(Request[AgentGetReply]):
    agent_id: AgentId

    def refused(self) -> Reply:
        return AgentGetReply(exists=False)


@operation("agent.get", needs=USE, command=True)
async def get(context: Context, request: AgentGet) -> AgentGetReply:
    """Show an agent: its `state`, and how many messages wait for it.

    The other fields are absent when it does not exist.
    """
    agent = context.find_agent(request.agent_id)
    if agent is None:
        return AgentGetReply(exists=False)
    container = context.tenancy.store.tenant(context.tenant_id).container(agent.container_id)
    acting = await container.log(agent.session_id).find_agent()
    return AgentGetReply(exists=True, answers_as=acting or None, **msgspec.structs.asdict(_record(context, agent)))


class AgentListReply(Reply):
    agents: tuple[AgentRecord, ...]

    def joined(self, other: "AgentListReply") -> "AgentListReply":
        """Both lists, without the agents of this one that run on the other node."""
        there = {agent.agent_id for agent in other.agents}
        return AgentListReply(agents=(*(agent for agent in self.agents if agent.agent_id not in there), *other.agents))


class AgentList(Request[AgentListReply]):
    container_id: str

    def refused(self) -> Reply:
        return AgentListReply(agents=())


@operation("agent.list", needs=USE, command=True)
async def list_of_container(context: Context, request: AgentList) -> AgentListReply:
    """List the running agents of a container."""
    container_id = context.workspace.container_id(request.container_id)
    agents = context.vm.runtime.roster.of_container(context.tenant_id, container_id)
    shown = [agent for agent in agents if not is_sub_session(agent.session_id)]
    return AgentListReply(agents=tuple(_record(context, agent) for agent in shown))


class AgentDestroyReply(Reply):
    agent_id: AgentId
    success: bool


class AgentDestroy(Request[AgentDestroyReply]):
    agent_id: AgentId

    def refused(self) -> Reply:
        return AgentDestroyReply(agent_id=self.agent_id, success=False)


@operation("agent.destroy", needs=USE, command=True)
async def destroy(context: Context, request: AgentDestroy) -> AgentDestroyReply:
    """Stop an agent; a running turn, and one that waits for answers, ends as interrupted.

    `success` is false when there was none. Emits `session_destroyed` and `agent_unregistered`.
    """
    agent = context.find_agent(request.agent_id)
    if agent is not None:
        context.join(agent.container_id)
        await context.vm.runtime.stop_agent(agent, ends_parked=True)
    return AgentDestroyReply(agent_id=request.agent_id, success=agent is not None)


class AgentDestroyAll(Request[ContainerIdReply]):
    container_id: str

    def refused(self) -> Reply:
        return ContainerIdReply(container_id=ContainerId(self.container_id))


@operation("agent.destroy_all", needs=USE, command=True)
async def destroy_all(context: Context, request: AgentDestroyAll) -> ContainerIdReply:
    """Stop every agent of a container, as `agent_destroy` does."""
    container_id = context.workspace.container_id(request.container_id)
    context.join(container_id)
    for agent in context.vm.runtime.roster.of_container(context.tenant_id, container_id):
        present = context.find_agent(agent.agent_id)
        if present is not None:
            await context.vm.runtime.stop_agent(present, ends_parked=True)
    return ContainerIdReply(container_id=container_id)


class AgentInterruptReply(Reply):
    image_id: ImageId | None = None
    agent_id: AgentId | None = None


class AgentInterrupt(Request[AgentInterruptReply]):
    """`sessionId` names a session of the image; by default it is the default session.

    With `turnId` that turn is stopped, also one that is queued, and no other.
    """

    image_id: ImageId | None = None
    agent_id: AgentId | None = None
    session_id: SessionId | None = None
    turn_id: TurnId | None = None

    def refused(self) -> Reply:
        return AgentInterruptReply(image_id=self.image_id, agent_id=self.agent_id)


@operation("agent.interrupt", needs=USE, command=True)
async def interrupt(context: Context, request: AgentInterrupt) -> AgentInterruptReply:
    """Stop the current turn of an image, an agent or a session; queued messages run on.

    Emits `interrupted` before the reply. The reply about an image without an agent has no `agentId`. Fails with
    `agent_not_found`, and with `invalid_input` when none of them is given.
    """
    agent = await _addressee(context, request)
    if agent is None:
        return AgentInterruptReply(image_id=request.image_id)
    with agent.in_use():
        current = await agent.interrupt(request.turn_id)
    context.after.append(lambda: agent.cancel(current))
    return AgentInterruptReply(image_id=agent.image_id, agent_id=agent.agent_id)


async def _addressee(context: Context, request: AgentInterrupt) -> "Agent | None":
    runtime, tenant_id = context.vm.runtime, context.tenant_id
    if request.session_id and not request.image_id and not request.agent_id:
        _, session = await context.workspace.session(request.session_id)
        request = msgspec.structs.replace(request, image_id=session.image_id)
    if request.image_id:
        record = await context.workspace.find_image(request.image_id)
        if record is None:
            return None
        container, image = record
        present = runtime.agent_of(tenant_id, image, request.session_id)
        if present is not None:
            return await runtime.wake_agent(tenant_id, present.agent_id)
        session_id = request.session_id or image.session_id
        # A turn that waits for somebody has no agent, and is stopped all the same.
        parked = await container.log(session_id).find_parked()
        return (
            None
            if parked is None or parked.image_id != image.image_id
            else runtime.start_agent(tenant_id, image, session_id)[0]
        )
    if request.agent_id:
        return await context.agent(request.agent_id)
    raise InvalidInput("Either imageId or agentId must be provided")


def _record(context: Context, agent: "Present") -> AgentRecord:
    state, queued = context.vm.runtime.roster.activity(agent)
    return AgentRecord(
        agent_id=agent.agent_id,
        container_id=agent.container_id,
        image_id=agent.image_id,
        # A principal that may not read sessions does not learn which there are.
        session_id=agent.session_id if context.principal.may(READ_SESSIONS) else None,
        state=state,
        queued=queued,
    )
