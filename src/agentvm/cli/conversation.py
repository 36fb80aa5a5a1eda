"""Conversation — the session somebody is chatting in, and the others of its container. Everything it knows is on the server."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from html import unescape

from agentvm.cli.beginning import Beginning
from agentvm.errors import AgentVMError, ChannelClosed, InvalidInput, Refused, SessionNotFound
from agentvm.model.message import Message, TextPart, UserContent, UserMessage, UserPart
from agentvm.model.session import Session
from agentvm.protocol import commands as ask
from agentvm.protocol.handles import AgentHandle, SessionHandle
from agentvm.protocol.link import WireEvent
from agentvm.protocol.records import FoundRecord, TitleRecord
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A line of search results: a session, and the place in it."""

    session_id: str
    label: str
    at: int
    snippet: str


class Conversation:
    """One session at a time, in one container. `open` comes first."""

    def __init__(self, agentx: AgentX, *, container_id: str, beginning: Beginning | None = None) -> None:
        self._agentx = agentx
        self._container_id = container_id
        self._beginning = beginning or Beginning()
        self._session: SessionHandle | None = None
        self._agent: AgentHandle | None = None
        self._attached: list[UserPart] = []
        self._warnings: list[str] = []
        self._untouched: str | None = None
        """The image that was made for this conversation, as long as nothing was answered in it."""

    @property
    def session(self) -> SessionHandle:
        if self._session is None:
            raise RuntimeError("open() or start() comes first")
        return self._session

    async def open(self, session_id: str | None, *, fresh: bool = False) -> None:
        """The session of that id; without one the last of the container or of the chosen agent, or a new one if `fresh`.

        Also a new one for a model or a system prompt that was chosen: an old session has its own.
        """
        if session_id is not None:
            await self.resume(session_id)
            return
        last = None if fresh else await self._beginning.last_session(self._agentx, self._container_id)
        if last is None:
            await self.start()
        else:
            await self._enter(last)

    async def start(self) -> None:
        """A new session: of the chosen image, else of an image of its own."""
        session, warnings = await self._beginning.new_session(self._agentx, self._container_id)
        self._warnings += warnings
        await self._enter(session)
        self._untouched = None if self._beginning.image_id is not None else session.record.image_id

    def take_warnings(self) -> tuple[str, ...]:
        """Returns each warning of the server about images it built, once."""
        told = tuple(self._warnings)
        self._warnings.clear()
        return told

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

    @property
    def agentx(self) -> AgentX:
        return self._agentx

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
        agent = self._agent
        content = (*self._attached, TextPart(text=text)) if self._attached else text
        self._attached = []
        refused = False
        try:
            async with aclosing(self._follow(lambda: agent.receive(content))) as events:
                async for event in events:
                    refused = refused or (event.type == "error_occurred" and event.data.get("code") in REFUSED)
                    yield event
        except Refused:
            refused = True
            raise
        finally:
            await self._settle(refused=refused)

    async def edit(self, text: str) -> AsyncGenerator[WireEvent, None]:
        """Says that in place of the last message of the user, with the files that went with it; like `say`."""
        message = await self.last_question()
        parts = () if isinstance(message.content, str) else message.content
        files = [part for part in (*parts, *self._attached) if not isinstance(part, TextPart)]
        self._attached = []
        content = (*files, TextPart(text=text)) if files else text
        async with aclosing(self._follow(lambda: self.session.edit(message.id, content))) as events:
            async for event in events:
                yield event

    async def retry(self) -> AsyncGenerator[WireEvent, None]:
        """Has the last answer made anew; like `say`."""
        await self.last_question()
        async with aclosing(self._follow(self.session.regenerate)) as events:
            async for event in events:
                yield event

    async def _follow(self, send: Callable[[], Awaitable[ask.MessageSendReply]]) -> AsyncGenerator[WireEvent, None]:
        async with self._agentx.link.events() as events:
            sent = await send()
            async for event in events:
                if event.context.get("turnId") == sent.turn_id:
                    yield event
                    if event.type == "turn_response":
                        break
            else:
                raise ChannelClosed("The connection was lost before the turn ended; /history shows what was answered")
        with suppress(AgentVMError):
            # A server from before there were marks, or a key that may not set any: nothing is lost by it.
            await self._agentx.sessions.mark_read(self.session.session_id)

    async def _settle(self, *, refused: bool) -> None:
        """Deletes the image of a first message that was refused."""
        made, self._untouched = self._untouched, None
        if refused and made is not None:
            self._agent = None
            with suppress(AgentVMError):
                await self._agentx.images.delete(made)

    async def last_question(self) -> UserMessage:
        questions = [message for message in await self.messages() if isinstance(message, UserMessage)]
        if not questions:
            raise InvalidInput("nothing was said in this session yet")
        return questions[-1]

    async def fork(self, number: int | None = None) -> int:
        """Goes on in a copy of the session, up to the answer to the user's message of that number; how many it has."""
        messages = await self.messages()
        if not messages:
            raise InvalidInput("nothing was said in this session yet")
        places = [place for place, message in enumerate(messages) if isinstance(message, UserMessage)]
        if number is not None and not 1 <= number <= len(places):
            raise InvalidInput(f"there is no message number {number}; /history shows them")
        end = places[number] if number is not None and number < len(places) else len(messages)
        await self._enter(await self.session.fork(messages[end - 1].id))
        return end

    async def model(self) -> str | None:
        """The model that answers, as `<provider>/<model>`; None if the server does not say."""
        record = await self._agentx.images.get(self.session.record.image_id)
        return None if record is None or record.config is None else record.config.model

    async def set_model(self, name: str) -> int:
        """From the next message on, also of sessions that are started later; how many sessions it counts for."""
        image_id = self.session.record.image_id
        wanted = ask.ImageUpdate(image_id=image_id, updates=ask.ImageUpdates(model=name))
        self._warnings += (await self._agentx.link.ask(wanted)).warnings or ()
        self._beginning = self._beginning.with_model(name)
        return len(await self._agentx.sessions.list(image_id))

    async def interrupt(self) -> None:
        """Stops the running turn. By session and not by agent: after a reconnection the agent may be another."""
        record = self.session.record
        await self._agentx.request("agent_interrupt_request", {"imageId": record.image_id, "sessionId": record.session_id})

    async def _enter(self, session: SessionHandle) -> None:
        self._agent = await session.resume()
        self._session = session
        self._untouched = None
        # A search finds sessions of other containers, too.
        self._container_id = session.record.container_id

    async def _describe(self, session: SessionHandle) -> Listed:
        label = session.record.title or first_words(await session.messages())
        return Listed(session=session.record, label=label, current=session.session_id == self.session.session_id)


def first_words(messages: tuple[Message, ...]) -> str:
    """What the user said first, on one line; empty when nothing was said."""
    said = next((text_of(message.content) for message in messages if isinstance(message, UserMessage)), "")
    words = " ".join(said.split())
    return words if len(words) <= MAX_LABEL else f"{words[: MAX_LABEL - 1]}…"


async def search(agentx: AgentX, words: str) -> tuple[Hit, ...]:
    """Sessions in which that was said, the best first, each with one place."""
    reply = await agentx.sessions.search(words, limit=50)
    found: dict[str, Hit] = {}
    places: list[TitleRecord | FoundRecord] = [*(reply.titles or ()), *reply.found]
    for one in places:
        found.setdefault(one.session_id, _hit(one))
    return tuple(found.values())[:MAX_LISTED]


def _hit(found: FoundRecord | TitleRecord) -> Hit:
    snippet = "" if isinstance(found, TitleRecord) else unescape(re.sub(r"</?mark>", "", found.snippet))
    return Hit(session_id=found.session_id, label=found.title or "", at=found.at, snippet=snippet)


def words_of(content: UserContent) -> str:
    """The text of a message, without the files that went with it."""
    return content if isinstance(content, str) else "\n".join(part.text for part in content if isinstance(part, TextPart))


def text_of(content: UserContent) -> str:
    """What of a user's message can be shown in a terminal."""
    if isinstance(content, str):
        return content
    return " ".join(part.text if isinstance(part, TextPart) else f"[{type(part).__name__[:-4].lower()}]" for part in content)
