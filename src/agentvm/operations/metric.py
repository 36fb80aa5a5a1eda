"""Metrics — counters, latencies and health of the server, or the numbers of one tenant.

The operator sees the whole server: a principal with `system:admin`, or a key of the operator's own tenant that is bound to no
user, so that a scraper needs no more than `metrics:read`. Other principals see their own numbers.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from agentvm.errors import AccessDenied, InvalidInput
from agentvm.errors.cluster import NodeSilent
from agentvm.model.base import Record, record_from
from agentvm.model.ids import DEFAULT_TENANT, UserId
from agentvm.model.ledger import UsageRow
from agentvm.model.principal import Principal
from agentvm.observability.report import ServerMetrics, TenantMetrics
from agentvm.observability.series import MetricSeries
from agentvm.observability.status import Check, Status, worst
from agentvm.operations.accept import preferred
from agentvm.operations.across_nodes import NodeChoice, ask_nodes, silent_nodes
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.operations.times import to_ms
from agentvm.protocol.requests import Request

operation = OperationGroup("metrics")

READ = "metrics:read"
JSON, TEXT, OPENMETRICS = "application/json", "text/plain", "application/openmetrics-text"
OPERATOR_ONLY = "The text format covers the whole server and is for its operator; ask for application/json for your own numbers"


class MetricsShow(Request[Any]):
    """`nodes` is `all`, or the number of a node of a cluster; without it the node that is asked."""

    nodes: NodeChoice | None = None


class NodeMetrics(Record):
    """The metrics of a node, or why it has not answered."""

    node_id: int
    name: str
    metrics: ServerMetrics | None = None
    error: str | None = None


class ClusterMetrics(Record):
    """The metrics of nodes, oldest first."""

    nodes: Sequence[NodeMetrics]


@operation("metric.show", needs=READ, http=Http("GET", "/v1/metrics", media_type=TEXT))
async def show(context: Context, request: MetricsShow) -> ServerMetrics | ClusterMetrics | TenantMetrics | HttpReply[bytes]:
    """Show the metrics.

    JSON, or the Prometheus text format if it is accepted. A tenant sees its own numbers. In a cluster they are those of the
    requested node; with `nodes=all` the operator gets those of each node, and a tenant the sums of all. Let Prometheus scrape
    each node.
    """
    if request.nodes is not None:
        return await _show_of_nodes(context, request.nodes)
    media_type = preferred(context.http.accept, (JSON, TEXT, OPENMETRICS))
    if media_type != JSON:
        return await _text(context, media_type)
    if context.http.names_tenant or not is_operator(context.principal):
        return await _tenant_metrics(context)
    return context.vm.monitor.report()


@operation("metric.scrape", needs=READ, across=False, http=Http("GET", "/metrics", media_type=TEXT))
async def scrape(context: Context, request: Empty) -> HttpReply[bytes]:
    """Show the metrics in the Prometheus text format."""
    return await _text(context, preferred(context.http.accept, (TEXT, OPENMETRICS)))


async def _show_of_nodes(context: Context, nodes: str) -> ClusterMetrics | TenantMetrics:
    if preferred(context.http.accept, (JSON, TEXT, OPENMETRICS)) != JSON:
        raise InvalidInput(
            "The text format has only the metrics of the requested node: leave out `nodes`, and scrape each node"
        )
    if context.http.names_tenant or not is_operator(context.principal):
        return await _tenant_metrics_of_nodes(context, nodes)

    async def here(_: object) -> ServerMetrics:
        return context.vm.monitor.report()

    replies = await ask_nodes(context, nodes, "metric.show", lambda _: MetricsShow(), here, ServerMetrics)
    return ClusterMetrics(
        nodes=[
            NodeMetrics(node_id=reply.node_id, name=reply.name, metrics=reply.result, error=reply.error or None)
            for reply in replies
        ]
    )


async def _tenant_metrics_of_nodes(context: Context, nodes: str) -> TenantMetrics:
    """The usage is the same on all nodes; running turns are summed."""

    async def here(_: object) -> TenantMetrics:
        return await _tenant_metrics(context)

    replies = await ask_nodes(context, nodes, "metric.show", lambda _: MetricsShow(), here, TenantMetrics)
    metrics = [reply.result for reply in replies if reply.result is not None]
    if not metrics:
        raise NodeSilent(f"Node {nodes} does not answer; try again in a few seconds")
    return replace(
        metrics[0],
        turns_running=sum(node.turns_running for node in metrics),
        messages_waiting=sum(node.messages_waiting for node in metrics),
        connections=sum(node.connections for node in metrics),
    )


class StatusShow(Request["ServerStatus"]):
    """`nodes` is `all`, or the number of a node of a cluster; without it the node that is asked."""

    nodes: NodeChoice | None = None


class NodeStatus(Record):
    """The status of a node, or why it has not answered."""

    node_id: int
    name: str
    status: Status | None = None
    error: str | None = None


class ServerStatus(Status):
    """The status of a server. In a cluster with `nodes` the worst of theirs; a node that does not answer is a warning."""

    nodes: Sequence[NodeStatus] | None = None


@operation("metric.status", needs=READ, across=False, http=Http("GET", "/v1/status"))
async def status(context: Context, request: StatusShow) -> ServerStatus:
    """Show whether the server is healthy, and remedies if it is not.

    The status contains no data of tenants. Only the operator sees the address of a provider that fails. In a cluster
    `nodes=all` shows the status of each node, and the checks of all.
    """
    if request.nodes is None:
        return _status(context)

    async def here(_: object) -> ServerStatus:
        return _status(context)

    replies = await ask_nodes(context, request.nodes, "metric.status", lambda _: StatusShow(), here, ServerStatus)
    own, answered = _status(context), [reply for reply in replies if reply.result is not None]
    if context.vm.membership is None:
        return own
    silent = silent_nodes(replies)
    checks = [
        replace(check, node_id=reply.node_id)
        for reply in answered
        for check in (reply.result.checks if reply.result is not None else ())
    ]
    checks += [Check(name="node", status="warn", message=f"{node.name}: {node.error}", node_id=node.node_id) for node in silent]
    nodes = [
        NodeStatus(node_id=reply.node_id, name=reply.name, status=reply.result, error=reply.error or None) for reply in replies
    ]
    return replace(own, status=worst(checks), checks=checks, nodes=nodes)


def _status(context: Context) -> ServerStatus:
    addresses = context.principal.may("system:admin")
    own = context.vm.monitor.status(context.vm.config.limits.disk_free, addresses=addresses)
    return record_from(ServerStatus, own)


class MetricsSeries(Request[MetricSeries]):
    """Without `since`, all that is kept: 24 hours."""

    since: str | None = None


@operation("metric.series", needs=READ, across=False, http=Http("GET", "/v1/metrics/series"))
async def series(context: Context, request: MetricsSeries) -> MetricSeries:
    """Show metrics over time: one sample a minute of the last 24 hours.

    Of the whole server, for its operator. In memory: a restart begins a new series.
    """
    if not is_operator(context.principal):
        raise AccessDenied("The series cover the whole server and are for its operator; /v1/metrics has your own numbers")
    return context.vm.monitor.series.read(to_ms(request.since, "since"))


def is_operator(principal: Principal) -> bool:
    """Whether a principal may see the metrics of the whole server."""
    if principal.may("system:admin"):
        return True
    return principal.tenant_id == DEFAULT_TENANT and principal.user_id is None and principal.containers is None


async def _text(context: Context, media_type: str) -> HttpReply[bytes]:
    if context.http.names_tenant or not is_operator(context.principal):
        raise AccessDenied(OPERATOR_ONLY)
    text, media_type = await context.vm.monitor.exposition(openmetrics=media_type == OPENMETRICS)
    return HttpReply(content=text, media_type=media_type)


async def _tenant_metrics(context: Context) -> TenantMetrics:
    """As in `/v1/usage`, a user who does not administer the tenant sees only their own usage."""
    principal, tenant_id, roster = context.principal, context.tenant_id, context.vm.runtime.roster
    whole = principal.may("tenants:admin") or principal.user_id is None
    day = datetime.fromtimestamp(context.vm.clock() / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    user_id = None if whole else principal.user_id
    return TenantMetrics(
        scope="tenant" if whole else "user",
        turns_running=roster.count_running(tenant_id) if whole else 0,
        messages_waiting=roster.count_waiting(tenant_id) if whole else 0,
        connections=context.vm.count_connected(tenant_id) if whole else 0,
        today=await _usage(context, int(day.timestamp() * 1000), user_id),
        month=await _usage(context, int(day.replace(day=1).timestamp() * 1000), user_id),
        total=await _usage(context, 0, user_id),
    )


async def _usage(context: Context, since: int, user_id: UserId | None) -> UsageRow:
    ledger, principal = context.accounts.ledger, context.principal
    containers = None
    if principal.containers is not None and not principal.may("tenants:admin"):
        # A key has patterns, the ledger has names.
        rows = await ledger.usage(by=("container",), since=since, user_id=user_id)
        containers = [row.container_id for row in rows if row.container_id is not None and principal.reaches(row.container_id)]
    (row,) = await ledger.usage(by=(), since=since, user_id=user_id, containers=containers)
    return row
