"""Agent calls — one call of an agent's tool: its sub-agent is found or begun, and waited for while it runs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from agentvm.errors import ToolFailed
from agentvm.model.ids import TurnId, sub_session_id
from agentvm.model.image import Image
from agentvm.model.message import AssistantMessage, ErrorMessage, Message, ToolCall, is_foreign
from agentvm.model.session import ParentCall, Session
from agentvm.model.turn import Turn, TurnOrigin
from agentvm.runtime.accepted import Accepted, Incoming
from agentvm.runtime.acting_agent import find_agent
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.carried import message_of
from agentvm.runtime.ports import TURN_MAX_BYTES, Ports
from agentvm.runtime.sending import sending
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.sub_agents import key_of, parent_of
from agentvm.runtime.tool import Tool
from agentvm.tools.base import InputRequired

if TYPE_CHECKING:
    from agentvm.runtime.agent import Agent

STOPPED = "The agent was stopped before it had an answer."
SILENT = "The agent ended without an answer."

Keep = Callable[[ToolCall, object], Awaitable[ToolOutcome]]
"""Returns the outcome of a call with this result."""


class AgentCalls:
    """The sub-agents of one turn."""

    def __init__(self, ports: Ports, image: Image, log: SessionLog, accepted: Accepted, *, tainted: bool, keep: Keep) -> None:
        self._ports = ports
        self._image = image
        self._log = log
        self._accepted = accepted
        self._tainted = tainted
        self._keep = keep
        self._limits = ports.settings_of(log.tenant_id).limits
        self._slots = anyio.Semaphore(self._limits.agent_parallel)
        self._adding = anyio.Lock()
        self._container = ports.store.tenant(log.tenant_id).container(log.container_id)

    async def run(self, tool: Tool, call: ToolCall) -> ToolOutcome | InputRequired:
        """Returns the answer of the sub-agent, or that the call waits until it has one. Stops it if the turn is stopped."""
        async with self._slots:
            session = await self._open_session(tool, call)
            until = session.created_at + int(tool.timeout_seconds * 1000)
            left_seconds = max(0.0, (until - self._ports.clock()) / 1000)
            agent = await self._ports.sub_agents.open(self._ports, self._log.tenant_id, self._image, session.session_id)
            with agent.in_use():
                turn_id, child = await self._begin(agent, session, tool, call)
                if child is not None and not await self._watch(agent, child, left_seconds):
                    return ToolOutcome(f"{tool.spec.name} did not finish within {tool.timeout_seconds:g} seconds", True)
            ended = await self._ports.store.tenant(self._log.tenant_id).find_turn(turn_id)
            if ended is None or ended.outcome is None:
                return InputRequired(questions={}, kind="child", state=turn_id, until=until)
            return await self._result(call, session, ended)

    async def _open_session(self, tool: Tool, call: ToolCall) -> Session:
        """Returns the session of the call; adds it unless that was done before a restart."""
        turn_id, uri = self._accepted.state.turn_id, tool.agent or ""
        session_id = sub_session_id(turn_id, call.id)
        async with self._adding:
            existing = await self._container.get_session(session_id)
            if existing is not None:
                return existing
            definition = find_agent(self._image, uri)
            if definition is None:
                raise ToolFailed(f"The agent {uri} is no longer part of the image")
            if len(self._callers) > self._limits.agent_depth:
                raise ToolFailed(f"The call was not made: agents call agents {self._limits.agent_depth} levels deep at most.")
            if len(await self._container.list_called(turn_id)) >= self._limits.agent_calls:
                raise ToolFailed(f"The call was not made: a turn calls {self._limits.agent_calls} agents at most.")
            now = self._ports.clock()
            session = Session(
                session_id=session_id,
                image_id=self._image.image_id,
                container_id=self._log.container_id,
                title=definition.name,
                created_at=now,
                updated_at=now,
                agent=uri,
                parent=self._parent(call),
            )
            await self._container.add_session(session)
            return session

    @property
    def _callers(self) -> tuple[str, ...]:
        """The agents above a sub-agent of this turn."""
        origin = self._accepted.origin
        return (*(() if origin is None else origin.callers), self._accepted.agent)

    def _parent(self, call: ToolCall) -> ParentCall:
        above, turn_id = parent_of(self._accepted), self._accepted.state.turn_id
        return ParentCall(
            session_id=self._log.session_id,
            turn_id=turn_id,
            call_id=call.id,
            root_session=self._log.session_id if above is None else above.root_session,
            root_turn=turn_id if above is None else above.root_turn,
        )

    async def _begin(self, agent: "Agent", session: Session, tool: Tool, call: ToolCall) -> tuple[TurnId, Accepted | None]:
        """Returns the turn of the sub-agent, and the turn at work if it is in memory."""
        key = key_of(self._accepted.state.turn_id, call.id)
        async with sending(agent, key) as earlier:
            if earlier is not None:
                return earlier.turn_id, agent.find(earlier.turn_id)
            own = self._accepted.origin
            origin = TurnOrigin(
                kind="agent",
                id=self._accepted.state.turn_id,
                unattended=self._accepted.unattended,
                budget=None if own is None else own.budget,
                parent=session.parent,
                callers=self._callers,
            )
            recalled = None
            if tool.carry != "none":
                log = self._log
                recalled = await self._ports.recall(log.tenant_id, log.container_id, log.session_id)
            text = message_of(call.input, tool.carry, recalled)
            bill = self._accepted.bill
            child = await agent.receive(Incoming(text, key, bill.user_id, bill.key_id, origin=origin, tainted=self._tainted))
            agent.release(child)
            return child.state.turn_id, child

    async def _watch(self, agent: "Agent", child: Accepted, left_seconds: float) -> bool:
        """Returns when the sub-agent has ended or is parked; False when it was stopped because its time is up."""
        try:
            with anyio.move_on_after(left_seconds):
                await child.over.wait()
                return True
        except anyio.get_cancelled_exc_class():
            # One that continues after a restart continues with its sub-agents.
            if not self._accepted.suspended:
                agent.cancel(child)
            raise
        agent.cancel(child)
        return False

    async def _result(self, call: ToolCall, session: Session, ended: Turn) -> ToolOutcome:
        own, _ = await self._container.log(session.session_id).list_turn_messages(ended, TURN_MAX_BYTES)
        tainted = any(map(is_foreign, own))
        answer = _answer(own)
        if ended.outcome == "completed":
            return replace(await self._keep(call, answer or SILENT), tainted=tainted)
        failure = next((message.content for message in own if isinstance(message, ErrorMessage)), None)
        text = STOPPED if failure is None else f"The agent failed: {failure}"
        return ToolOutcome("\n\n".join(filter(None, (text, answer))), True, tainted=tainted)


def _answer(own: Sequence[Message]) -> str:
    """Returns the text of the last message of a turn that has one."""
    texts = [message.text for message in own if isinstance(message, AssistantMessage)]
    return next((text for text in reversed(texts) if text), "")
