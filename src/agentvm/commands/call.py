"""Call — one command being carried out for one peer, and what the peer may reach.

A Peer is one connection's light view of the process: its principal's part of the store, the runtime, its own channel.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from agentvm.errors import AgentNotFound
from agentvm.model.ids import AgentId
from agentvm.runtime.agent import Agent
from agentvm.runtime.roster import Present
from agentvm.sessions.branches import Branches
from agentvm.sessions.library import SessionLibrary
from agentvm.sessions.sender import MessageSender
from agentvm.sessions.workspace import Workspace
from agentvm.sharing.request_reservation import RequestReservation
from agentvm.vm import Peer


@dataclass(slots=True, eq=False)
class Call:
    """`after` runs once the reply is queued: a turn starts only after its sender was answered."""

    peer: Peer
    after: list[Callable[[], None]] = field(default_factory=list)
    _room: RequestReservation | None = None

    @property
    def room(self) -> RequestReservation:
        """What the reply holds of the byte budget until it is queued."""
        if self._room is None:
            self._room = RequestReservation(self.peer.vm.budget, self.peer.tenant_id)
        return self._room

    @property
    def is_bulky(self) -> bool:
        return self._room is not None and self._room.held > 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        if self._room is not None:
            self._room.__exit__()

    def find_agent(self, agent_id: AgentId) -> Present | None:
        """Awake or asleep, and within reach."""
        found = self.peer.vm.runtime.roster.find(self.peer.tenant_id, agent_id)
        return found if found is not None and self.peer.principal.reaches(found.container_id) else None

    async def agent(self, agent_id: AgentId) -> Agent:
        """Awake."""
        found = self.find_agent(agent_id)
        woken = None if found is None else await self.peer.vm.runtime.wake_agent(self.peer.tenant_id, agent_id)
        if woken is None:
            raise AgentNotFound(agent_id)
        return woken

    @property
    def workspace(self) -> Workspace:
        return self.peer.workspace

    @property
    def sessions(self) -> SessionLibrary:
        """The sessions of the peer's principal."""
        return SessionLibrary(self.workspace)

    @property
    def sender(self) -> MessageSender:
        return MessageSender(self.workspace)

    @property
    def branches(self) -> Branches:
        return Branches(self.workspace)
