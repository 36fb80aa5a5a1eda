"""Message commands — what is said."""

from typing import Annotated, Literal

import msgspec

from agentvm.model.ids import AgentId, ImageId, MessageId, SessionId
from agentvm.model.message import UserContent
from agentvm.protocol.bounds import Bound
from agentvm.protocol.commands.base import Command, Reply

MESSAGE_BOUND = Bound(max_bytes=47 * 1024 * 1024, max_values=20_000)
"""Pictures travel inside messages, as base64. What one message may hold is a setting: see `agentvm.model.limits`."""

ClientKey = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
OnBusy = Literal["reject", "interrupt"]
"""While a turn runs: refuse, or stop it and those that wait."""


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
    bound = MESSAGE_BOUND
    content: UserContent
    image_id: ImageId | None = None
    agent_id: AgentId | None = None
    session_id: SessionId | None = None
    client_message_id: ClientKey | None = None
    """The sender's own name for the message: sending it again answers as the first time and begins no second turn."""
    on_busy: Literal["queue", "interrupt", "reject"] = "queue"
    """While another turn runs: wait for it, stop it, or refuse this message."""

    def refused(self) -> Reply:
        return MessageSendReply(agent_id=self.agent_id or "", image_id=self.image_id)


class MessageEdit(Command[MessageSendReply]):
    """Takes back what a user said, and everything after it, and says `content` instead."""

    name = "message_edit"
    reply_type = MessageSendReply
    bound = MESSAGE_BOUND
    session_id: SessionId
    message_id: MessageId
    content: UserContent
    client_message_id: ClientKey | None = None
    on_busy: OnBusy = "reject"


class MessageRegenerate(Command[MessageSendReply]):
    """Takes back the answer and asks again: what `message_id` is an answer to, by default what was asked last."""

    name = "message_regenerate"
    reply_type = MessageSendReply
    session_id: SessionId
    message_id: MessageId | None = None
    client_message_id: ClientKey | None = None
    on_busy: OnBusy = "reject"
