"""Branches — fork a session, rewind it, edit a message, regenerate an answer.

No message is lost: rewound messages are kept, can be listed, and can be forked.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import anyio
import msgspec

from agentvm.blueprint.image import new_session
from agentvm.errors import AgentBusy, ImageNotFound, InvalidInput, NotFound, SessionNotFound
from agentvm.errors.bounds import HistoryTooLarge
from agentvm.events.lifecycle import SessionForked, SessionRewound
from agentvm.model.exchange import by_turn, extent
from agentvm.model.ids import ImageId, MessageId, SessionId
from agentvm.model.message import Message, UserContent
from agentvm.model.session import Fork, Rewind, Session, Summary, check_title
from agentvm.model.turn import TurnOptions
from agentvm.runtime import history
from agentvm.runtime.agent import Agent
from agentvm.runtime.lifecycle import AgentState
from agentvm.runtime.turn_options import still_allowed
from agentvm.sessions.library import SessionLibrary
from agentvm.sessions.sender import MessageSender, SentMessage, check_of_people
from agentvm.sessions.workspace import Workspace
from agentvm.storage.base import Recalled
from agentvm.storage.sql.log import LogStore

OnBusy = Literal["reject", "interrupt"]
"""While a turn runs: refuse the request, or stop that turn and the queued ones."""
RETRY_SECONDS = 0.005
"""Time until an interrupting request tries again."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Rewriting:
    """A change of a history that sends a message of at most `size` bytes, and the options of its turn."""

    choose: history.Choose
    size: int
    about: MessageId | None
    """The message that is changed or answered again; None for the last."""
    options: TurnOptions | None


@dataclass(frozen=True, slots=True)
class Branches:
    """Branches of the sessions in the workspace."""

    workspace: Workspace

    @property
    def sender(self) -> MessageSender:
        return MessageSender(self.workspace)

    async def fork(
        self, session_id: SessionId, *, message_id: MessageId | None, image_id: ImageId | None, title: str | None
    ) -> Session:
        """Creates a session with the messages of another, up to and including that message; by default with all of them.

        The message may also be a rewound one. The new session may belong to another image of the container.
        """
        check_title(title)
        origin = (await self.workspace.session(session_id))[1]
        container = self.workspace.store.container(origin.container_id)
        target = image_id or origin.image_id
        # Looked up: an image that was deleted with its last session is not found.
        home = await self.workspace.store.find_image(target)
        image = await container.get_image(target) if home == origin.container_id else None
        if image is None:
            raise ImageNotFound(target)
        # Read before the messages, so that no summary is newer than they are.
        summaries = await self.workspace.store.sessions((origin.container_id,)).summaries(session_id) or ()
        async with self.workspace.runtime.rewrites:
            messages = await self._messages(origin, message_id)
            await self.workspace.check_storage(sum(len(msgspec.json.encode(message)) for message in messages))
            now = self.workspace.clock()
            fork = Fork(session_id=session_id, message_id=messages[-1].id) if messages else None
            session = new_session(image, SessionId(self.workspace.new_id("sess")), title or origin.title, now)
            session = msgspec.structs.replace(session, forked_from=fork)
            await container.add_session(session, messages, files_of=session_id)
            await _copy_summary(container.log(session.session_id), messages, summaries)
        self._announce_fork(session, origin, None if fork is None else fork.message_id)
        return session

    async def rewinds(self, session_id: SessionId) -> tuple[Rewind, ...]:
        """Returns the rewinds of a session, the latest first."""
        origin = (await self.workspace.session(session_id))[1]
        rewinds = await self.workspace.store.sessions((origin.container_id,)).rewinds(session_id)
        if rewinds is None:
            raise SessionNotFound(session_id)
        return rewinds

    async def rewind(
        self, session_id: SessionId, *, message_id: MessageId | None, before: MessageId | None, on_busy: OnBusy
    ) -> SessionRewound | None:
        """Rewinds to `message_id`, or to the message before `before`. None when there was nothing to rewind."""
        check_of_people(session_id)
        agent = await self._agent(session_id)
        if (message_id is None) == (before is None):
            raise InvalidInput("Provide either messageId, the last message to keep, or before, the first message to rewind")
        with agent.in_use():
            choose = history.take_from(before) if before is not None else history.keep_to(message_id or MessageId(""))

            async def work() -> SessionRewound | None:
                await self._make_way(agent, choose, on_busy)
                return (await agent.rewrite(choose))[0]

            return await self._insist(agent, on_busy, work)

    async def edit(
        self,
        session_id: SessionId,
        message_id: MessageId,
        content: UserContent,
        *,
        client_key: str | None,
        on_busy: OnBusy,
        options: TurnOptions | None = None,
    ) -> SentMessage:
        """Rewinds to before that message and sends this content instead, by default with the options of that message."""
        origin = (await self.workspace.session(session_id))[1]
        if not content:
            raise InvalidInput("content must not be empty")
        await self.sender.check_attached(origin.container_id, content)
        size = self.sender.measure(content)
        rewriting = _Rewriting(history.edit(message_id, content), size, message_id, options)
        return await self._rewrite(session_id, rewriting, client_key, on_busy)

    async def regenerate(
        self,
        session_id: SessionId,
        message_id: MessageId | None,
        *,
        client_key: str | None,
        on_busy: OnBusy,
        options: TurnOptions | None = None,
    ) -> SentMessage:
        """Sends the question of that answer again, by default the last question, and by default with its options.

        The earlier answers are rewound.
        """
        # The question is stored already, so it needs no storage quota.
        rewriting = _Rewriting(history.regenerate(message_id), 0, message_id, options)
        return await self._rewrite(session_id, rewriting, client_key, on_busy)

    async def _rewrite(
        self, session_id: SessionId, rewriting: "_Rewriting", client_key: str | None, on_busy: OnBusy
    ) -> SentMessage:
        self.sender.check_accepting()
        agent, choose = await self._agent(session_id), rewriting.choose
        with agent.in_use():
            options = rewriting.options or await self._earlier_options(agent, rewriting.about)

            async def work() -> SentMessage:
                way = partial(self._make_way, agent, choose, on_busy)
                return await self.sender.rewrite(agent, choose, rewriting.size, client_key, way, options)

            return await self._insist(agent, on_busy, work)

    async def _earlier_options(self, agent: Agent, about: MessageId | None) -> TurnOptions | None:
        """Returns the options of the turn of that message, by default the newest, as far as they are still allowed."""
        container = self.workspace.store.container(agent.container_id)
        if about is None:
            messages, _ = await container.list_recent_messages(agent.session_id, 1, limit=1)
        else:
            messages = await container.log(agent.session_id).get_messages([about])
        turn_id = messages[-1].turn_id if messages else None
        turn = None if turn_id is None else await self.workspace.store.find_turn(turn_id)
        return None if turn is None else still_allowed(agent.image.definition, turn.options)

    async def _insist(self, agent: Agent, on_busy: OnBusy, work: Callable[[], Awaitable[T]]) -> T:
        """Retries an interrupting request while the agent is busy with another one, as long as a stop may take."""
        until = anyio.current_time() + self._patience(agent)
        while True:
            try:
                return await work()
            except AgentBusy:
                if on_busy != "interrupt" or anyio.current_time() >= until:
                    raise
            # A message that was accepted meanwhile is released when its sender has its reply.
            await anyio.sleep(RETRY_SECONDS)

    def _patience(self, agent: Agent) -> float:
        return self.workspace.runtime.settings_of(agent.tenant_id).limits.stop_seconds

    async def _make_way(self, agent: Agent, choose: history.Choose, on_busy: OnBusy) -> None:
        if on_busy == "interrupt" and agent.busy:
            # A request that will be refused must not stop the running turn.
            container = self.workspace.store.container(agent.container_id)
            async with self.workspace.runtime.rewrites:
                messages, truncated = await container.list_recent_messages(agent.session_id, history.REWRITE_MAX_BYTES)
                history.select(choose, messages, truncated)
            await _stop_turns(agent, self._patience(agent))

    async def _messages(self, origin: Session, message_id: MessageId | None) -> list[Message]:
        store = self.workspace.store
        if message_id is None:
            container = store.container(origin.container_id)
            messages, truncated = await container.list_recent_messages(origin.session_id, history.REWRITE_MAX_BYTES)
            if truncated:
                most = history.REWRITE_MAX_BYTES // 2**20
                raise HistoryTooLarge(
                    f"{origin.session_id} has more than {most} MiB; fork it from an earlier message, or export and import it"
                )
            return history.in_order(messages)
        sessions = store.sessions((origin.container_id,))
        before = await sessions.history(origin.session_id, message_id, history.REWRITE_MAX_BYTES)
        if before is None:
            raise NotFound(f"There is no message {message_id} in {origin.session_id}")
        return history.up_to(before, message_id)

    async def _agent(self, session_id: SessionId) -> Agent:
        origin = (await self.workspace.session(session_id))[1]
        image = await self.workspace.store.container(origin.container_id).get_image(origin.image_id)
        if image is None:
            raise ImageNotFound(origin.image_id)
        return self.workspace.runtime.start_agent(self.workspace.tenant_id, image, session_id)[0]

    def _announce_fork(self, session: Session, origin: Session, message_id: MessageId | None) -> None:
        SessionLibrary(self.workspace).announce_created(session)
        forked = SessionForked(
            original_session_id=origin.session_id,
            new_session_id=session.session_id,
            new_image_id=session.image_id,
            forked_at=session.created_at,
            message_id=message_id,
        )
        SessionLibrary(self.workspace).announce(session, forked)


async def _copy_summary(log: LogStore, messages: Sequence[Message], summaries: Sequence[Summary]) -> None:
    """Copies the newest summary that covers messages of a fork: it was paid for, and without it prompts would hold less.

    A rewind removes the end of a history, so a fork with the last summarized message has all of them.
    """
    ends = {exchange[-1].id: number for number, exchange in enumerate(by_turn(messages), 1)}
    for summary in summaries:
        covered = extent(messages, ends[summary.message_id]) if summary.message_id in ends else None
        if covered is not None and covered.message_id == summary.message_id:
            await log.add_summary(summary, covered, Recalled(messages=tuple(messages)))
            return


async def _stop_turns(agent: Agent, seconds: float) -> None:
    """Stops the running turn and the queued ones; returns when they have ended, or after the timeout."""
    # A turn that is not released yet does not run: it ends when it is.
    current = await agent.interrupt() if agent.state is AgentState.RUNNING else None
    for accepted in (current, *agent.inbox):
        agent.cancel(accepted)
    with anyio.move_on_after(seconds):
        await agent.rest()
