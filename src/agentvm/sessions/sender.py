"""Message sender — accepts a user message: checks quotas, de-duplicates by client key, returns a turn to release."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from agentvm.errors import AgentVMError, InvalidInput, SessionNotFound, ShuttingDown
from agentvm.errors.bounds import InputTooLarge
from agentvm.events.lifecycle import SessionRewound
from agentvm.model.ids import ContainerId, MessageId, SessionId, TurnId, is_sub_session
from agentvm.model.message import UserContent, measure
from agentvm.model.schedule import SourceRun
from agentvm.model.turn import OnParked, Turn, TurnOptions, TurnOrigin
from agentvm.runtime import attached
from agentvm.runtime.accepted import Accepted, Incoming, OnBusy
from agentvm.runtime.agent import Agent
from agentvm.runtime.answering import LEAST_ANSWER_TOKENS
from agentvm.runtime.history import Choose
from agentvm.runtime.sending import sending
from agentvm.runtime.turn_options import apply_options, check_options
from agentvm.sessions.workspace import Workspace
from agentvm.tenants.book import release

T = TypeVar("T")

ENVELOPE_BYTES = 2
"""Minimum size of a message besides its text and files."""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that was accepted, now or earlier under the same client key. Only a new one has an `accepted` turn."""

    agent: Agent
    message_id: MessageId
    turn_id: TurnId
    accepted: Accepted | None = None
    rewound: SessionRewound | None = None
    interrupted: Accepted | None = None
    """The turn that is stopped for it."""

    @property
    def cursor(self) -> str | None:
        return None if self.accepted is None else str(self.accepted.cursor)

    def release(self) -> None:
        """Stops the interrupted turn and lets the new one run; to be called once the sender was answered."""
        self.agent.cancel(self.interrupted)
        if self.accepted is not None:
            self.agent.release(self.accepted)


@dataclass(frozen=True, slots=True)
class UnattendedStart:
    """The additions of a schedule or trigger to the message that it sends."""

    origin: TurnOrigin
    run: SourceRun
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class MessageSender:
    """Sends messages for the workspace's principal, who is billed for the answers."""

    workspace: Workspace

    def check_accepting(self) -> None:
        if not self.workspace.runtime.accepting:
            raise ShuttingDown("The server is shutting down; reconnect and try again")

    async def send(
        self,
        agent: Agent,
        content: UserContent,
        *,
        client_key: str | None = None,
        on_busy: OnBusy = "queue",
        on_parked: OnParked = "supersede",
        options: TurnOptions | None = None,
        unattended: UnattendedStart | None = None,
    ) -> SentMessage:
        """Accepts the message, unless one with this key was accepted before."""
        check_of_people(agent.session_id)
        size = self.measure(content)
        check_options(agent.image.definition, options)
        principal = self.workspace.principal
        incoming = Incoming(content, client_key, principal.user_id, principal.key_id, on_parked=on_parked, options=options)
        if unattended is not None:
            incoming = replace(incoming, origin=unattended.origin, run=unattended.run, tainted=unattended.tainted)
        if client_key is None:
            return await self._send(agent, incoming, size, on_busy)
        async with sending(agent, client_key) as earlier:
            if earlier is not None:
                return _sent_message(agent, earlier)
            return await self._send(agent, incoming, size, on_busy)

    async def _send(self, agent: Agent, incoming: Incoming, size: int, on_busy: OnBusy) -> SentMessage:
        await self._check_tokens(agent, incoming)
        interrupted = await agent.make_way(incoming.content, on_busy) if agent.busy else None
        try:
            accepted = await self._within_quotas(agent, size, partial(agent.receive, incoming))
        except AgentVMError:
            # Clients were told that it is being stopped.
            agent.cancel(interrupted)
            raise
        now = accepted.state
        return SentMessage(agent, now.user_message_id, now.turn_id, accepted, interrupted=interrupted)

    def measure(self, content: UserContent) -> int:
        """Returns the bytes of a message; `InputTooLarge` above the limits of one message."""
        limits = self.workspace.runtime.settings_of(self.workspace.tenant_id).limits
        text, inline = measure(content)
        if text > limits.message_bytes:
            raise InputTooLarge(
                f"The text of this message has {text:,} bytes; one message has at most {limits.message_bytes:,} "
                "(limits.messageBytes). Upload it as a file (POST /v1/attachments) and refer to it, or send it in parts"
            )
        if inline > limits.inline_bytes:
            raise InputTooLarge(
                f"The pictures and files inside this message have {inline:,} bytes; they may have {limits.inline_bytes:,} "
                "(limits.inlineBytes). Upload them (POST /v1/attachments) and refer to them"
            )
        return text + inline + ENVELOPE_BYTES

    async def _check_tokens(self, agent: Agent, incoming: Incoming) -> None:
        """Refuses a message before it is stored if the quota does not allow even its text and a short answer."""
        content = incoming.content
        max_tokens = apply_options(agent.image.definition, incoming.options).max_tokens or LEAST_ANSWER_TOKENS
        content_bytes = len(content.encode("utf-8", "surrogatepass")) if isinstance(content, str) else 0
        await self.workspace.tenancy.quotas.refuse_call(
            self.workspace.tenant_id, self.workspace.user_id, content_bytes + min(max_tokens, LEAST_ANSWER_TOKENS)
        )

    async def check_attached(self, container_id: ContainerId, content: UserContent) -> None:
        """Checks the attachments before a turn is interrupted for the message; the agent checks again."""
        files = self.workspace.tenancy.store.tenant(self.workspace.tenant_id).container(container_id).attachments
        await attached.check(
            files, content, self.workspace.runtime.settings_of(self.workspace.tenant_id).limits.attachments_per_message
        )

    async def rewrite(
        self,
        agent: Agent,
        choose: Choose,
        size: int,
        client_key: str | None,
        make_way: Callable[[], Awaitable[None]],
        options: TurnOptions | None = None,
    ) -> SentMessage:
        """Rewinds a part of the history and sends a message of at most that size instead."""
        check_of_people(agent.session_id)
        check_options(agent.image.definition, options)
        principal = self.workspace.principal
        asking = Incoming("", client_key, principal.user_id, principal.key_id, options=options)
        async with sending(agent, client_key) as earlier:
            if earlier is not None:
                return _sent_message(agent, earlier)
            await make_way()
            rewound, accepted = await self._within_quotas(agent, size, partial(agent.rewrite, choose, asking))
        if accepted is None:
            raise ValueError("a rewrite without a message")
        return SentMessage(agent, accepted.state.user_message_id, accepted.state.turn_id, accepted, rewound)

    async def _within_quotas(self, agent: Agent, size: int, receive: Callable[[], Awaitable[T]]) -> T:
        """Receives a message that is counted as running, or waiting, from before it is in the agent's inbox."""
        tenant_id, user_id, runtime = self.workspace.tenant_id, self.workspace.user_id, self.workspace.runtime
        # Read first: whether the agent is busy is looked at when the limits are known.
        await self.workspace.tenancy.quotas.book(tenant_id, user_id)
        roster = runtime.roster
        # A running agent is not one more.
        waiting, running = ("queued_messages", roster.count_waiting), ("running_agents", roster.count_running)
        metric, count = waiting if agent.busy else running
        reserved = await self.workspace.tenancy.quotas.reserve(
            tenant_id, user_id, metric, lambda tenant_id, _user_id: count(tenant_id)
        )
        try:
            await self.workspace.check_storage(size)
            return await receive()
        except SessionNotFound:
            # The image was deleted after the agent was found or started; nobody else would end it.
            await runtime.stop_agent(agent)
            raise
        finally:
            release(reserved)


def check_of_people(session_id: SessionId) -> None:
    """Refuses to change the conversation of a sub-agent, which its caller alone talks to."""
    if is_sub_session(session_id):
        raise InvalidInput("This is the work of a sub-agent; it can be read, and its caller is the one to talk to")


def _sent_message(agent: Agent, earlier: Turn) -> SentMessage:
    return SentMessage(agent, earlier.message_id, earlier.turn_id)
