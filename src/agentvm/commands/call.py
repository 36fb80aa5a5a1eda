"""Call — one command being carried out for one peer, and what the peer may reach.

A Peer is one connection's light view of the process: its principal's part of the store, the runtime, its own channel.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from agentvm.errors import AgentNotFound, ContainerForbidden, ImageNotFound
from agentvm.model.ids import AgentId, ContainerId, ImageId, SessionId, check_container_id
from agentvm.model.image import Image
from agentvm.model.session import Session
from agentvm.runtime.agent import Agent
from agentvm.runtime.roster import Present
from agentvm.sessions.branches import Branches
from agentvm.sessions.library import SessionLibrary
from agentvm.sessions.sender import MessageSender
from agentvm.sharing.request_reservation import RequestReservation
from agentvm.storage.base import ContainerStore
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

    def container_id(self, named: str) -> ContainerId:
        """The container that a request names; whether it exists is another question."""
        container_id = check_container_id(named)
        if not self.peer.principal.reaches(container_id):
            raise ContainerForbidden(container_id)
        return container_id

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

    async def find_image(self, image_id: ImageId) -> tuple[ContainerStore, Image] | None:
        container_id = await self.peer.store.find_image(image_id)
        if container_id is None:
            return None
        container = self.peer.store.container(container_id)
        image = await container.get_image(image_id)
        return None if image is None else (container, image)

    async def image(self, image_id: ImageId) -> tuple[ContainerStore, Image]:
        found = await self.find_image(image_id)
        if found is None:
            raise ImageNotFound(image_id)
        return found

    @property
    def sessions(self) -> SessionLibrary:
        """The sessions of the peer's principal."""
        peer = self.peer
        return SessionLibrary(
            store=peer.store,
            principal=peer.principal,
            tenant_id=peer.tenant_id,
            runtime=peer.vm.runtime,
            tenancy=peer.vm.tenancy,
            clock=peer.vm.clock,
            new_id=peer.vm.new_id,
            compactor=peer.vm.available_compactor,
        )

    @property
    def sender(self) -> MessageSender:
        return MessageSender(library=self.sessions)

    @property
    def branches(self) -> Branches:
        return Branches(library=self.sessions, sender=self.sender)

    async def find_session(self, session_id: SessionId) -> tuple[ContainerStore, Session] | None:
        container_id = await self.peer.store.find_session(session_id)
        if container_id is None:
            return None
        container = self.peer.store.container(container_id)
        session = await container.get_session(session_id)
        return None if session is None else (container, session)

    async def session(self, session_id: SessionId) -> tuple[ContainerStore, Session]:
        return await self.sessions.open(session_id)
