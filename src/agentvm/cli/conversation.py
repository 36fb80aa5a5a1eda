"""Conversation — the session somebody is chatting in, and the others of its container. Everything it knows is on the server."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass

from agentvm.errors import AgentVMError, Refused, SessionNotFound
from agentvm.model.image import ImageConfig
from agentvm.model.message import Message, TextPart, UserContent, UserMessage, UserPart
from agentvm.model.session import Session
from agentvm.protocol.handles import AgentHandle, SessionHandle
from agentvm.protocol.link import WireEvent
from agentvm.protocol.verbs import AgentX

MAX_LISTED = 20
"""Sessions that `/sessions` shows: each without a title costs a request."""

MAX_LABEL = 60

REFUSED = frozenset({"quota_exceeded", "wallet_empty", "model_unpriced"})
"""Codes of turns that ended before the model was asked anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One line of the list of sessions."""

    session: Session
    label: str
    current: bool


class Conversation:
    """One session at a time, in one container. `open` comes first."""

    def __init__(self, agentx: AgentX, *, container_id: str, model: str | None = None) -> None:
        self._agentx = agentx
        self._container_id = container_id
        self._model = model
        self._session: SessionHandle | None = None
        self._agent: AgentHandle | None = None
        self._attached: list[UserPart] = []
        self._untouched: str | None = None
        """The image that was made for this conversation, as long as nothing was answered in it."""

    @property
    def session(self) -> SessionHandle:
        if self._session is None:
            raise RuntimeError("open() or start() comes first")
        return self._session

    async def open(self, session_id: str | None, *, fresh: bool = False) -> None:
        """The session of that id; without one the container's last, or a new one if `fresh` or a model was chosen."""
        if session_id is not None:
            await self.resume(session_id)
            return
        images = () if fresh or self._model is not None else await self._agentx.images.list(self._container_id)
        if not images:
            await self.start()
            return
        newest = max(images, key=lambda image: image.updated_at)
        sessions = await self._agentx.sessions.list(newest.image_id)
        await self._enter(max(sessions, key=lambda session: session.record.updated_at))

    async def start(self) -> None:
        """A session of an image of its own, so that it follows the server's default model unless one was chosen."""
        image = await self._agentx.images.create(ImageConfig(model=self._model), container_id=self._container_id)
        await self.resume(image.session_id)
        self._untouched = image.image_id

    async def resume(self, session_id: str) -> None:
        session = await self._agentx.sessions.get(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        await self._enter(session)

    async def list(self) -> tuple[Listed, ...]:
        """The container's last sessions, newest first. Those where nothing was said are left out, but for the current one."""
        images = await self._agentx.images.list(self._container_id)
        found: list[SessionHandle] = []
        for image in sorted(images, key=lambda image: image.updated_at, reverse=True)[:MAX_LISTED]:
            found += await self._agentx.sessions.list(image.image_id)
        found.sort(key=lambda session: session.record.updated_at, reverse=True)
        listed = [await self._describe(session) for session in found[:MAX_LISTED]]
        return tuple(item for item in listed if item.label or item.current)

    async def messages(self) -> tuple[Message, ...]:
        return await self.session.messages()

    async def set_title(self, title: str) -> None:
        await self.session.set_title(title)

    @property
    def container_id(self) -> str:
        return self._container_id

    def attach(self, part: UserPart) -> None:
        """It goes with what is said next."""
        self._attached.append(part)

    async def say(self, text: str) -> AsyncGenerator[WireEvent, None]:
        """Sends, then yields every event of the turn; what was shown is read."""
        if self._agent is None and self._session is not None:
            # What it was in is gone with what was refused.
            await self.start()
        if self._agent is None:
            raise RuntimeError("open() or start() comes first")
        content = (*self._attached, TextPart(text=text)) if self._attached else text
        self._attached = []
        refused = False
        try:
            async with aclosing(self._agent.stream(content)) as events:
                async for event in events:
                    refused = refused or (event.type == "error_occurred" and event.data.get("code") in REFUSED)
                    yield event
        except Refused:
            refused = True
            raise
        finally:
            await self._settle(refused=refused)
        with suppress(AgentVMError):
            # A server from before there were marks, or a key that may not set any: nothing is lost by it.
            await self._agentx.sessions.mark_read(self.session.session_id)

    async def _settle(self, *, refused: bool) -> None:
        """Of a first message that was refused nothing is left behind."""
        made, self._untouched = self._untouched, None
        if refused and made is not None:
            self._agent = None
            with suppress(AgentVMError):
                await self._agentx.images.delete(made)

    async def interrupt(self) -> None:
        """Stops the running turn. By session and not by agent: after a reconnection the agent may be another."""
        record = self.session.record
        await self._agentx.request("agent_interrupt_request", {"imageId": record.image_id, "sessionId": record.session_id})

    async def _enter(self, session: SessionHandle) -> None:
        self._agent = await session.resume()
        self._session, self._untouched = session, None

    async def _describe(self, session: SessionHandle) -> Listed:
        label = session.record.title or first_words(await session.messages())
        return Listed(session=session.record, label=label, current=session.session_id == self.session.session_id)


def first_words(messages: tuple[Message, ...]) -> str:
    """What the user said first, on one line; empty when nothing was said."""
    said = next((text_of(message.content) for message in messages if isinstance(message, UserMessage)), "")
    words = " ".join(said.split())
    return words if len(words) <= MAX_LABEL else f"{words[: MAX_LABEL - 1]}…"


def text_of(content: UserContent) -> str:
    """What of a user's message can be shown in a terminal."""
    if isinstance(content, str):
        return content
    return " ".join(part.text if isinstance(part, TextPart) else f"[{type(part).__name__[:-4].lower()}]" for part in content)
