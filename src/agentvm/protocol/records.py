"""Records — definitions, images, agents, resources and files as clients see them: the stored record with its current state."""

from typing import Literal

from agentvm.model.base import Record
from agentvm.model.definition import Definition
from agentvm.model.ids import AgentId, ContainerId, ImageId, MessageId, SessionId, UserId
from agentvm.model.policy import PolicyRule
from agentvm.model.resource import ResourceType, Visibility
from agentvm.model.session import Session
from agentvm.model.turn import OutputFormat


class DefinitionRecord(Definition):
    """A definition as clients see it. `uri` is there if it is an agent of the resource centre."""

    uri: str | None = None


class LockRecord(Record):
    """A version that an image was built from."""

    uri: str
    """With the exact version."""
    version: str
    digest: str


class TurnLimits(Record):
    """The bounds of one turn; those of the settings `limits`."""

    steps: int
    """Model calls."""
    tokens: int
    """Input and output of all model calls."""
    cost: int
    """In nano-USD."""
    seconds: float
    tool_calls: int
    agent_calls: int
    """Sub-agents that it may call."""
    agent_depth: int
    """Levels of sub-agents below it."""


class EffectiveConfig(Record):
    """How an image answers: its definition with its config applied and every reference followed."""

    model: str
    """`<provider>/<model>`: the image's own, else the default of its tenant or of the server."""
    max_tokens: int
    """Tokens of one answer."""
    tools: tuple[str, ...]
    """The tools that its model receives."""
    limits: TurnLimits | None = None
    """The bounds of each of its turns."""
    system_prompt: str | None = None
    temperature: float | None = None
    thinking: int | None = None
    output: OutputFormat | None = None
    """The form of its answers: JSON that fits a schema."""
    own_key: bool = False
    """Whether its model calls are made with a key of the image's own."""
    variables: dict[str, object] | None = None
    sandbox: str | None = None
    """The sandbox of its code tools, as it is written."""
    knowledge: tuple[str, ...] = ()
    """The knowledge bases that it searches."""
    skills: tuple[str, ...] = ()
    """The instructions that it reads when a task fits them."""
    agents: tuple[str, ...] = ()
    """The agents that it was built with: those that it calls or hands over to, and those below them."""
    handoffs: tuple[str, ...] = ()
    """The agents that it can hand its conversation over to, with a tool `transfer_to_<name>` for each."""
    policy: tuple[PolicyRule, ...] = ()
    """Rules of its own about calls of tools; those of the tenant and the server hold as well."""
    unavailable: tuple[str, ...] = ()
    """Tools that it refers to and that cannot run on this server."""


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
    """The tools that are URIs."""
    lock: tuple[LockRecord, ...] | None = None
    """Every version that its references came to, when it was built or last upgraded."""
    config: EffectiveConfig | None = None
    """The effective configuration; in replies about one image."""
    written: DefinitionRecord | None = None
    """The definition with the config as written, references included; in replies about one image."""
    behind: int | None = None
    """How many of its references mean another version now; over HTTP."""
    warnings: tuple[str, ...] | None = None
    """Warnings of the build, such as a tool that cannot run; in the Python client."""
    client_data: dict[str, object] | None = None
    """Data of the client's own."""


AgentStateName = Literal["idle", "running", "stopping", "stopped", "asleep"]
"""`asleep` is not in memory, and comes back with the next message."""


class AgentRecord(Record):
    """An agent. `queued` are the messages that wait behind the turn that runs."""

    agent_id: AgentId
    container_id: ContainerId
    image_id: ImageId
    session_id: SessionId | None = None
    state: AgentStateName | None = None
    queued: int | None = None


class OwnedRecord(Record):
    """The data that is deleted with a container, a user or a tenant.

    `bytes` counts messages, logs, summaries, drafts, files and items of stores. `kept_resources` counts resources
    that other tenants are locked to: the versions in use are kept for them.
    """

    containers: tuple[ContainerId, ...]
    sessions: int
    messages: int
    bytes: int
    attachments: int
    resources: int
    kept_resources: int
    users: int
    keys: int
    secrets: int


class SessionRecord(Session):
    """A session as the principal sees it. `unread` counts the answers since their last read mark, at most 1,000."""

    unread: int
    cursor: str | None = None
    """The place of its last message, for `session_mark_read`."""
    restorable_until: int | None = None
    """Until when a deleted one can be restored."""


class FoundRecord(Record):
    """A message that matches a search. `position` is its number in the session, from 0."""

    session_id: SessionId
    image_id: ImageId
    container_id: ContainerId
    title: str | None
    message_id: MessageId
    role: Literal["user", "assistant", "tool"]
    at: int
    position: int
    snippet: str
    """HTML: the text around the match, escaped, with `<mark>` about the words."""
    cursor: str
    """The place of the message, for `session_history`."""
    tool: str | None = None
    before: str | None = None
    """The beginning of the message before it."""
    after: str | None = None


class TitleRecord(Record):
    """A session whose title matches a search. `at` is the time of its last message."""

    session_id: SessionId
    image_id: ImageId
    container_id: ContainerId
    title: str
    at: int
    snippet: str
    """HTML: the title, escaped, with `<mark>` about the words."""


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


class AttachmentRecord(Record):
    """An uploaded file. `attachment` is the reference, for the `data` of a message part."""

    attachment: str
    digest: str
    container_id: ContainerId
    size: int
    media_type: str
    created_at: int
    name: str | None = None
    uploaded_by: UserId | None = None


class SourceView(Record):
    """The value of one layer."""

    layer: str
    value: object
    place: str | None = None
    actor: str | None = None
    at: int | None = None


class SettingView(Record):
    """One setting. `value` is absent when it is not set and has no default; `layers` are ordered by precedence, lowest first.

    `effective` is the value that the server works with, also when it is derived from other settings. `source` is its layer,
    `derived`, or `unset`; `why` is the reason in a sentence.
    """

    key: str
    value: object = None
    effective: object = None
    source: str = ""
    why: str = ""
    layer: str | None = None
    place: str | None = None
    actor: str | None = None
    at: int | None = None
    default: object = None
    type: str
    doc: str
    applies: str
    tenant: str
    secret: bool = False
    variable: str | None = None
    restart_pending: bool = False
    layers: tuple[SourceView, ...] = ()
