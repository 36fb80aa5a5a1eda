"""Records — images and agents as clients see them: what is stored, and what runs, in one."""

from agentvm.model.base import Record
from agentvm.model.ids import AgentId, ContainerId, ImageId, SessionId


class ImageRecord(Record):
    """An image as clients see it. `online` and `agent_id` speak of the default session's agent."""

    image_id: ImageId
    container_id: ContainerId
    session_id: SessionId
    name: str
    created_at: int
    updated_at: int
    online: bool
    definition_name: str
    digest: str
    description: str | None = None
    system_prompt: str | None = None
    agent_id: AgentId | None = None


class AgentRecord(Record):
    agent_id: AgentId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId
