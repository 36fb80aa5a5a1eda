"""Usage reconcile — compares the ledger with the bill of a provider."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

import anyio.to_thread

from agentvm.errors import InvalidInput
from agentvm.model.ids import TenantId
from agentvm.model.ledger import LedgerEntry
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Request
from agentvm.tenants.exports import read_export
from agentvm.tenants.reconcile import ReconcileReport, days_of, reconcile

operation = OperationGroup("usage")

ENTRIES_MAX = 200_000
"""Entries of the ledger that one comparison reads."""
EXPORT_MAX_BYTES = 4 * 1024 * 1024
_PAGE_MAX = 5_000


class Reconciliation(ReconcileReport):
    """`allExplained` says whether entries of the ledger account for every difference."""

    all_explained: bool


class UsageReconcile(Request[Reconciliation]):
    """`driver` names the driver of the bill, such as anthropic; by default it is found by the models."""

    driver: str | None = None


@operation(
    "usage.reconcile",
    needs="tenants:admin",
    http=Http("POST", "/v1/usage/reconcile", body="bytes", max_body_bytes=EXPORT_MAX_BYTES, query=("driver",)),
)
async def reconcile_usage(context: Context, request: UsageReconcile) -> Reconciliation:
    """Compare the ledger with a provider's bill.

    The body is the provider's usage export, CSV or JSON: a row has a day, a model and token counts. An operator who names no
    tenant compares the ledgers of all tenants, since the bill covers all of them.
    """
    try:
        exported = await anyio.to_thread.run_sync(read_export, context.http.body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput("The export is not UTF-8 text; save it as UTF-8") from None
    entries = [entry async for entry in _entries(context, *days_of(exported))]
    report = await anyio.to_thread.run_sync(partial(reconcile, exported, entries, driver=request.driver))
    return Reconciliation(
        groups=report.groups,
        provider=report.provider,
        ledger=report.ledger,
        left_out=report.left_out,
        all_explained=report.explained,
    )


async def _entries(context: Context, since: int, until: int) -> AsyncIterator[LedgerEntry]:
    store, count = context.tenancy.store, 0
    for tenant_id in await _tenants(context):
        after = 0
        while page := await store.accounts(tenant_id).ledger.list(after=after, limit=_PAGE_MAX, since=since, until=until):
            count += len(page)
            if count > ENTRIES_MAX:
                raise InvalidInput(
                    f"The ledger has more than {ENTRIES_MAX:,} entries in these days; compare fewer days at a time"
                )
            for number, entry in page:
                after = number
                yield entry


async def _tenants(context: Context) -> Sequence[TenantId]:
    if context.http.names_tenant or not context.principal.may("system:admin"):
        return [context.tenant_id]
    tenants: list[TenantId] = []
    slug: str | None = None
    while page := await context.tenancy.store.directory.list_tenants(after=slug):
        tenants += [tenant.tenant_id for tenant in page]
        slug = page[-1].slug
    return tenants
