"""Records — definitions, images, agents and resources as clients see them: what is stored, and what runs, in one."""

from agentvm.model.base import Record
from agentvm.model.definition import Definition
from agentvm.model.ids import AgentId, ContainerId, ImageId, SessionId
from agentvm.model.resource import ResourceType, Visibility


class DefinitionRecord(Definition):
    """A definition as clients see it. `uri` is there if it is an agent of the resource centre."""

    uri: str | None = None


class LockRecord(Record):
    """A version that an image was built from."""

    uri: str
    """With the exact version."""
    version: str
    digest: str


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
    system_prompt_ref: str | None = None
    """The URI that `system_prompt` came from."""
    definition_ref: str | None = None
    """The URI of the agent that it was built from."""
    tool_refs: tuple[str, ...] | None = None
    """Those of its tools that are URIs."""
    lock: tuple[LockRecord, ...] | None = None
    """Every version that its references came to, when it was built or last upgraded."""


class AgentRecord(Record):
    agent_id: AgentId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId


class ResourceRecord(Record):
    """A resource without its content. `uses` is how many images and versions are locked to it."""

    id: str
    uri: str
    type: ResourceType
    owner: str
    name: str
    visibility: Visibility
    created_at: int
    updated_at: int
    latest: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    deprecated: str | None = None
    uses: int | None = None
