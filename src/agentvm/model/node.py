"""Node — a server among those that share one database, as lists of nodes show it."""

from collections.abc import Collection
from typing import Literal

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId

NodeState = Literal["up", "gone", "dead"]


class NodeReport(Record):
    """The status report of a node, sent with each lease renewal. Nodes of other versions may know other members."""

    sockets: int = 0
    """Connections that are open."""
    loop_lag_ms: int = 0
    """Largest delay of the event loop in the last 15 s."""
    skew_ms: int = 0
    """How far the clock of its machine is ahead of the database's."""
    hindrance: str | None = None
    """Why it takes no new work."""
    is_on_bus: bool = False
    """The node is connected to NATS."""
    disturbed: int = 0
    """How often a message that it published, or should have received, may have been lost."""


class TurnScope(Record):
    """Turns of a tenant: all of them, or those in some containers, of an image, of a session."""

    tenant_id: TenantId
    container_ids: Collection[ContainerId] | None = None
    image_id: ImageId | None = None
    session_id: SessionId | None = None

    def covers(self, tenant_id: TenantId, container_id: ContainerId, image_id: ImageId, session_id: SessionId) -> bool:
        return (
            tenant_id == self.tenant_id
            and (self.container_ids is None or container_id in self.container_ids)
            and self.image_id in (None, image_id)
            and self.session_id in (None, session_id)
        )


class DatabaseState(Record):
    """The database of a server. `lag_ms` is how far the slowest standby is behind; absent if that is not known."""

    engine: Literal["sqlite", "postgresql"]
    version: str
    name: str
    standbys: int = 0
    lag_ms: int | None = None
