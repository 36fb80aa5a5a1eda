"""Node — a server among those that share one database, as lists of nodes show it."""

from typing import Literal

from agentvm.model.base import Record

NodeState = Literal["up", "gone", "dead"]


class NodeReport(Record):
    """The report of a node that goes with each beat. Nodes of other versions may know other members."""

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
    """How often something that it published, or was to hear, may have been lost."""


class DatabaseState(Record):
    """The database of a server. `lag_ms` is how far the slowest standby is behind; absent if that is not known."""

    engine: Literal["sqlite", "postgresql"]
    version: str
    name: str
    standbys: int = 0
    lag_ms: int | None = None
