"""Errors — the errors in the log, grouped by kind."""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from agentvm.model.base import record_from
from agentvm.observability.error_groups import ErrorGroup, merge
from agentvm.observability.log_filter import LogFilter, log_scope
from agentvm.operations.across_nodes import NodeChoice, SilentNode, ask_nodes, silent_nodes
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Limit, Page
from agentvm.operations.times import span_of
from agentvm.protocol.requests import Request

operation = OperationGroup("errors")


class ErrorGroups(Page[ErrorGroup]):
    """Errors by kind, with the nodes that were asked and have not answered."""

    silent_nodes: Sequence[SilentNode] | None = None


class ErrorList(Request[ErrorGroups]):
    """`since` is inclusive, `until` exclusive. `nodes` is `all`, or the number of a node of a cluster."""

    since: str | None = None
    until: str | None = None
    limit: Limit = 100
    nodes: NodeChoice | None = None


@operation("error.list", needs="logs:read", http=Http("GET", "/v1/errors"))
async def list_all(context: Context, request: ErrorList) -> ErrorGroups:
    """List errors by kind.

    Errors with the same code, event and place are one group, with their count and the first and the last time. The groups seen
    last come first. Only errors that the log still holds are counted. In a cluster `nodes=all` counts those of all nodes;
    without it only those of the requested node.
    """
    if request.nodes is None:
        return await _group(context, request)
    node_request, own = replace(request, nodes=None), partial(_group, context)
    replies = await ask_nodes(context, request.nodes, "error.list", lambda _: node_request, own, ErrorGroups)
    groups = merge((reply.node_id, group) for reply in replies if reply.result is not None for group in reply.result.items)
    if context.vm.membership is None:
        groups = [replace(group, nodes=None) for group in groups]
    return ErrorGroups(items=groups[: request.limit], silent_nodes=silent_nodes(replies) or None)


async def _group(context: Context, request: ErrorList) -> ErrorGroups:
    criteria = record_from(LogFilter, request, **span_of(request))
    named = context.tenant_id if context.http.names_tenant else None
    groups = await context.vm.logs.errors(criteria, log_scope(context.principal, named))
    return ErrorGroups(items=groups[: request.limit])
