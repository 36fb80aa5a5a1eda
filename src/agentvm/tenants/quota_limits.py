"""Quota limits — which limits hold for a tenant and its users, where each comes from, and how much of it is used."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from agentvm.errors.bounds import QueryTimeout
from agentvm.model.account import EACH_USER, METRICS, OF_USERS, Quota
from agentvm.model.ids import UserId
from agentvm.tenants.book import SPENT, QuotaBook, amount_of, window_of

if TYPE_CHECKING:
    from agentvm.storage.sql.accounts import Accounts

QuotaSource = Literal["plan", "tenant", "eachUser", "user"]
Limits = Mapping[tuple[str, UserId | None], Quota]
"""Quotas by metric and user."""


def limits_of_tenant(limits: Limits) -> list[Quota]:
    """Returns one quota for each metric; one without a limit where there is none."""
    return [limits.get((metric, None)) or Quota(metric=metric) for metric in METRICS]


def limits_of_user(limits: Limits, user_id: UserId) -> list[Quota]:
    """Returns the limits that hold for one user: their own, else those of each user."""
    own = [limits.get((metric, user_id)) or limits.get((metric, EACH_USER)) for metric in OF_USERS]
    return [msgspec.structs.replace(quota, user_id=user_id) for quota in own if quota is not None]


def source_of(quota: Quota, explicit: Limits, user_id: UserId | None = None) -> QuotaSource | None:
    """Returns where a limit comes from; None without a limit. `user_id` names the user that it was looked up for."""
    if quota.hard is None and quota.soft is None:
        return None
    if (quota.metric, quota.user_id) in explicit:
        return "tenant" if quota.user_id is None else "eachUser" if quota.user_id == EACH_USER else "user"
    return "eachUser" if user_id is not None and (quota.metric, EACH_USER) in explicit else "plan"


async def used_of(quota: Quota, accounts: "Accounts", book: QuotaBook, now: int) -> int | None:
    """Returns the used amount: from the ledger, the number of containers, or a counter. None if nothing was counted yet, or
    if that would take too long."""
    if quota.user_id == EACH_USER:
        return None
    begins = window_of(METRICS[quota.metric], now)[0]
    if quota.metric in SPENT:
        rows = await accounts.ledger.usage(by=(), since=begins, user_id=quota.user_id)
        return sum(amount_of(quota.metric, row) for row in rows)
    if quota.metric == "containers" and quota.user_id is None:
        return await accounts.quotas.count_containers()
    counter = book.counters.get((quota.metric, quota.user_id))
    if counter is None:
        return None
    if counter.is_upper:
        # The size of the whole database, of which other tenants have a part.
        try:
            return await accounts.quotas.storage_bytes(unhurried=False)
        except QueryTimeout:
            return None
    return counter.used if counter.begins >= begins else 0
