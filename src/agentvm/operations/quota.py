"""Quotas — how much a tenant and its users may use, and how much of it is used."""

from typing import TYPE_CHECKING

from agentvm.errors import InvalidInput, not_found
from agentvm.model.account import EACH_USER, METRICS, Quota
from agentvm.model.base import Record, record_from
from agentvm.model.ids import UserId
from agentvm.operations.numbers import Amount
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page
from agentvm.protocol.requests import Request
from agentvm.tenants.plans import effective
from agentvm.tenants.quota import check_quota, window_of
from agentvm.tenants.quota_limits import QuotaSource, limits_of_tenant, limits_of_user, source_of, used_of
from agentvm.tenants.rights import check_covers_role

if TYPE_CHECKING:
    from agentvm.tenants.quota import QuotaBook

operation = OperationGroup("quotas")

ADMIN = "tenants:admin"

_PATH = "/v1/quotas"


class QuotaView(Record):
    """`used` is absent where nothing was counted yet. `resetAt` is the end of the window, for a metric that has one.

    `source` says whose limit it is: the plan's, the tenant's, that of each user, or a user's own; absent without a limit.
    """

    metric: str
    user_id: UserId | None = None
    each_user: bool | None = None
    source: QuotaSource | None = None
    hard: int | None = None
    soft: int | None = None
    used: int | None = None
    reset_at: int | None = None


class QuotaList(Request[Page[QuotaView]]):
    """`userId` shows the limits that hold for one user."""

    user_id: UserId | None = None


@operation("quota.list", needs=(ADMIN, "usage:read"), http=Http("GET", _PATH))
async def list_all(context: Context, request: QuotaList) -> Page[QuotaView]:
    """List quotas and how much of them is used.

    Every metric of the tenant with the effective limit, which may be its plan's; then the limits of each user and of single
    users. Without `tenants:admin` you see the limits that apply to you. A key for some containers that has no user sees no
    limits of users.
    """
    principal = context.principal
    is_admin = principal.may(ADMIN)
    user_id = request.user_id if is_admin else principal.user_id or request.user_id
    is_narrow = principal.containers is not None and principal.user_id is None
    if is_narrow and (user_id is not None or not is_admin):
        return Page(items=[])
    if user_id is not None and await context.accounts.users.get(user_id) is None:
        return Page(items=[])
    explicit = {(quota.metric, quota.user_id): quota for quota in await context.accounts.quotas.list()}
    tenant = await context.tenancy.store.directory.get_tenant(context.tenant_id)
    plan = context.tenancy.quotas.plans.find(None if tenant is None else tenant.plan)
    limits = {(quota.metric, quota.user_id): quota for quota in effective(plan, explicit.values())}
    quotas = limits_of_tenant(limits) if user_id is None else limits_of_user(limits, user_id)
    if user_id is None and not is_narrow:
        quotas += [quota for quota in limits.values() if quota.user_id is not None]
    book = await context.tenancy.quotas.book(context.tenant_id, user_id)
    return Page(items=[await _view(context, book, quota, source_of(quota, explicit, user_id)) for quota in quotas])


class QuotaPut(Request[QuotaView]):
    """With `eachUser` the limit holds for each user of the tenant without a limit of their own."""

    metric: str
    hard: Amount | None = None
    soft: Amount | None = None
    user_id: UserId | None = None
    each_user: bool = False


@operation("quota.put", needs=ADMIN, audit="quota.put", http=Http("PUT", _PATH, names=("QuotaRequest", None)))
async def put(context: Context, request: QuotaPut) -> QuotaView:
    """Set a quota."""
    user_id = _target(context, request)
    quota = check_quota(Quota(metric=request.metric, hard=request.hard, soft=request.soft, user_id=user_id))
    if not await _check_user(context, request.user_id):
        raise not_found("User", request.user_id or "")
    await context.accounts.quotas.put(quota, context.vm.clock())
    await context.tenancy.quotas.reread(context.tenant_id)
    book = await context.tenancy.quotas.book(context.tenant_id)
    return await _view(context, book, quota, source_of(quota, {(quota.metric, user_id): quota}))


class QuotaDelete(Request[None]):
    metric: str
    user_id: UserId | None = None
    each_user: bool = False


@operation("quota.delete", needs=ADMIN, audit="quota.delete", http=Http("DELETE", _PATH))
async def delete(context: Context, request: QuotaDelete) -> None:
    """Delete a quota."""
    user_id = _target(context, request)
    await _check_user(context, request.user_id)
    if not await context.accounts.quotas.remove(request.metric, user_id):
        raise not_found("Quota", request.metric)
    await context.tenancy.quotas.reread(context.tenant_id)


def _target(context: Context, request: QuotaPut | QuotaDelete) -> UserId | None:
    """Returns the user whose limit it is; None for the tenant's, which only the operator may set."""
    if request.each_user and request.user_id is not None:
        raise InvalidInput("A limit is of one user or of each, not both: leave out `userId` or `eachUser`")
    user_id = EACH_USER if request.each_user else request.user_id
    context.target = request.metric if user_id is None else f"{request.metric}/{user_id}"
    if user_id is None:
        context.principal.require("system:admin")
    return user_id


async def _check_user(context: Context, user_id: UserId | None) -> bool:
    """Refuses a principal that may not limit the user, because a limit of 0 locks out. Returns whether the user exists."""
    user = None if user_id is None else await context.accounts.users.get(user_id)
    if user is not None:
        check_covers_role(context.principal, user.role)
    return user_id is None or user is not None


async def _view(context: Context, book: "QuotaBook", quota: Quota, source: QuotaSource | None) -> QuotaView:
    is_each, now = quota.user_id == EACH_USER, context.vm.clock()
    return record_from(
        QuotaView,
        quota,
        user_id=None if is_each else quota.user_id,
        each_user=True if is_each else None,
        source=source,
        used=await used_of(quota, context.accounts, book, now),
        reset_at=window_of(METRICS[quota.metric], now)[1],
    )
