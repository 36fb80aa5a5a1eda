"""Sub-agents — calls that another agent of the image works on.

Theory of operation. A call has one hidden session in the same container, named after the call, and in it one turn, found by the
key of the call: a call that is taken up again, also after a crash, finds the same. While the sub-agent waits for an answer the
call waits for it (`child`), and both are rows. The end of its turn answers that wait. The answer and the end are two commits,
so the second one looks for the first: a call that begins to wait looks whether the sub-agent has ended, an end looks for a call
that waits, and `watch_expiry` finds those that a crash has parted.

When a turn ends for any reason, the sub-agents of its open calls are stopped. One that is taken up after its caller has ended
only ends.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from agentvm.errors import AgentVMError, ImageNotFound
from agentvm.events.base import EventData, EventScope
from agentvm.events.tool import ToolAnswered, ToolWaitExpired, ToolWaiting
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId, UserId
from agentvm.model.image import Image
from agentvm.model.session import ParentCall
from agentvm.model.turn import TurnOrigin
from agentvm.model.wait import ToolWait, WaitAnswer
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.acting_agent import agents_of
from agentvm.runtime.parking import end_parked
from agentvm.runtime.session_log import SessionLog

if TYPE_CHECKING:
    from agentvm.runtime.agent import Agent
    from agentvm.runtime.ports import Ports
    from agentvm.runtime.roster import Roster

logger = get_logger(__name__)

ENDED = WaitAnswer(decision="answer", result={})
"""The answer to a wait for a sub-agent that has ended."""


class AgentHost(Protocol):
    """The runtime, as sub-agents use it."""

    def start_agent(self, tenant_id: TenantId, image: Image, session_id: SessionId) -> "tuple[Agent, bool]": ...

    @property
    def roster(self) -> "Roster": ...

    async def answer_wait(self, tenant_id: TenantId, wait: ToolWait, answer: WaitAnswer, by: UserId | None) -> bool: ...


def key_of(turn_id: TurnId, call_id: str) -> str:
    """Returns the key of the turn of a call."""
    return f"call:{turn_id}/{call_id}"


class SubAgents:
    """The turns of sub-agents, and those that have called them."""

    def __init__(self) -> None:
        self._home: AgentHost | None = None

    def attach(self, home: AgentHost) -> None:
        """Called once, when the runtime is there."""
        self._home = home

    @property
    def home(self) -> AgentHost:
        assert self._home is not None, "the runtime is opened with its sub-agents"
        return self._home

    def note_end(self, agent: "Agent", accepted: Accepted) -> None:
        """Tells the caller of a sub-agent, if it waits, that its turn has ended."""
        if (parent := parent_of(accepted)) is not None:
            agent.ports.tasks.start_soon(self._wake, agent.ports, agent.tenant_id, agent.container_id, parent)

    async def _wake(self, ports: "Ports", tenant_id: TenantId, container_id: ContainerId, parent: ParentCall) -> None:
        try:
            waits = ports.store.tenant(tenant_id).waits((container_id,))
            for wait in await waits.list_turn(parent.session_id, parent.turn_id):
                if (wait.call_id, wait.kind, wait.answer) == (parent.call_id, "child", None):
                    await self.home.answer_wait(tenant_id, wait, ENDED, None)
        except AgentVMError as error:
            # Whoever watches for waits that are due finds it.
            logger.info("caller_not_woken", turn_id=parent.turn_id, code=error.code, error=str(error))

    def stop_below(self, agent: "Agent", accepted: Accepted) -> None:
        """Stops the sub-agents of a turn that ends with open calls."""
        if accepted.state.pending and agents_of(agent.image):
            ports, turn_id = agent.ports, accepted.state.turn_id
            ports.tasks.start_soon(self.stop_called, ports, agent.tenant_id, agent.image, turn_id)

    async def stop_called(
        self, ports: "Ports", tenant_id: TenantId, image: Image, turn_id: TurnId, call_id: str | None = None
    ) -> None:
        """Stops the sub-agents that a turn has called, or the one of a call. One that cannot be stopped ends later."""
        try:
            for session in await ports.store.tenant(tenant_id).container(image.container_id).list_called(turn_id):
                if session.parent is not None and call_id in (None, session.parent.call_id):
                    await stop_turns(await self.open(ports, tenant_id, image, session.session_id))
        except AgentVMError as error:
            logger.info("sub_agents_not_stopped", turn_id=turn_id, code=error.code, error=str(error))

    async def open(self, ports: "Ports", tenant_id: TenantId, image: Image, session_id: SessionId) -> "Agent":
        """Returns the agent of a session of the image, which may be the image as another of its agents."""
        whole = await ports.store.tenant(tenant_id).container(image.container_id).get_image(image.image_id)
        if whole is None:
            raise ImageNotFound(image.image_id)
        return self.home.start_agent(tenant_id, whole, session_id)[0]

    async def publish_at_root(self, ports: "Ports", log: SessionLog, scope: EventScope, contents: Sequence[EventData]) -> None:
        """Sends the waits of a sub-agent, whose session is that of the log, to the subscribers of the root session."""
        events = [msgspec.structs.replace(data, session_id=log.session_id) for data in contents if isinstance(data, _OF_WAITS)]
        session_id = scope.session_id
        if not events or session_id is None:
            return
        present = self.home.roster.get(log.tenant_id, log.container_id, session_id)
        scope = msgspec.structs.replace(scope, agent_id=None if present is None else present.agent_id)
        try:
            root = await ports.journal.open(log.tenant_id, log.container_id, session_id)
            await ports.journal.emit(root, events, scope)
        except AgentVMError as error:
            # The waits themselves are stored, and are in the lists of the session at the top.
            logger.info("waits_not_told", session_id=scope.session_id, code=error.code, error=str(error))


_OF_WAITS = (ToolWaiting, ToolAnswered, ToolWaitExpired)


def scope_at_root(scope: EventScope, origin: TurnOrigin | None) -> EventScope | None:
    """Returns where the waits of a sub-agent are shown as well; None for a turn of people."""
    if origin is None or origin.parent is None:
        return None
    return msgspec.structs.replace(scope, session_id=origin.parent.root_session, turn_id=origin.parent.root_turn)


def parent_of(accepted: Accepted) -> ParentCall | None:
    """Returns the call that a turn works for; None for one of people."""
    return None if accepted.origin is None else accepted.origin.parent


async def has_ended(ports: "Ports", tenant_id: TenantId, wait: ToolWait) -> bool:
    """Whether a call waits for a sub-agent whose turn has ended."""
    turn = await ports.store.tenant(tenant_id).find_turn(TurnId(wait.state or "")) if wait.kind == "child" else None
    return turn is not None and turn.outcome is not None


async def stop_turns(agent: "Agent") -> None:
    """Ends the turn of a sub-agent, whether it runs, waits in line or is parked."""
    with agent.in_use():
        for accepted in [*agent.open_turns()]:
            agent.cancel(accepted)
        await end_parked(agent)


async def stop_orphan(agent: "Agent", accepted: Accepted) -> None:
    """Lets a sub-agent only end that is taken up after its caller has ended."""
    if (parent := parent_of(accepted)) is None or not accepted.resumed:
        return
    caller = await agent.ports.store.tenant(agent.tenant_id).find_turn(parent.turn_id)
    if caller is None or caller.outcome is not None:
        accepted.stopped = True
