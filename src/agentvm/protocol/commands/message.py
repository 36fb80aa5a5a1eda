"""Message commands — what is said."""

from typing import Annotated, Literal

import msgspec

from agentvm.model.ids import AgentId, ImageId, SessionId
from agentvm.model.message import UserContent
from agentvm.protocol.commands.base import Command, Reply


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
