"""Call — one command being carried out for one peer, and what the peer may reach.

A Peer is one connection's light view of the process: its principal's part of the store, the runtime, its own channel.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from agentvm.blueprint.definition import Definitions
from agentvm.errors import ImageNotFound, SessionNotFound
from agentvm.model.ids import Clock, ContainerId, ImageId, NewId, SessionId, TenantId
from agentvm.model.image import Image
from agentvm.model.session import Session
from agentvm.runtime.channel import Channel
from agentvm.runtime.outlet import Outlet
from agentvm.runtime.runtime import Runtime
from agentvm.storage.base import ContainerStore, TenantStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who asks, and where answers and events go."""

    channel: Channel
    store: TenantStore
    runtime: Runtime
    definitions: Definitions
    clock: Clock
    new_id: NewId

    @property
    def tenant_id(self) -> TenantId:
        return self.channel.principal.tenant_id

    def join(self, container_id: ContainerId, *, follow: bool = False) -> None:
        self.runtime.broadcaster.join(self.channel, container_id, follow=follow)

    def joined(self) -> frozenset[ContainerId]:
        return self.runtime.broadcaster.joined(self.channel)

    def subscribe(self, session: Session) -> None:
        """Subscribes before the answer leaves, so that clients which never subscribe hear their own turns."""
        self.listen(session.container_id, session.session_id)

    def listen(self, container_id: ContainerId, session_id: SessionId, after: int | None = None) -> None:
        self.join(container_id)
        self.runtime.broadcaster.subscribe(self.channel, container_id, session_id, after)

    def outlet(self, channel: Channel | None = None) -> Outlet:
        """What drains the peer's channel, or a mirror of it."""
        return Outlet(channel or self.channel, self.runtime.replay, self.clock)


@dataclass(frozen=True, slots=True)
class Call:
    """`after` runs once the reply is queued: a turn starts only after its sender was answered."""

    peer: Peer
    after: list[Callable[[], None]] = field(default_factory=list)

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

    async def find_session(self, session_id: SessionId) -> tuple[ContainerStore, Session] | None:
        container_id = await self.peer.store.find_session(session_id)
        if container_id is None:
            return None
        container = self.peer.store.container(container_id)
        session = await container.get_session(session_id)
        return None if session is None else (container, session)

    async def session(self, session_id: SessionId) -> tuple[ContainerStore, Session]:
        found = await self.find_session(session_id)
        if found is None:
            raise SessionNotFound(session_id)
        return found
