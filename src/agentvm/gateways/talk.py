"""Talk — the one way from a gateway to an agent: through the operations, with their gate, quotas, audit log and metering.

A request of a gateway has one Talk. It has no channel: an answer is read from the log, from a cursor on.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import anyio
from msgspec import structs

from agentvm.errors import ContainerForbidden, NotFound, Unprocessable, not_found
from agentvm.gateways.turn_parts import PartReader, TurnPart
from agentvm.gateways.uploads import attach
from agentvm.model.ids import ContainerId, ImageId, SessionId, TurnId
from agentvm.model.message import UserContent, UserMessage
from agentvm.model.principal import Principal
from agentvm.model.session import UNSTORED, Alias, Session
from agentvm.model.turn import OnParked, Turn, TurnOptions
from agentvm.operations.agent import AgentInterrupt
from agentvm.operations.context import Context
from agentvm.operations.dispatch import execute
from agentvm.operations.image_open import ImageOpen
from agentvm.operations.message import MessageSend
from agentvm.operations.message_ask import KEY_REUSED
from agentvm.operations.session_open import SessionOpen, discarded_if_refused
from agentvm.protocol.records import ImageRecord
from agentvm.protocol.requests import R_co, Request
from agentvm.runtime.follow import TurnFollower
from agentvm.runtime.turn_log import TurnLog
from agentvm.sessions.seeding import SeedMessage
from agentvm.storage.sessions import TurnQuery
from agentvm.storage.sql.aliases import AliasStore
from agentvm.vm import LISTEN_PERMISSION, AgentVM

OTHER_AGENT = "This session is a conversation with another agent: ask {image_id}, or begin another session"
STOP_SECONDS = 10.0
"""Time that stopping a turn takes at most, and waiting for its end."""


@dataclass(frozen=True, slots=True)
class SentTurn:
    """A turn that a message has begun, now or earlier under the same key, and the cursor before its events."""

    turn: Turn
    cursor: int

    @property
    def turn_id(self) -> TurnId:
        return self.turn.turn_id

    @property
    def session_id(self) -> SessionId:
        return self.turn.session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """The requests of one caller of a gateway."""

    vm: AgentVM
    principal: Principal
    request_id: str = ""
    address: str | None = None
    created: set[SessionId] = field(default_factory=set)
    """The sessions that this request has created."""

    def context(self) -> Context:
        workspace = self.vm.workspace(self.principal)
        return Context(vm=self.vm, workspace=workspace, request_id=self.request_id, address=self.address)

    async def ask(self, request: Request[R_co]) -> R_co:
        """Carries out an operation of the table."""
        with self.context() as context:
            reply = await execute(context, request)
            context.finish()
            return reply

    def container(self, named: str | None, end_user: str | None = None) -> ContainerId:
        """Returns the container that a request is about; `ContainerForbidden` for one that is not within reach.

        `named` is the caller's own choice. `end_user` is the dialect's word for a user of the caller; it decides for a key that
        belongs to no user and reaches several containers.
        """
        context = self.context()
        if named is not None:
            return context.workspace.container_id(named)
        if not end_user or self.principal.user_id is not None or _is_bound(self.principal):
            return context.images.home()
        container_id = ContainerId(f"user-{end_user}")
        if not self.principal.reaches(container_id):
            raise ContainerForbidden(container_id)
        return context.workspace.container_id(container_id)

    async def agent(self, name: str, container_id: ContainerId) -> ImageRecord:
        """Returns the image of an agent: a definition's name, the URI or name of an agent, or the id of an image."""
        return (await self.ask(ImageOpen(agent=name, container_id=container_id))).record

    async def open(
        self,
        image_id: ImageId,
        alias: Alias | None,
        *,
        seeds: tuple[SeedMessage, ...] = (),
        archived: bool = False,
        title: str | None = None,
    ) -> Session:
        """Returns the session of that name; the first time, a new one with these messages."""
        gateway, external = alias or ("", None)
        if any(not isinstance(seed.content, str) for seed in seeds):
            container_id = (await self.context().workspace.image(image_id))[1].container_id
            attached = [await self.attach(container_id, seed.content) for seed in seeds]
            seeds = tuple(structs.replace(seed, content=content) for seed, content in zip(seeds, attached, strict=True))
        opening = SessionOpen(
            image_id=image_id, gateway=gateway, external=external, messages=seeds, archived=archived, title=title
        )
        opened = await self.ask(opening)
        if opened.created:
            self.created.add(opened.session.session_id)
        return opened.session

    def aliases(self, container_id: ContainerId) -> AliasStore:
        """Returns the names of sessions of a container within reach."""
        return self.context().workspace.store.container(container_id).aliases

    async def session(self, session_id: str) -> Session:
        """Returns a session within reach; `SessionNotFound` for any other."""
        self.principal.require(LISTEN_PERMISSION)
        return (await self.context().workspace.session(SessionId(session_id)))[1]

    async def repeated(self, session_id: str, image_id: ImageId) -> Session:
        """Returns the session of an earlier request under the same key; `Unprocessable` if that was for another agent."""
        return await self._session_with(session_id, image_id, KEY_REUSED)

    async def session_with(self, session_id: str, image_id: ImageId) -> Session:
        """Returns a session within reach that the caller has chosen; `Unprocessable` for one of another agent."""
        return await self._session_with(session_id, image_id, OTHER_AGENT)

    async def _session_with(self, session_id: str, image_id: ImageId, refusal: str) -> Session:
        session = await self.session(session_id)
        if session.image_id != image_id:
            raise Unprocessable(refusal.format(image_id=session.image_id))
        return session

    async def mark_unstored(self, session: Session) -> None:
        """Marks a session for deletion when its turns have ended, in case its client does not delete it."""
        alias = Alias(UNSTORED, session.session_id)
        await self.aliases(session.container_id).put(alias, session.session_id, self.vm.clock())

    async def turn(self, turn_id: str) -> Turn:
        """Returns a turn within reach; `NotFound` for any other."""
        self.principal.require(LISTEN_PERMISSION)
        turn = await self.context().store.find_turn(TurnId(turn_id))
        if turn is None:
            raise not_found("Turn", turn_id)
        return turn

    async def turns(self, session: Session, limit: int) -> tuple[Turn, ...]:
        """Returns the newest turns of a session within reach."""
        self.principal.require(LISTEN_PERMISSION)
        query = TurnQuery(session_id=session.session_id, now=self.vm.clock(), limit=limit)
        return (await self.context().store.sessions((session.container_id,)).turns(query)).items

    async def send(
        self,
        session_id: SessionId,
        content: UserContent,
        *,
        key: str | None = None,
        options: TurnOptions | None = None,
        on_busy: Literal["queue", "interrupt", "reject"] = "queue",
        on_parked: OnParked = "supersede",
    ) -> SentTurn:
        """Sends a message. `key` is the caller's name for it: sent again, it is the same turn.

        Files inside it become attachments. `Unprocessable` for another message under a name that was used. A session that was
        created for a message that is refused is deleted again.
        """
        self.principal.require(LISTEN_PERMISSION)
        with self.context() as context:
            async with discarded_if_refused(context, session_id if session_id in self.created else None):
                if not isinstance(content, str):
                    content = await self.attach((await self.session(session_id)).container_id, content)
                sending = MessageSend(
                    session_id=session_id,
                    content=content,
                    client_message_id=key,
                    options=options,
                    on_busy=on_busy,
                    on_parked=on_parked,
                )
                reply = await self.ask(sending)
        turn = await self.turn(reply.turn_id or "")
        if reply.cursor is not None:
            return SentTurn(turn, int(reply.cursor))
        if key is not None and turn.client_key == key:
            await self._check_same(turn, content, options)
        return await self.sent(turn)

    async def _check_same(self, turn: Turn, content: UserContent, options: TurnOptions | None) -> None:
        """Refuses another message under the key of an earlier one."""
        log = self.context().store.container(turn.container_id).log(turn.session_id)
        earlier = await log.get_messages([turn.message_id])
        is_other = any(isinstance(message, UserMessage) and message.content != content for message in earlier)
        if is_other or turn.options != options:
            raise Unprocessable(KEY_REUSED)

    async def attach(self, container_id: ContainerId, content: UserContent) -> UserContent:
        """Returns the content with its files stored as attachments of the container."""
        self.principal.require("agent:use")
        return await attach(self.context(), container_id, content)

    async def sent(self, turn: Turn) -> SentTurn:
        """Returns a turn with the cursor before its first event."""
        return SentTurn(turn, await self.vm.runtime.turn_cursor(self.principal.tenant_id, turn))

    async def cursor(self, session: Session) -> int:
        """Returns the cursor after which new events of a session follow."""
        last = self.vm.runtime.replay.last(self.principal.tenant_id, session.session_id)
        if last is not None:
            return last
        return await self.vm.runtime.log_cursor(self.principal.tenant_id, session.container_id, session.session_id)

    def follow(self, sent: SentTurn) -> TurnFollower:
        """Returns a reader of the turn's events, to be used in a `with` block."""
        return self.vm.runtime.follow_turn(self.principal.tenant_id, sent.turn, sent.cursor)

    async def parts(self, sent: SentTurn) -> AsyncIterator[TurnPart]:
        """Yields the parts of the turn, until it has ended."""
        reader = PartReader()
        with self.follow(sent) as follower:
            while events := await follower.take():
                for event in events:
                    for part in reader.read(event):
                        yield part

    async def read_parts(self, turn: Turn) -> tuple[list[TurnPart], bool]:
        """Returns the parts of the turn so far, and whether the log still holds all of them."""
        runtime, reader = self.vm.runtime, PartReader()
        events, is_complete = await TurnLog(self.vm.store, runtime.replay, self.principal.tenant_id, turn).read_all()
        return [part for event in events for part in reader.read(event)], is_complete

    async def stop(self, sent: SentTurn) -> None:
        """Interrupts the turn, even if others wait for it; shielded, because the caller is being cancelled.

        A session that was deleted has no turns any more.
        """
        with anyio.move_on_after(STOP_SECONDS, shield=True), suppress(NotFound):
            await self.ask(AgentInterrupt(session_id=sent.session_id, turn_id=sent.turn_id))

    async def end(self, sent: SentTurn) -> None:
        """Interrupts the turn and waits for its end. One behind another ends when it is its turn, and is not waited for."""
        is_queued = await self.is_queued(sent.turn)
        await self.stop(sent)
        if is_queued:
            return
        with anyio.move_on_after(STOP_SECONDS):
            async for _ in self.parts(sent):
                pass

    async def is_queued(self, turn: Turn) -> bool:
        """Returns whether another turn of the session runs before this one."""
        query = TurnQuery(session_id=turn.session_id, outcome="running", now=self.vm.clock())
        running = (await self.context().store.sessions((turn.container_id,)).turns(query)).items
        return turn.parked_at is None and bool(running) and running[-1].turn_id != turn.turn_id


def _is_bound(principal: Principal) -> bool:
    """Returns whether a principal reaches one container only."""
    return principal.containers is not None and len(principal.containers) == 1 and principal.home is not None
