"""Cluster — the nodes that share the database of this server, and the sessions that each runs."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from agentvm.errors import AccessDenied, NotAvailable, NotFound
from agentvm.model.base import Record, record_from
from agentvm.model.node import DatabaseState, NodeState
from agentvm.operations.metric import READ, is_operator
from agentvm.operations.numbers import Amount
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.protocol.requests import Request
from agentvm.version import VERSION

operation = OperationGroup("cluster")

GRACE_MAX_SECONDS = 86_400.0


class ClusterNode(Record):
    """One start of a server. `node_id` is 0 for a server that has its database alone."""

    node_id: int
    name: str
    version: str
    state: NodeState
    started_at: int
    runs: int
    """Sessions in which it runs a turn."""
    sockets: int
    """Connections that were open at its last beat."""
    loop_lag_ms: int
    """Largest delay of its event loop in the last 15 s."""
    skew_ms: int
    """How far its clock is ahead of the database's."""
    is_on_bus: bool = False
    """The node is connected to NATS."""
    hindrance: str | None = None
    """Why it takes no new work."""
    is_asked: bool = False
    """Whether it is the node that has answered this request."""
    is_leading: bool = False
    """Whether it does the work that one node does for all."""


class ClusterNodes(Record):
    """The nodes, oldest first, and their database. Nodes that have ended are listed for an hour."""

    is_shared: bool
    """Whether the server is a node of a cluster."""
    nodes: Sequence[ClusterNode]
    database: DatabaseState


@operation("cluster.nodes", needs=READ, across=False, http=Http("GET", "/v1/cluster/nodes"))
async def nodes(context: Context, request: Empty) -> ClusterNodes:
    """List the nodes that share the database, with the number of sessions that each runs.

    For the operator. A server alone is listed as the only node.
    """
    if not is_operator(context.principal):
        raise AccessDenied("The nodes serve all tenants: they are listed for the operator")
    vm = context.vm
    database = await vm.store.describe_database()
    if vm.membership is None:
        return ClusterNodes(is_shared=False, nodes=[_alone(context)], database=database)
    rows = await vm.membership.nodes.list_all()
    leading = min((row.node_id for row in rows if row.state == "up"), default=0)
    listed = [
        record_from(
            ClusterNode,
            row.report,
            row,
            runs=row.sessions,
            is_asked=row.node_id == vm.store.node_id,
            is_leading=row.node_id == leading,
        )
        for row in rows
    ]
    return ClusterNodes(is_shared=True, nodes=listed, database=database)


class DrainNode(Request["DrainedNode"]):
    """`node_id` is the number of the node, 0 for the one that is asked."""

    node_id: Amount
    grace_seconds: Annotated[float, Meta(ge=0, le=GRACE_MAX_SECONDS)] | None = None
    """Time that its turns get to finish; by default its setting `system.shutdownSeconds`."""


class DrainedNode(Record):
    """A node that has begun to drain."""

    node_id: int


@operation(
    "cluster.drain",
    needs="system:admin",
    across=False,
    audit="cluster.drain",
    http=Http("POST", "/v1/cluster/nodes/{node_id}/drain"),
    raises=(NotAvailable, NotFound),
)
async def drain(context: Context, request: DrainNode) -> DrainedNode:
    """Drain a node: it accepts no new work, finishes turns within a grace period, and hands the rest over.

    Returns when the drain has started; the node then ends on its own. Clients continue on other nodes.
    """
    vm = context.vm
    if vm.membership is None:
        raise NotAvailable("This server is not a node of a cluster; stop it with SIGTERM")
    if request.node_id not in (0, vm.membership.node_id):
        # One that is up was asked instead of this node.
        raise NotFound(f"No node {request.node_id} is up; avm cluster status lists those that are")
    vm.grace_seconds = request.grace_seconds
    context.after.append(vm.leaving.set)
    return DrainedNode(node_id=vm.membership.node_id)


def _alone(context: Context) -> ClusterNode:
    vm = context.vm
    return record_from(
        ClusterNode,
        vm.report(),
        node_id=0,
        name=vm.config.node_name,
        version=VERSION,
        state="up",
        started_at=vm.monitor.metrics.started_at,
        runs=vm.runtime.roster.count_running(),
        is_asked=True,
        is_leading=True,
    )
