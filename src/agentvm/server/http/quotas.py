"""Quotas — `/v1/quotas`: how much a tenant or one of its users may use, and how much of it is used."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from agentvm.errors import InvalidInput, NotFound, PermissionDenied
from agentvm.model.account import EACH_USER, METRICS, OF_USERS, Plan, Quota
from agentvm.model.base import Record
from agentvm.model.ids import UserId
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.server.http.route import Amount, Answer, Ask, Given, Page, Routes
from agentvm.tenants.plans import effective
from agentvm.tenants.quota import QuotaBook, check_quota, window_of
from agentvm.tenants.rights import check_covers_role

routes = Routes()

ADMIN = "tenants:admin"
LOOKING = (ADMIN, "usage:read")

_PATH = "/v1/quotas"


class QuotaGiven(Given):
    """With `each_user` it is for each user of the tenant who has no limit of their own."""

    metric: str
    hard: Amount | None = None
    soft: Amount | None = None
    user_id: UserId | None = None
    each_user: bool = False


class QuotaNamed(Given):
    metric: str
    user_id: UserId | None = None
    each_user: bool = False


class QuotasGiven(Given):
    user_id: UserId | None = None


Source = Literal["plan", "tenant", "eachUser", "user"]


class QuotaView(Record):
    """`used` is absent where nothing was counted yet. `reset_at` is when the window ends, for what has one.

    `source` says whose limit it is: the plan's, the tenant's, that of each user, or a user's own; absent without a limit.
    """

    metric: str
    user_id: UserId | None = None
    each_user: bool | None = None
    source: Source | None = None
    hard: int | None = None
    soft: int | None = None
    used: int | None = None
    reset_at: int | None = None


@routes.add("GET", _PATH, needs=LOOKING, takes=QuotasGiven)
async def list_all(ask: Ask[QuotasGiven]) -> Page[QuotaView]:
    """List quotas and what is used of them.

    Every metric of the tenant with the limit that holds, which may be its plan's; then the limits of each user, and of some.
    Who does not administer the tenant sees the limits that hold for them.

    A key for some containers that is no user's has none, and the users of the other containers are not its business.
    """
    admin, one = ask.principal.may(ADMIN), ask.principal
    own = None if admin else one.user_id
    user_id = own or ask.given.user_id
    narrow = one.containers is not None and one.user_id is None
    if narrow and (user_id is not None or not admin):
        return Page(items=[])
    if user_id is not None and await ask.accounts.users.get(user_id) is None:
        return Page(items=[])
    explicit = {(quota.metric, quota.user_id): quota for quota in await ask.accounts.quotas.list()}
    plan = await _plan_of(ask)
    limits = {(quota.metric, quota.user_id): quota for quota in effective(plan, explicit.values())}
    shown = [limits.get((metric, None)) or Quota(metric=metric) for metric in METRICS] if user_id is None else []
    if user_id is not None:
        shown += _of_user(limits, user_id)
    elif not narrow:
        shown += [quota for (_, user), quota in limits.items() if user is not None]
    book = await ask.tenancy.quotas.book(ask.tenant_id, user_id)
    return Page(items=[await _shown(ask, book, quota, _source(quota, explicit, user_id)) for quota in shown])


def _of_user(limits: Mapping[tuple[str, UserId | None], Quota], user_id: UserId) -> list[Quota]:
    """The limits that hold for one user: their own, or those of each."""
    own = [limits.get((metric, user_id)) or limits.get((metric, EACH_USER)) for metric in OF_USERS]
    return [msgspec.structs.replace(quota, user_id=user_id) for quota in own if quota is not None]


def _source(quota: Quota, explicit: Mapping[tuple[str, UserId | None], Quota], of: UserId | None) -> Source | None:
    if quota.hard is None and quota.soft is None:
        return None
    if (quota.metric, quota.user_id) in explicit:
        return "tenant" if quota.user_id is None else "eachUser" if quota.user_id == EACH_USER else "user"
    return "eachUser" if of is not None and (quota.metric, EACH_USER) in explicit else "plan"


async def _plan_of(ask: Ask[QuotasGiven]) -> Plan:
    tenant = await ask.tenancy.store.directory.get_tenant(ask.tenant_id)
    return ask.tenancy.quotas.plans.find(None if tenant is None else tenant.plan)


@routes.add("PUT", _PATH, needs=(ADMIN,), takes=QuotaGiven, action="quota.put")
async def put(ask: Ask[QuotaGiven]) -> QuotaView:
    """Set a quota."""
    given, user_id = ask.given, _whose(ask.given)
    ask.target = _name(given.metric, user_id)
    _check_own(ask, user_id)
    quota = check_quota(Quota(metric=given.metric, hard=given.hard, soft=given.soft, user_id=user_id))
    if not await _check_user(ask, given.user_id):
        raise NotFound("There is no such user")
    await ask.accounts.quotas.put(quota, ask.vm.clock())
    await ask.tenancy.quotas.reread(ask.tenant_id)
    source = _source(quota, {(quota.metric, user_id): quota}, None)
    return await _shown(ask, await ask.tenancy.quotas.book(ask.tenant_id), quota, source)


@routes.add("DELETE", _PATH, needs=(ADMIN,), takes=QuotaNamed, action="quota.delete")
async def delete(ask: Ask[QuotaNamed]) -> Answer[None]:
    """Take a quota away."""
    given, user_id = ask.given, _whose(ask.given)
    ask.target = _name(given.metric, user_id)
    _check_own(ask, user_id)
    await _check_user(ask, given.user_id)
    if not await ask.accounts.quotas.remove(given.metric, user_id):
        raise NotFound("There is no such quota")
    await ask.tenancy.quotas.reread(ask.tenant_id)
    return NO_CONTENT


def _whose(given: QuotaGiven | QuotaNamed) -> UserId | None:
    if given.each_user and given.user_id is not None:
        raise InvalidInput("A limit is of one user or of each, not both: leave `userId` or `eachUser` away")
    return EACH_USER if given.each_user else given.user_id


def _check_own(ask: Ask[QuotaGiven] | Ask[QuotaNamed], user_id: UserId | None) -> None:
    """What a tenant as a whole may use is the operator's to say, or it would be no limit."""
    if user_id is None and not ask.principal.may("system:admin"):
        raise PermissionDenied("system:admin")


async def _check_user(ask: Ask[QuotaGiven] | Ask[QuotaNamed], user_id: UserId | None) -> bool:
    """Refuses who may not limit the user, because a limit of nothing locks out; whether there is one."""
    user = None if user_id is None else await ask.accounts.users.get(user_id)
    if user is not None:
        check_covers_role(ask.principal, user.role)
    return user_id is None or user is not None


async def _shown(ask: Ask[QuotasGiven] | Ask[QuotaGiven], book: QuotaBook, quota: Quota, source: Source | None) -> QuotaView:
    each = quota.user_id == EACH_USER
    return QuotaView(
        metric=quota.metric,
        user_id=None if each else quota.user_id,
        each_user=True if each else None,
        source=source,
        hard=quota.hard,
        soft=quota.soft,
        used=None if each else await _used(ask, book, quota),
        reset_at=window_of(METRICS[quota.metric], ask.vm.clock())[1],
    )


async def _used(ask: Ask[QuotasGiven] | Ask[QuotaGiven], book: QuotaBook, quota: Quota) -> int | None:
    """From where it is kept: the ledger, the containers, or the count of who asks."""
    begins = window_of(METRICS[quota.metric], ask.vm.clock())[0]
    if quota.metric in ("tokens_per_day", "tokens_per_month", "budget_per_month"):
        rows = await ask.accounts.ledger.usage(by=(), since=begins, user_id=quota.user_id)
        if quota.metric == "budget_per_month":
            return sum(row.price for row in rows)
        return sum(row.input_tokens + row.output_tokens + row.cache_read_tokens + row.cache_write_tokens for row in rows)
    if quota.metric == "containers" and quota.user_id is None:
        return await ask.accounts.quotas.count_containers()
    counter = book.counters.get((quota.metric, quota.user_id))
    if counter is None:
        return None
    return counter.used if counter.begins >= begins else 0


def _name(metric: str, user_id: UserId | None) -> str:
    return metric if user_id is None else f"{metric}/{user_id}"
