"""Session commands — histories."""

from agentvm.model.ids import ImageId, SessionId
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.protocol.commands.base import Command, Reply, SubscribingReply
from agentvm.protocol.commands.image import ImageRunReply


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
