"""Commands — what a peer can ask, and what it is answered. `table.py` lists them.

A command is a `Command` subclass, whose members are the request's data, and its `Reply`. Those that 1.x does not know
are additive: older clients never send them.
"""

from typing import Annotated, ClassVar, Generic, Literal, TypeVar

import msgspec

from agentvm.model.base import Record
from agentvm.model.definition import Definition
from agentvm.model.ids import AgentId, ContainerId, ImageId, SessionId
from agentvm.model.image import ImageConfig
from agentvm.model.message import Message, UserContent
from agentvm.model.session import Session
from agentvm.protocol.records import AgentRecord, ImageRecord


class Reply(Record):
    """`error` set means the command failed; the other members then say as much as 1.x says."""

    error: str | None = None
    error_code: str | None = None


R_co = TypeVar("R_co", bound=Reply, covariant=True)


class Command(Record, Generic[R_co]):
    """A request's data. `name` is its type without `_request`."""

    name: ClassVar[str]
    reply_type: ClassVar[type[Reply]]

    def refused(self) -> Reply:
        """The reply's other members when the command fails."""
        return Reply()


class ContainerIdReply(Reply):
    container_id: ContainerId | None = None


class ContainerCreate(Command[ContainerIdReply]):
    """Get-or-create."""

    name = "container_create"
    reply_type = ContainerIdReply
    container_id: str

    def refused(self) -> Reply:
        return ContainerIdReply(container_id=ContainerId(self.container_id))


class ContainerGetReply(Reply):
    exists: bool
    container_id: ContainerId | None = None


class ContainerGet(Command[ContainerGetReply]):
    name = "container_get"
    reply_type = ContainerGetReply
    container_id: str

    def refused(self) -> Reply:
        return ContainerGetReply(exists=False)


class ContainerListReply(Reply):
    container_ids: tuple[ContainerId, ...]


class ContainerList(Command[ContainerListReply]):
    name = "container_list"
    reply_type = ContainerListReply

    def refused(self) -> Reply:
        return ContainerListReply(container_ids=())


class DefinitionListReply(Reply):
    definitions: tuple[Definition, ...]


class DefinitionList(Command[DefinitionListReply]):
    name = "definition_list"
    reply_type = DefinitionListReply


class DefinitionGetReply(Reply):
    definition: Definition | None


class DefinitionGet(Command[DefinitionGetReply]):
    name = "definition_get"
    reply_type = DefinitionGetReply
    definition_name: str


class DefinitionRegisterReply(Reply):
    definition: Definition


class DefinitionRegister(Command[DefinitionRegisterReply]):
    """Registering the same definition again changes nothing; another one of that name is a conflict."""

    name = "definition_register"
    reply_type = DefinitionRegisterReply
    definition: Definition


class SubscribingReply(Reply):
    """Clients from 1.9 on subscribe to the sessions named here; the server already did."""

    subscriptions: tuple[SessionId, ...] | None = msgspec.field(default=None, name="__subscriptions")


class ImageReply(SubscribingReply):
    record: ImageRecord | None


class ImageCreate(Command[ImageReply]):
    """Builds the server's default definition."""

    name = "image_create"
    reply_type = ImageReply
    container_id: str
    config: ImageConfig | None = None


class ImageBuild(Command[ImageReply]):
    """Builds a definition: one registered under a name, or one given whole."""

    name = "image_build"
    reply_type = ImageReply
    container_id: str
    definition: str | Definition
    config: ImageConfig | None = None


class ImageRunReply(Reply):
    image_id: ImageId
    agent_id: str
    reused: bool
    session_id: SessionId | None = None


class ImageRun(Command[ImageRunReply]):
    name = "image_run"
    reply_type = ImageRunReply
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageRunReply(image_id=self.image_id, agent_id="", reused=False)


class ImageIdReply(Reply):
    image_id: ImageId


class ImageStop(Command[ImageIdReply]):
    name = "image_stop"
    reply_type = ImageIdReply
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageIdReply(image_id=self.image_id)


class ImageUpdates(Record):
    name: str | None = None
    description: str | None = None


class ImageUpdate(Command[ImageReply]):
    """Only name and description can change; a build is immutable."""

    name = "image_update"
    reply_type = ImageReply
    image_id: ImageId
    updates: ImageUpdates = ImageUpdates()


class ImageListReply(SubscribingReply):
    records: tuple[ImageRecord, ...]


class ImageList(Command[ImageListReply]):
    """Without `container_id`: the containers this connection works with, never everybody's."""

    name = "image_list"
    reply_type = ImageListReply
    container_id: str | None = None

    def refused(self) -> Reply:
        return ImageListReply(records=())


class ImageGet(Command[ImageReply]):
    name = "image_get"
    reply_type = ImageReply
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageReply(record=None)


class ImageDelete(Command[ImageIdReply]):
    name = "image_delete"
    reply_type = ImageIdReply
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageIdReply(image_id=self.image_id)


class ImageMessagesReply(Reply):
    image_id: ImageId
    messages: tuple[Message, ...]


class ImageMessages(Command[ImageMessagesReply]):
    """The history of the image's default session."""

    name = "image_messages"
    reply_type = ImageMessagesReply
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageMessagesReply(image_id=self.image_id, messages=())


class SessionReply(SubscribingReply):
    session: Session | None


class SessionCreate(Command[SessionReply]):
    name = "session_create"
    reply_type = SessionReply
    image_id: ImageId
    title: str | None = None


class SessionGet(Command[SessionReply]):
    name = "session_get"
    reply_type = SessionReply
    session_id: SessionId


class SessionListReply(SubscribingReply):
    sessions: tuple[Session, ...]


class SessionList(Command[SessionListReply]):
    name = "session_list"
    reply_type = SessionListReply
    image_id: ImageId


class SessionSetTitle(Command[SessionReply]):
    name = "session_set_title"
    reply_type = SessionReply
    session_id: SessionId
    title: str | None


class SessionRelease(Command[SessionReply]):
    name = "session_release"
    reply_type = SessionReply
    session_id: SessionId


class SessionResume(Command[ImageRunReply]):
    """Starts (or finds) the session's agent, from the image as it was built."""

    name = "session_resume"
    reply_type = ImageRunReply
    session_id: SessionId


class SessionMessagesReply(Reply):
    session_id: SessionId
    messages: tuple[Message, ...]


class SessionMessages(Command[SessionMessagesReply]):
    name = "session_messages"
    reply_type = SessionMessagesReply
    session_id: SessionId


class AgentGetReply(Reply):
    exists: bool
    agent_id: AgentId | None = None
    container_id: ContainerId | None = None


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


class MessageSendReply(Reply):
    """Accepted and stored; the answer comes as events, all of them after `cursor`."""

    agent_id: str
    image_id: ImageId | None = None
    message_id: str | None = None
    turn_id: str | None = None
    session_id: SessionId | None = None
    cursor: str | None = None


class MessageSend(Command[MessageSendReply]):
    """To an image (its default session unless `session_id` says otherwise), or to a running agent."""

    name = "message_send"
    reply_type = MessageSendReply
    content: UserContent
    image_id: ImageId | None = None
    agent_id: AgentId | None = None
    session_id: SessionId | None = None
    client_message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """The sender's own name for the message: sending it again answers as the first time and begins no second turn."""
    on_busy: Literal["queue", "interrupt", "reject"] = "queue"
    """While another turn runs: wait for it, stop it, or refuse this message."""

    def refused(self) -> Reply:
        return MessageSendReply(agent_id=self.agent_id or "", image_id=self.image_id)
