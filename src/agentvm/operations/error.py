"""Errors — the errors in the log, grouped by kind."""

from agentvm.model.base import record_from
from agentvm.observability.error_groups import ErrorGroup
from agentvm.observability.log_filter import LogFilter, log_scope
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Limit, Page
from agentvm.operations.times import span_of
from agentvm.protocol.requests import Request

operation = OperationGroup("errors")


class ErrorList(Request[Page[ErrorGroup]]):
    """`since` is inclusive, `until` exclusive."""

    since: str | None = None
    until: str | None = None
    limit: Limit = 100


@operation("error.list", needs="logs:read", http=Http("GET", "/v1/errors"))
async def list_all(context: Context, request: ErrorList) -> Page[ErrorGroup]:
    """List errors by kind.

    Errors with the same code, event and place are one group, with their count and the first and the last time. The groups
    seen last come first. Only errors that the log still holds are counted.
    """
    criteria = record_from(LogFilter, request, **span_of(request))
    named = context.tenant_id if context.http.names_tenant else None
    groups = await context.vm.logs.errors(criteria, log_scope(context.principal, named))
    return Page(items=groups[: request.limit])
