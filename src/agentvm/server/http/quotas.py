"""Quotas — `/v1/quotas`: how much a tenant or one of its users may use, and how much of it is used."""

from agentvm.errors import NotFound, PermissionDenied
from agentvm.model.account import METRICS, Quota
from agentvm.model.base import Record
from agentvm.model.ids import UserId
from agentvm.server.http.route import NO_CONTENT, Amount, Answer, Ask, Given, Page, Routes
from agentvm.tenants.quota import Book, check_quota, window_of
from agentvm.tenants.rights import check_over

routes = Routes()

ADMIN = "tenants:admin"
LOOKING = (ADMIN, "usage:read")

_PATH = "/v1/quotas"


class QuotaGiven(Given):
    metric: str
    hard: Amount | None = None
    soft: Amount | None = None
    user_id: UserId | None = None


class QuotaNamed(Given):
    metric: str
    user_id: UserId | None = None


class QuotasGiven(Given):
    user_id: UserId | None = None


class QuotaView(Record):
    """`used` is absent where nothing was counted yet. `reset_at` is when the window ends, for what has one."""

    metric: str
    user_id: UserId | None = None
    hard: int | None = None
    soft: int | None = None
    used: int | None = None
    reset_at: int | None = None


@routes.add("GET", _PATH, needs=LOOKING, takes=QuotasGiven)
async def list_all(ask: Ask[QuotasGiven]) -> Page[QuotaView]:
    """List quotas and what is used of them.

    Every metric of the tenant, then the limits of users. Who does not administer the tenant sees their own limits.

    A key for some containers that is no user's has none, and the users of the other containers are not its business.
    """
    admin, one = ask.principal.may(ADMIN), ask.principal
    own = None if admin else one.user_id
    user_id = own or ask.given.user_id
    narrow = one.containers is not None and one.user_id is None
    if narrow and (user_id is not None or not admin):
        return Page(items=[])
    limits = {(quota.metric, quota.user_id): quota for quota in await ask.accounts.quotas.list()}
    wanted: list[tuple[str, UserId | None]] = [] if user_id is not None else [(metric, None) for metric in METRICS]
    wanted += [key for key in limits if key[1] is not None and not narrow and user_id in (None, key[1])]
    book = await ask.office.quotas.book(ask.tenant_id)
    return Page(items=[await _shown(ask, book, limits.get(key) or Quota(metric=key[0], user_id=key[1])) for key in wanted])


@routes.add("PUT", _PATH, needs=(ADMIN,), takes=QuotaGiven, action="quota.put")
async def put(ask: Ask[QuotaGiven]) -> QuotaView:
    """Set a quota."""
    given = ask.given
    ask.target = _name(given.metric, given.user_id)
    _check_own(ask, given.user_id)
    quota = check_quota(Quota(metric=given.metric, hard=given.hard, soft=given.soft, user_id=given.user_id))
    if not await _check_user(ask, given.user_id):
        raise NotFound("There is no such user")
    await ask.accounts.quotas.put(quota, ask.vm.clock())
    await ask.office.quotas.reread(ask.tenant_id)
    return await _shown(ask, await ask.office.quotas.book(ask.tenant_id), quota)


@routes.add("DELETE", _PATH, needs=(ADMIN,), takes=QuotaNamed, action="quota.delete")
async def delete(ask: Ask[QuotaNamed]) -> Answer[None]:
    """Take a quota away."""
    given = ask.given
    ask.target = _name(given.metric, given.user_id)
    _check_own(ask, given.user_id)
    await _check_user(ask, given.user_id)
    if not await ask.accounts.quotas.remove(given.metric, given.user_id):
        raise NotFound("There is no such quota")
    await ask.office.quotas.reread(ask.tenant_id)
    return NO_CONTENT


def _check_own(ask: Ask[QuotaGiven] | Ask[QuotaNamed], user_id: UserId | None) -> None:
    """What a tenant as a whole may use is the operator's to say, or it would be no limit."""
    if user_id is None and not ask.principal.may("system:admin"):
        raise PermissionDenied("system:admin")


async def _check_user(ask: Ask[QuotaGiven] | Ask[QuotaNamed], user_id: UserId | None) -> bool:
    """Refuses who may not limit the user, because a limit of nothing locks out; whether there is one."""
    user = None if user_id is None else await ask.accounts.users.get(user_id)
    if user is not None:
        check_over(ask.principal, user.role)
    return user_id is None or user is not None


async def _shown(ask: Ask[QuotasGiven] | Ask[QuotaGiven], book: Book, quota: Quota) -> QuotaView:
    return QuotaView(
        metric=quota.metric,
        user_id=quota.user_id,
        hard=quota.hard,
        soft=quota.soft,
        used=await _used(ask, book, quota),
        reset_at=window_of(METRICS[quota.metric], ask.vm.clock())[1],
    )


async def _used(ask: Ask[QuotasGiven] | Ask[QuotaGiven], book: Book, quota: Quota) -> int | None:
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
