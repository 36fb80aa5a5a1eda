"""Image — the immutable build of a definition and a config; a conversation in the words of 1.x clients."""

from typing import Annotated, Any

import msgspec

from agentvm.model.base import Record
from agentvm.model.definition import Definition
from agentvm.model.ids import ContainerId, ImageId, SessionId
from agentvm.model.resource import Locked
from agentvm.model.turn import OutputFormat


class ImageFields(Record):
    """The fields of an image that a build sets and an update changes. Unset fields fall back to the definition's.

    `resource://` URIs are stored as written, so that they can be resolved again.
    """

    name: str | None = None
    description: str | None = None
    system_prompt: str | None = None
    model: str | None = None
    tools: tuple[str, ...] | None = None
    sandbox: str | None = None
    knowledge: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    variables: dict[str, object] | None = None
    """Values for the variables of the prompts it refers to."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    thinking: Annotated[int, msgspec.Meta(ge=1)] | None = None
    output: OutputFormat | None = None
    """The form of every answer: JSON that fits a schema."""
    mcp_servers: dict[str, Any] | None = None
    """MCP servers in the form of AgentX 1.x, by name: an address, or a command that the operator allows."""
    client_data: dict[str, Any] | None = None
    """Data of the client's own, such as a colour or an order: kept with the image and replaced as a whole."""
    api_key: str | None = None
    """The provider's key for the model calls of this image. Only in a request: it is sealed in the vault, and never shown."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, …)"


class ImageConfig(ImageFields):
    """The additions of a build to the definition. Unset fields fall back to the definition's.

    `resource://` URIs are stored as written, so that they can be resolved again.
    """

    definition: str | None = None
    """A definition's name or the URI of an agent; for `image_create`, which names none otherwise."""
    has_api_key: bool = False
    """Whether the image has such a key. Set by the server."""


class Image(Record):
    """A build. `name` and `description` may be edited; `definition`, which decides the behaviour, never changes.

    `definition` is the snapshot with the config already applied and every reference resolved. Only `image_update` and
    `image_upgrade` replace it.
    """

    image_id: ImageId
    container_id: ContainerId
    session_id: SessionId
    """The default session, the one 1.x clients mean."""
    name: str
    definition_name: str
    digest: str
    definition: Definition
    config: ImageConfig
    created_at: int
    updated_at: int
    description: str | None = None
    source: Definition | None = None
    """The definition as written, if it refers to resources; else None."""
    lock: tuple[Locked, ...] = ()
    """Every version that the build came to."""

    @property
    def key_owner(self) -> ImageId | None:
        """The image, if it has a key of its own for its model calls; else None."""
        return self.image_id if self.config.has_api_key else None
