"""Handles — one session and one running agent, as objects over a `RuntimeLink`."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from agentvm.errors import ChannelClosed
from agentvm.model.ids import AgentId, ImageId, MessageId, SessionId
from agentvm.model.message import Message, UserContent
from agentvm.model.session import Rewind, Session, Summary
from agentvm.model.turn import OutputFormat
from agentvm.operations.agent import AgentDestroy, AgentInterrupt
from agentvm.operations.branch import SessionFork, SessionRewind, SessionRewindReply, SessionRewinds
from agentvm.operations.compaction import SessionCompact, SessionSummaries
from agentvm.operations.image import ImageRunReply
from agentvm.operations.message import MessageEdit, MessageRegenerate, MessageSend, MessageSendReply
from agentvm.operations.session import SessionRelease, SessionResume, SessionSetTitle
from agentvm.operations.session_lists import SessionHistory, SessionMessages
from agentvm.protocol.link import RuntimeLink, WireEvent
from agentvm.protocol.requests import Request

HISTORY_PAGE_MAX = 200
"""Messages asked for at a time."""

T = TypeVar("T")


class SessionHandle:
    """A session. `record` is its state when it was last read."""

    def __init__(self, link: RuntimeLink, record: Session) -> None:
        self._link = link
        self.record = record

    @property
    def session_id(self) -> SessionId:
        return self.record.session_id

    async def resume(self) -> "AgentHandle":
        """Starts the session's agent from the image as it was built."""
        return agent_of(self._link, await self._link.ask(SessionResume(session_id=self.session_id)))

    async def messages(self) -> tuple[Message, ...]:
        """Returns all messages, oldest first."""
        reply = await self._link.ask(SessionMessages(session_id=self.session_id))
        if not reply.truncated:
            return reply.messages
        messages: list[Message] = []
        cursor: str | None = None
        while True:
            page = await self._link.ask(SessionHistory(session_id=self.session_id, cursor=cursor, limit=HISTORY_PAGE_MAX))
            messages += page.messages
            cursor = page.next_cursor
            if cursor is None:
                return tuple(messages)

    async def release(self) -> None:
        """Releases a quarantined session, so that it takes messages again."""
        reply = await self._link.ask(SessionRelease(session_id=self.session_id))
        self.record = there(reply.session)

    async def compact(self) -> Summary:
        """Summarizes older messages to free context. The messages are kept."""
        return (await self._link.ask(SessionCompact(session_id=self.session_id))).summary

    async def summaries(self) -> tuple[Summary, ...]:
        """Lists the summaries, newest first."""
        return (await self._link.ask(SessionSummaries(session_id=self.session_id))).summaries

    async def set_title(self, title: str | None) -> None:
        reply = await self._link.ask(SessionSetTitle(session_id=self.session_id, title=title))
        self.record = there(reply.session)

    async def fork(self, message_id: str | None = None, *, title: str | None = None) -> "SessionHandle":
        """Copies the session up to and including a message, by default all of it, into a new session."""
        command = SessionFork(session_id=self.session_id, message_id=_message(message_id), title=title)
        return SessionHandle(self._link, there((await self._link.ask(command)).session))

    async def rewind(self, message_id: str | None = None, *, before: str | None = None) -> SessionRewindReply:
        """Removes all messages after a message, or from `before` on. They can still be read."""
        command = SessionRewind(session_id=self.session_id, message_id=_message(message_id), before=_message(before))
        return await self._link.ask(command)

    async def rewinds(self) -> tuple[Rewind, ...]:
        """Lists the rewinds, the latest first."""
        return (await self._link.ask(SessionRewinds(session_id=self.session_id))).rewinds

    async def edit(self, message_id: str, content: UserContent) -> MessageSendReply:
        """Replaces a user message and gets a new answer. Later messages are removed and can still be read."""
        command = MessageEdit(session_id=self.session_id, message_id=MessageId(message_id), content=content)
        return await self._link.ask(command)

    async def regenerate(self, message_id: str | None = None) -> MessageSendReply:
        """Regenerates an answer, by default the last. The old one can still be read."""
        return await self._link.ask(MessageRegenerate(session_id=self.session_id, message_id=_message(message_id)))


class AgentHandle:
    """One running agent."""

    def __init__(self, link: RuntimeLink, agent_id: AgentId, image_id: ImageId, session_id: SessionId) -> None:
        self._link = link
        self.agent_id = agent_id
        self.image_id = image_id
        self.session_id = session_id

    async def receive(self, content: UserContent, *, output: OutputFormat | None = None) -> MessageSendReply:
        """Returns when the message is stored; the answer comes as events. `output` is the form that it must have."""
        command = MessageSend(image_id=self.image_id, session_id=self.session_id, content=content, output=output)
        return await self._link.ask(command)

    async def stream(self, content: UserContent, *, output: OutputFormat | None = None) -> AsyncGenerator[WireEvent, None]:
        """Sends, then yields every event of that turn; the last one is `turn_response`."""
        command = MessageSend(image_id=self.image_id, session_id=self.session_id, content=content, output=output)
        async with aclosing(events_of_turn(self._link, command)) as events:
            async for event in events:
                yield event

    async def interrupt(self) -> None:
        await self._link.ask(AgentInterrupt(agent_id=self.agent_id))

    async def stop(self) -> None:
        await self._link.ask(AgentDestroy(agent_id=self.agent_id))


async def events_of_turn(link: RuntimeLink, command: Request[MessageSendReply]) -> AsyncGenerator[WireEvent, None]:
    """Sends a message, then yields every event of its turn; the last one is `turn_response`."""
    async with link.events() as events:
        sent = await link.ask(command)
        async for event in events:
            if event.context.get("turnId") == sent.turn_id:
                yield event
                if event.type == "turn_response":
                    return
    raise ChannelClosed("The connection was lost before the turn ended; read the session's messages for its answer")


def agent_of(link: RuntimeLink, reply: ImageRunReply) -> AgentHandle:
    return AgentHandle(link, AgentId(reply.agent_id), reply.image_id, there(reply.session_id))


def there(value: T | None) -> T:
    if value is None:
        raise ValueError("the reply names neither a record nor an error")
    return value


def _message(message_id: str | None) -> MessageId | None:
    return None if message_id is None else MessageId(message_id)
