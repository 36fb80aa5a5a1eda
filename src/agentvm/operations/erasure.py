"""Erasures — deleted containers, users and tenants whose data is still being erased."""

import msgspec

from agentvm.errors import NotFound
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, TenantId, UserId
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.operations.pages import Page
from agentvm.protocol.records import OwnedRecord

operation = OperationGroup("erasures")


class ErasureView(Record):
    """An erasure of a container, of a user's traces in containers of others, of the words of a `target`, or else of a tenant.

    Once it is `emptied` the rows are gone, and traces may be left in the files of the database.
    """

    tenant_id: TenantId
    container_id: ContainerId | None = None
    user_id: UserId | None = None
    target: str | None = None
    """A deleted collection or document of one, as `collections/handbook`, or the id of a deleted resource."""
    asked_at: int
    emptied: bool


@operation("erasure.list", needs=("system:admin", "tenants:admin"), http=Http("GET", "/v1/erasures"))
async def list_all(context: Context, request: Empty) -> Page[ErasureView]:
    """List unfinished erasures, oldest first.

    The operator sees those of the whole server, including deleted tenants. A finished erasure leaves the list.
    """
    principal = context.principal
    sees_all = principal.may("system:admin") and not context.http.names_tenant
    erasures = [
        erasure
        for erasure in await context.tenancy.store.erasing.pending()
        if (sees_all or erasure.tenant_id == context.tenant_id)
        and (erasure.container_id is None or principal.reaches(erasure.container_id))
    ]
    return Page(items=msgspec.convert(erasures, list[ErasureView], from_attributes=True))


def counted(context: Context, owned: OwnedRecord | None, missing: NotFound) -> OwnedRecord:
    """Returns the reply to a dry run of a deletion. Raises `missing` where there is nothing to delete."""
    context.is_dry_run = True
    if owned is None:
        raise missing
    return owned
