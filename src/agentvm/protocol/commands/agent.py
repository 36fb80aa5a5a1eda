"""Agent commands — what runs."""

from agentvm.model.ids import AgentId, ContainerId, ImageId, SessionId
from agentvm.protocol.commands.base import Command, Reply
from agentvm.protocol.commands.container import ContainerIdReply
from agentvm.protocol.records import AgentRecord, AgentStateName


class AgentGetReply(Reply):
    """`queued` are the messages that wait behind the turn that runs."""

    exists: bool
    agent_id: AgentId | None = None
    container_id: ContainerId | None = None
    image_id: ImageId | None = None
    session_id: SessionId | None = None
    state: AgentStateName | None = None
    queued: int | None = None


class AgentGet(Command[AgentGetReply]):
    name = "agent_get"
    reply_type = AgentGetReply
    agent_id: AgentId

    def refused(self) -> Reply:
        return AgentGetReply(exists=False)


class AgentListReply(Reply):
    agents: tuple[AgentRecord, ...]


class AgentList(Command[AgentListReply]):
    name = "agent_list"
    reply_type = AgentListReply
    container_id: str

    def refused(self) -> Reply:
        return AgentListReply(agents=())


class AgentDestroyReply(Reply):
    agent_id: AgentId
    success: bool


class AgentDestroy(Command[AgentDestroyReply]):
    name = "agent_destroy"
    reply_type = AgentDestroyReply
    agent_id: AgentId

    def refused(self) -> Reply:
        return AgentDestroyReply(agent_id=self.agent_id, success=False)


class AgentDestroyAll(Command[ContainerIdReply]):
    name = "agent_destroy_all"
    reply_type = ContainerIdReply
    container_id: str

    def refused(self) -> Reply:
        return ContainerIdReply(container_id=ContainerId(self.container_id))


class AgentInterruptReply(Reply):
    image_id: ImageId | None = None
    agent_id: AgentId | None = None


class AgentInterrupt(Command[AgentInterruptReply]):
    name = "agent_interrupt"
    reply_type = AgentInterruptReply
    image_id: ImageId | None = None
    agent_id: AgentId | None = None
    session_id: SessionId | None = None

    def refused(self) -> Reply:
        return AgentInterruptReply(image_id=self.image_id, agent_id=self.agent_id)
