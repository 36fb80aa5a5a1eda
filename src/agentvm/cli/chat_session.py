"""Chat session — the current session of a chat, and the other sessions of its container. All state is on the server."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from html import unescape
from typing import Any

import msgspec

from agentvm.cli.session_start import SessionStart
from agentvm.cli.table import shortened
from agentvm.client.handles import AgentHandle, SessionHandle
from agentvm.client.verbs import AgentX
from agentvm.errors import AgentVMError, ChannelClosed, InvalidInput, Refused, SessionNotFound
from agentvm.model.message import Message, TextPart, UserContent, UserMessage, UserPart
from agentvm.model.session import Session
from agentvm.operations.image_build import ImageUpdate, ImageUpdates
from agentvm.operations.message import MessageSendReply
from agentvm.protocol.link import WireEvent
from agentvm.protocol.records import FoundRecord, TitleRecord

LISTED_SESSIONS_MAX = 20
"""Sessions that `/sessions` shows; each without a title costs a request."""

LABEL_CHARACTERS_MAX = 60

REFUSED = frozenset({"quota_exceeded", "wallet_empty", "model_unpriced"})
"""Error codes of turns that ended before a model call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChoice:
    """A line of the list of sessions."""

    session: Session
    label: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchChoice:
    """A search result: a session and a matching message."""

    session_id: str
    label: str
    at: int
    snippet: str


class ChatSession:
    """A chat in one container, with one session open at a time. Call `open` first."""

    def __init__(self, agentx: AgentX, *, container_id: str, start: SessionStart | None = None) -> None:
        self._agentx = agentx
        self._container_id = container_id
        self._start = start or SessionStart()
        self._session: SessionHandle | None = None
        self._agent: AgentHandle | None = None
        self._attached: list[UserPart] = []
        self.answers_held = False
        """Whether the events of a turn end at a question whose call is held open, so that it can be answered in time."""
        self._warnings: list[str] = []
        self._unused_image: str | None = None
        """The image created for this chat, until its first answer."""

    @property
    def session(self) -> SessionHandle:
        if self._session is None:
            raise RuntimeError("call open() or start() first")
        return self._session

    async def open(self, session_id: str | None, *, fresh: bool = False) -> None:
        """Opens the session; without an id the last one of the container or chosen agent, or a new one if `fresh`.

        A chosen model or system prompt also starts a new session: an old one has its own.
        """
        if session_id is not None:
            await self.resume(session_id)
            return
        last = None if fresh else await self._start.last_session(self._agentx, self._container_id)
        if last is None:
            await self.start()
        else:
            await self._enter(last)

    async def start(self) -> None:
        """Starts a session of the chosen image, or of a new image."""
        session, warnings = await self._start.new_session(self._agentx, self._container_id)
        self._warnings += warnings
        await self._enter(session)
        self._unused_image = None if self._start.image_id is not None else session.record.image_id

    def take_warnings(self) -> tuple[str, ...]:
        """Returns and clears the build warnings of the server."""
        warnings = tuple(self._warnings)
        self._warnings.clear()
        return warnings

    async def resume(self, session_id: str) -> None:
        session = await self._agentx.sessions.get(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        await self._enter(session)

    async def list(self) -> tuple[SessionChoice, ...]:
        """The latest sessions of the container, newest first, without empty ones other than the current."""
        images = await self._agentx.images.list(self._container_id)
        sessions: list[SessionHandle] = []
        for image in sorted(images, key=lambda image: image.updated_at, reverse=True)[:LISTED_SESSIONS_MAX]:
            sessions += await self._agentx.sessions.list(image.image_id)
        sessions.sort(key=lambda session: session.record.updated_at, reverse=True)
        choices = [await self._describe(session) for session in sessions[:LISTED_SESSIONS_MAX]]
        return tuple(item for item in choices if item.label or item.current)

    async def messages(self) -> tuple[Message, ...]:
        return await self.session.messages()

    @property
    def agentx(self) -> AgentX:
        return self._agentx

    @property
    def container_id(self) -> str:
        return self._container_id

    def attach(self, part: UserPart) -> None:
        """Attaches a file to the next message."""
        self._attached.append(part)

    async def send(self, text: str) -> AsyncGenerator[WireEvent, None]:
        """Sends a message, yields every event of the turn and marks the session as read."""
        if self._agent is None and self._session is not None:
            # The image was deleted after a refused message.
            await self.start()
        if self._agent is None:
            raise RuntimeError("call open() or start() first")
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
        """Replaces the last user message, keeps its files, and yields the events of the new turn."""
        message = await self.last_question()
        parts = () if isinstance(message.content, str) else message.content
        files = [part for part in (*parts, *self._attached) if not isinstance(part, TextPart)]
        self._attached = []
        content = (*files, TextPart(text=text)) if files else text
        async with aclosing(self._follow(lambda: self.session.edit(message.id, content))) as events:
            async for event in events:
                yield event

    async def retry(self) -> AsyncGenerator[WireEvent, None]:
        """Regenerates the last answer and yields the events of the turn."""
        await self.last_question()
        async with aclosing(self._follow(self.session.regenerate)) as events:
            async for event in events:
                yield event

    async def answer(self, wait: Mapping[str, Any], **answer: object) -> AsyncGenerator[WireEvent, None]:
        """Answers a call that waits, and yields the events of its turn from there on."""
        named = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"]}

        async def send() -> str:
            await self._agentx.request("tool_answer_request", {**named, **answer})
            return str(wait["turnId"])

        async with aclosing(self._follow_turn(send)) as events:
            async for event in events:
                yield event

    async def open_waits(self) -> tuple[Mapping[str, Any], ...]:
        """Calls of the session that wait for an answer since before, as their events told of them."""
        try:
            reply = await self._agentx.request("tool_waits_request", {"sessionId": self.session.session_id, "state": "open"})
        except AgentVMError:
            # An older server, or a key without the permission: a chat goes on without.
            return ()
        waits = msgspec.convert(reply.data["waits"], tuple[dict[str, Any], ...])
        return tuple({**wait, "toolName": wait["tool"]} for wait in waits if not wait.get("held"))

    async def _follow(self, send: Callable[[], Awaitable[MessageSendReply]]) -> AsyncGenerator[WireEvent, None]:
        async def begin() -> str | None:
            return (await send()).turn_id

        async with aclosing(self._follow_turn(begin)) as events:
            async for event in events:
                yield event

    async def _follow_turn(self, begin: Callable[[], Awaitable[str | None]]) -> AsyncGenerator[WireEvent, None]:
        """Yields the events of a turn until it ends, or waits for answers."""
        async with self._agentx.runtime.channel.events() as events:
            turn_id = await begin()
            async for event in events:
                if event.context.get("turnId") == turn_id:
                    yield event
                    is_held = self.answers_held and event.type == "tool_waiting" and bool(event.data.get("held"))
                    if is_held or event.type in ("turn_response", "turn_parked"):
                        break
            else:
                raise ChannelClosed("The connection was lost before the turn ended; /history shows the answer")
        with suppress(AgentVMError):
            # An older server, or a key without the permission; the mark is optional.
            await self._agentx.sessions.mark_read(self.session.session_id)

    async def _settle(self, *, refused: bool) -> None:
        """Deletes the new image if its first message was refused."""
        image_id, self._unused_image = self._unused_image, None
        if refused and image_id is not None:
            self._agent = None
            with suppress(AgentVMError):
                await self._agentx.images.delete(image_id)

    async def last_question(self) -> UserMessage:
        questions = [message for message in await self.messages() if isinstance(message, UserMessage)]
        if not questions:
            raise InvalidInput("the session has no messages")
        return questions[-1]

    async def fork(self, number: int | None = None) -> int:
        """Continues in a copy of the session up to the answer to user message `number`; returns the message count."""
        messages = await self.messages()
        if not messages:
            raise InvalidInput("the session has no messages")
        positions = [position for position, message in enumerate(messages) if isinstance(message, UserMessage)]
        if number is not None and not 1 <= number <= len(positions):
            raise InvalidInput(f"message {number} does not exist; /history lists them")
        end = positions[number] if number is not None and number < len(positions) else len(messages)
        await self._enter(await self.session.fork(messages[end - 1].id))
        return end

    async def model(self) -> str | None:
        """The model of the session, as `<provider>/<model>`; None if the server does not report it."""
        record = await self._agentx.images.get(self.session.record.image_id)
        return None if record is None or record.config is None else record.config.model

    async def set_model(self, name: str) -> int:
        """Changes the model from the next message on; returns the number of sessions that use it."""
        image_id = self.session.record.image_id
        update = ImageUpdate(image_id=image_id, updates=ImageUpdates(model=name))
        self._warnings += (await self._agentx.runtime.channel.ask(update)).warnings or ()
        self._start = self._start.with_model(name)
        return len(await self._agentx.sessions.list(image_id))

    async def interrupt(self) -> None:
        """Interrupts the running turn, addressed by session: a reconnection may change the agent."""
        record = self.session.record
        await self._agentx.request("agent_interrupt_request", {"imageId": record.image_id, "sessionId": record.session_id})

    async def _enter(self, session: SessionHandle) -> None:
        self._agent = await session.resume()
        self._session = session
        self._unused_image = None
        # Search results include sessions of other containers.
        self._container_id = session.record.container_id

    async def _describe(self, session: SessionHandle) -> SessionChoice:
        label = session.record.title or first_words(await session.messages())
        return SessionChoice(session=session.record, label=label, current=session.session_id == self.session.session_id)


def first_words(messages: tuple[Message, ...]) -> str:
    """The first user message on one line; empty without messages."""
    text = next((text_of(message.content) for message in messages if isinstance(message, UserMessage)), "")
    return shortened(text, LABEL_CHARACTERS_MAX)


async def search(agentx: AgentX, words: str) -> tuple[SearchChoice, ...]:
    """Sessions that match, best first, each with one matching message."""
    reply = await agentx.sessions.search(words, limit=50)
    choices: dict[str, SearchChoice] = {}
    hits: list[TitleRecord | FoundRecord] = [*(reply.titles or ()), *reply.found]
    for hit in hits:
        choices.setdefault(hit.session_id, _choice(hit))
    return tuple(choices.values())[:LISTED_SESSIONS_MAX]


def _choice(hit: FoundRecord | TitleRecord) -> SearchChoice:
    snippet = "" if isinstance(hit, TitleRecord) else unescape(re.sub(r"</?mark>", "", hit.snippet))
    return SearchChoice(session_id=hit.session_id, label=hit.title or "", at=hit.at, snippet=snippet)


def words_of(content: UserContent) -> str:
    """The text of a message without its files."""
    return content if isinstance(content, str) else "\n".join(part.text for part in content if isinstance(part, TextPart))


def text_of(content: UserContent) -> str:
    """A user message as terminal text, with a placeholder for each file."""
    if isinstance(content, str):
        return content
    return " ".join(part.text if isinstance(part, TextPart) else f"[{type(part).__name__[:-4].lower()}]" for part in content)
