"""Call — one command being carried out for one peer, and what the peer may reach.

A Peer is one connection's light view of the process: its principal's part of the store, the runtime, its own channel.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, Self

from agentvm.blueprint.definition import Definitions
from agentvm.commands import gate
from agentvm.errors import AgentNotFound, ContainerForbidden, ImageNotFound
from agentvm.model.ids import AgentId, Clock, ContainerId, ImageId, NewId, SessionId, TenantId, check_container_id
from agentvm.model.image import Image
from agentvm.model.principal import Principal
from agentvm.model.session import Session
from agentvm.resources.centre import ResourceCentre
from agentvm.runtime.agent import Agent
from agentvm.runtime.channel import Channel
from agentvm.runtime.outlet import Outlet
from agentvm.runtime.roster import Present
from agentvm.runtime.runtime import Runtime
from agentvm.sessions.branches import Branches
from agentvm.sessions.compaction import Compactor
from agentvm.sessions.library import SessionLibrary
from agentvm.sessions.sender import MessageSender
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.request_reservation import RequestReservation
from agentvm.storage.accounts import Accounts
from agentvm.storage.base import ContainerStore, TenantStore
from agentvm.tenants.tenancy import Tenancy


class Answered(Protocol):
    """Hears that a command was answered; for who counts them."""

    def __call__(self, command: str, /, *, refused: bool, micros: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who asks, and where answers and events go."""

    channel: Channel
    store: TenantStore
    runtime: Runtime
    definitions: Definitions
    resources: ResourceCentre
    tenancy: Tenancy
    clock: Clock
    new_id: NewId
    answered: Answered | None = None
    delivered: Callable[[int], None] | None = None
    """Hears how many microseconds it took until what waited for the peer was on its way."""
    compactor: Compactor | None = None
    budget: ByteBudget = field(default_factory=ByteBudget)
    """Of the bytes that all peers have on their way."""

    @property
    def principal(self) -> Principal:
        return self.channel.principal

    @property
    def accounts(self) -> Accounts:
        return self.tenancy.store.accounts(self.tenant_id)

    @property
    def tenant_id(self) -> TenantId:
        return self.channel.principal.tenant_id

    async def check_quota(self, metric: str, count: Callable[[], Awaitable[int]], adding: int = 1) -> None:
        """`QuotaExceeded` when there may not be so much more of it; counted only if there is a limit."""
        await self.tenancy.quotas.check(self.tenant_id, self.principal.user_id, metric, count, adding)

    def join(self, container_id: ContainerId, *, follow: bool = False) -> None:
        """Hears of the container; with `follow` also all of its sessions, if the principal may hear any."""
        self.runtime.broadcaster.join(self.channel, container_id, follow=follow and self.principal.may(gate.LISTENING))

    def joined(self) -> frozenset[ContainerId]:
        return self.runtime.broadcaster.joined(self.channel)

    def subscribe(self, session: Session) -> tuple[SessionId, ...]:
        """Subscribes before the answer leaves, so that clients which never subscribe hear their own turns."""
        return self.listen(session.container_id, session.session_id)

    def listen(self, container_id: ContainerId, session_id: SessionId, after: int | None = None) -> tuple[SessionId, ...]:
        """What the peer hears now: the session, or nothing.

        Many commands subscribe, and few of them need the permission to read what is said. So it is looked at here, where
        none can forget it: who may only send gets the replies to its commands.
        """
        self.join(container_id)
        if not self.principal.may(gate.LISTENING):
            return ()
        self.runtime.broadcaster.subscribe(self.channel, container_id, session_id, after)
        return (session_id,)

    def outlet(self, channel: Channel | None = None) -> Outlet:
        """What drains the peer's channel, or a mirror of it."""
        return Outlet(channel or self.channel, self.runtime.replay, self.clock)


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
            self._room = RequestReservation(self.peer.budget, self.peer.tenant_id)
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
        found = self.peer.runtime.roster.find(self.peer.tenant_id, agent_id)
        return found if found is not None and self.peer.principal.reaches(found.container_id) else None

    async def agent(self, agent_id: AgentId) -> Agent:
        """Awake."""
        found = self.find_agent(agent_id)
        woken = None if found is None else await self.peer.runtime.wake_agent(self.peer.tenant_id, agent_id)
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
            runtime=peer.runtime,
            tenancy=peer.tenancy,
            clock=peer.clock,
            new_id=peer.new_id,
            compactor=peer.compactor,
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
