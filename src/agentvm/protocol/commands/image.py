"""Image commands — build, run, stop, change, list, delete."""

from typing import Annotated, ClassVar

import msgspec

from agentvm.model.base import Record
from agentvm.model.definition import Definition
from agentvm.model.ids import ImageId, SessionId
from agentvm.model.image import ImageConfig
from agentvm.model.message import Message
from agentvm.protocol.commands.base import Command, Reply, SubscribingReply
from agentvm.protocol.records import ImageRecord


class ImageReply(SubscribingReply):
    record: ImageRecord | None
    warnings: tuple[str, ...] | None = None
    """What the asker should know about what was built: a tool that cannot run here, a version that was withdrawn."""


class ImageCreate(Command[ImageReply]):
    """Builds the server's default definition, or the one that `config.definition` names."""

    name = "image_create"
    reply_type = ImageReply
    reports_ignored: ClassVar = {"config": ImageConfig}
    container_id: str
    config: ImageConfig | None = None
    ignored: tuple[str, ...] = msgspec.field(default=(), name="__ignored")
    """Fields of the request that nobody knows; see `agentvm.protocol.ignored`."""


class ImageBuild(Command[ImageReply]):
    """Builds a definition: one registered under a name, an agent by its URI, or one given whole."""

    name = "image_build"
    reply_type = ImageReply
    reports_ignored: ClassVar = {"config": ImageConfig, "definition": Definition}
    container_id: str
    definition: str | Definition
    config: ImageConfig | None = None
    ignored: tuple[str, ...] = msgspec.field(default=(), name="__ignored")
    """Fields of the request that nobody knows; see `agentvm.protocol.ignored`."""


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
    """What is to change. All but `name` and `description` build the image anew."""

    name: str | None = None
    description: str | None = None
    system_prompt: str | None = None
    model: str | None = None
    tools: tuple[str, ...] | None = None
    sandbox: str | None = None
    knowledge: tuple[str, ...] | None = None
    variables: dict[str, object] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    thinking: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ImageUpdate(Command[ImageReply]):
    """Its agents use what is new from their next turn on."""

    name = "image_update"
    reply_type = ImageReply
    reports_ignored: ClassVar = {"updates": ImageUpdates}
    image_id: ImageId
    updates: ImageUpdates = ImageUpdates()
    ignored: tuple[str, ...] = msgspec.field(default=(), name="__ignored")
    """Fields of the request that nobody knows; see `agentvm.protocol.ignored`."""


class ImageChange(Record):
    """A reference that means another version now."""

    uri: str
    """As it was written."""
    before: str = msgspec.field(name="from")
    after: str = msgspec.field(name="to")


class ImageDifference(Record):
    before: object = None
    after: object = None


class ImageUpgradeReply(Reply):
    record: ImageRecord
    changes: tuple[ImageChange, ...]
    diff: dict[str, ImageDifference]
    """By the names of the members of the definition that differ."""
    applied: bool
    warnings: tuple[str, ...] | None = None


class ImageUpgrade(Command[ImageUpgradeReply]):
    """Follows the references that name no exact version anew."""

    name = "image_upgrade"
    reply_type = ImageUpgradeReply
    image_id: ImageId
    dry_run: bool = False
    """Only says what would change."""


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
    """`truncated` when older messages were left out because of their size: `session_history` reads all, page by page."""

    image_id: ImageId
    messages: tuple[Message, ...]
    truncated: bool = False


class ImageMessages(Command[ImageMessagesReply]):
    """The history of the image's default session."""

    name = "image_messages"
    reply_type = ImageMessagesReply
    image_id: ImageId

    def refused(self) -> Reply:
        return ImageMessagesReply(image_id=self.image_id, messages=())
