"""Message sender — accepts a user message: checks quotas, de-duplicates by client key, returns a turn to release."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from agentvm.errors import AgentBusy, AgentVMError, SessionNotFound, ShuttingDown
from agentvm.errors.bounds import InputTooLarge
from agentvm.events.lifecycle import SessionRewound
from agentvm.model.ids import ContainerId, MessageId, TurnId
from agentvm.model.message import UserContent, measure
from agentvm.model.turn import Turn
from agentvm.runtime import attached
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.agent import Agent
from agentvm.runtime.answering import LEAST_ANSWER_TOKENS
from agentvm.runtime.history import Choose
from agentvm.sessions.workspace import Workspace

OnBusy = Literal["queue", "interrupt", "reject"]
"""While another turn runs: wait for it, stop it, or refuse the message."""

ENVELOPE_BYTES = 2
"""What a message has beside its text and its files, at least."""


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
class MessageSender:
    """Sends messages for the workspace's principal, who is billed for the answers."""

    workspace: Workspace

    def check_accepting(self) -> None:
        if not self.workspace.runtime.accepting:
            raise ShuttingDown("The server is shutting down; reconnect and try again")

    async def send(
        self, agent: Agent, content: UserContent, *, client_key: str | None = None, on_busy: OnBusy = "queue"
    ) -> SentMessage:
        """Accepts the message, unless one with this key was accepted before. Every check precedes an interrupt."""
        interrupted: Accepted | None = None

        async def make_way() -> None:
            nonlocal interrupted
            await self.check_attached(agent.container_id, content)
            await self._check_tokens(agent, content)
            if agent.busy and on_busy == "reject":
                raise AgentBusy("Another turn is running; wait for its end, or send with onBusy queue or interrupt")
            if agent.busy and on_busy == "interrupt":
                interrupted = await agent.interrupt()

        async def receive() -> tuple[SessionRewound | None, Accepted | None]:
            return None, await agent.receive(content, client_key, self.workspace.user_id)

        try:
            sent = await self._once(agent, self.measure(content), client_key, make_way, receive)
        except AgentVMError:
            # Everybody was told that it is being stopped.
            agent.cancel(interrupted)
            raise
        return replace(sent, interrupted=interrupted)

    def measure(self, content: UserContent) -> int:
        """Bytes of a message; `InputTooLarge` when it has more than one message may."""
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

    async def _check_tokens(self, agent: Agent, content: UserContent) -> None:
        """What cannot be answered is refused before it is stored: not even its own words and a short answer fit."""
        wanted = agent.image.definition.max_tokens or LEAST_ANSWER_TOKENS
        said = len(content.encode("utf-8", "surrogatepass")) if isinstance(content, str) else 0
        await self.workspace.tenancy.quotas.refuse_call(
            self.workspace.tenant_id, self.workspace.user_id, said + min(wanted, LEAST_ANSWER_TOKENS)
        )

    async def check_attached(self, container_id: ContainerId, content: UserContent) -> None:
        """Before somebody's turn is interrupted for it; the agent looks once more."""
        files = self.workspace.tenancy.store.tenant(self.workspace.tenant_id).container(container_id).attachments
        await attached.check(
            files, content, self.workspace.runtime.settings_of(self.workspace.tenant_id).limits.attachments_per_message
        )

    async def rewrite(
        self, agent: Agent, choose: Choose, size: int, client_key: str | None, make_way: Callable[[], Awaitable[None]]
    ) -> SentMessage:
        """Takes something back, and says something instead, of at most that size."""
        return await self._once(
            agent, size, client_key, make_way, lambda: agent.rewrite(choose, client_key, self.workspace.user_id)
        )

    async def _once(
        self,
        agent: Agent,
        size: int,
        client_key: str | None,
        make_way: Callable[[], Awaitable[None]],
        receive: Callable[[], Awaitable[tuple[SessionRewound | None, Accepted | None]]],
    ) -> SentMessage:
        async with agent.sending(client_key) as earlier:
            if earlier is not None:
                return _said(agent, earlier)
            await make_way()
            try:
                async with self._within_quotas(agent, size):
                    rewound, accepted = await receive()
            except SessionNotFound:
                # The image was deleted after the agent was found or started; nobody else would end it.
                await self.workspace.runtime.stop_agent(agent)
                raise
        if accepted is None:
            raise ValueError("nothing was said")
        return SentMessage(agent, accepted.state.user_message_id, accepted.state.turn_id, accepted, rewound)

    @asynccontextmanager
    async def _within_quotas(self, agent: Agent, size: int) -> AsyncIterator[None]:
        """To be left when the message is in the agent's inbox. A tenant with such limits sends one message after the other."""
        quotas, who = self.workspace.tenancy.quotas, (self.workspace.tenant_id, self.workspace.user_id)

        async def running() -> int:
            # One that runs already is not one more.
            return -1 if agent.busy else self.workspace.runtime.roster.count_running(self.workspace.tenant_id)

        async def waiting() -> int:
            return self.workspace.runtime.roster.count_waiting(self.workspace.tenant_id) if agent.busy else -1

        async with (
            quotas.adding(*who, "running_agents", running),
            quotas.adding(*who, "queued_messages", waiting),
        ):
            await self.workspace.check_storage(size)
            yield


def _said(agent: Agent, earlier: Turn) -> SentMessage:
    return SentMessage(agent, earlier.message_id, earlier.turn_id)
