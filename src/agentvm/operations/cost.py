"""Cost — the estimated monthly cost of serving a number of users."""

from collections.abc import Sequence

from agentvm.cost import coefficients, prices
from agentvm.cost.coefficients import NamedMeasure
from agentvm.cost.estimate import PeerBill, Sensitivity, estimate
from agentvm.cost.needs import Needs
from agentvm.cost.shapes import BillLine, Shape
from agentvm.cost.workload import Workload
from agentvm.errors import InvalidInput
from agentvm.model.base import Record, record_from
from agentvm.model.ids import TenantId
from agentvm.model.ledger import TIER_DRIVER, UsageRow
from agentvm.model.money import DOLLAR_NANO
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, paged
from agentvm.operations.times import to_ms
from agentvm.protocol.requests import Request

operation = OperationGroup("cost")

HOUR_MS = 3_600_000


class CostReport(Record):
    """A monthly bill in dollars with its needs and coefficients; `total` is absent if the shape cannot carry the workload."""

    workload: Workload
    shape: Shape
    needs: Needs
    lines: tuple[BillLine, ...]
    problem: str | None = None
    total: float | None = None
    per_thousand_users: float | None = None
    break_even: float | None = None
    """The price of all tokens of a month from which on a surcharge of 5 % pays the bill."""
    peers: tuple[PeerBill, ...]
    sensitivity: tuple[Sensitivity, ...]
    measures: tuple[NamedMeasure, ...]
    """The coefficients that the shape was computed from, each with its source."""
    prices_of: str
    measured_on: str
    machine: str
    version: str


class CostEstimate(Workload, Request[CostReport]):
    """A workload; absent fields are as in `avm cost`: a million users, thirty turns each in a month."""

    shape: Shape = "one-node"


@operation("cost.estimate", needs="system:admin", across=False, http=Http("GET", "/v1/cost"), raises=(InvalidInput,))
async def estimate_cost(context: Context, request: CostEstimate) -> CostReport:
    """Estimate the monthly cost of serving users.

    Computed from the coefficients and the example prices of this release, without the tokens of models.
    """
    measured = coefficients.shipped()
    result = estimate(record_from(Workload, request), measured, prices.shipped(), request.shape)
    about = {"measured_on": measured.date, "machine": measured.machine, "version": measured.version}
    return record_from(CostReport, result, **about)


class TenantMargin(Record):
    """The money of one tenant in a period, in nano-USD. `margin` is the price of its calls minus their cost."""

    tenant_id: TenantId
    slug: str
    price: int
    cost: int
    margin: int
    sandbox_ms: int = 0
    """Time of its jobs in sandboxes."""
    saved: int | None = None
    """The price of that time at another platform, minus the price here. Absent without such a price in the table."""


class CostTenants(PageRequest):
    """A page of tenants by slug, with calls from `since` on and before `until`."""

    since: str | None = None
    until: str | None = None


@operation("cost.tenants", needs="system:admin", across=False, http=Http("GET", "/v1/cost/tenants"), raises=(InvalidInput,))
async def list_margins(context: Context, request: CostTenants) -> Page[TenantMargin]:
    """Show the margin of each tenant, and the money saved by the choice of cheap sandboxes."""
    since, until = to_ms(request.since, "since") or 0, to_ms(request.until, "until")
    store = context.tenancy.store
    tenants = await store.directory.list_tenants(after=request.cursor, limit=request.limit + 1)
    items: list[TenantMargin] = []
    for tenant in tenants:
        rows = await store.accounts(tenant.tenant_id).ledger.usage(by=("driver",), since=since, until=until)
        items.append(_margin(tenant.tenant_id, tenant.slug, rows))
    return paged(items, request.limit, lambda index: items[index].slug)


def _margin(tenant_id: TenantId, slug: str, rows: Sequence[UsageRow]) -> TenantMargin:
    price, cost = sum(row.price for row in rows), sum(row.cost for row in rows)
    jobs = [row for row in rows if row.driver == TIER_DRIVER]
    sandbox_ms = sum(row.wall_ms for row in jobs)
    rate = prices.shipped().sandbox
    sandbox_price = None if rate is None else round(sandbox_ms / HOUR_MS * rate.price * DOLLAR_NANO)
    return TenantMargin(
        tenant_id=tenant_id,
        slug=slug,
        price=price,
        cost=cost,
        margin=price - cost,
        sandbox_ms=sandbox_ms,
        saved=None if sandbox_price is None else sandbox_price - sum(row.price for row in jobs),
    )
