"""Image commands — build, run, stop, change, list, delete."""

from agentvm.model.base import Record
from agentvm.model.definition import Definition
from agentvm.model.ids import ImageId, SessionId
from agentvm.model.image import ImageConfig
from agentvm.model.message import Message
from agentvm.protocol.commands.base import Command, Reply, SubscribingReply
from agentvm.protocol.records import ImageRecord


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
