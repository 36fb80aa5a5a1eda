"""Audit log — the administrative writes in a tenant: actor, action, target and result."""

import msgspec

from agentvm.model.account import AuditEntry
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, number_of, paged

operation = OperationGroup("audit")


class AuditView(AuditEntry):
    number: int


class AuditList(PageRequest):
    """`action` narrows the list to one action."""

    action: str | None = None


@operation("audit.list", needs="tenants:admin", http=Http("GET", "/v1/audit"))
async def list_all(context: Context, request: AuditList) -> Page[AuditView]:
    """List the audit log, newest entries first."""
    entries = await context.accounts.audit.list(
        before=number_of(request.cursor), limit=request.limit + 1, action=request.action
    )
    items = [AuditView(number=number, **msgspec.structs.asdict(entry)) for number, entry in entries]
    return paged(items, request.limit, lambda index: str(items[index].number))
