"""Allowance — the quotas of a plan as they are written in files and shown. Pure."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from agentvm.errors import shorten
from agentvm.model.account import METRICS, OF_USERS, Allowance, Quota
from agentvm.model.money import DOLLAR_NANO, to_nano

MONEY_METRIC = "budget_per_month"
LIMIT_MAX = 2**53 - 1
"""The largest integer that JSON carries exactly."""


def read_allowance(value: object, *, of_users: bool) -> Allowance:
    """Reads quotas: a number by metric, which is `hard`, or both as `{soft: …, hard: …}`; money is in dollars.

    `ValueError` has the error message.
    """
    if not isinstance(value, Mapping):
        raise ValueError("it must be limits by metric like {tokens_per_day: 100000}")
    metrics = OF_USERS if of_users else METRICS
    quotas = []
    for metric, limit in value.items():
        if metric not in metrics:
            raise ValueError(f"{shorten(str(metric))!r} is not a metric; known metrics: {', '.join(metrics)}")
        quotas.append(_quota(metric, limit))
    return Allowance(quotas=tuple(sorted(quotas, key=lambda quota: quota.metric)))


def plain_allowance(allowance: Allowance) -> dict[str, object]:
    """Returns quotas as JSON that `read_allowance` reads again."""
    return {quota.metric: _plain(quota) for quota in allowance.quotas}


def _quota(metric: str, limit: object) -> Quota:
    if not isinstance(limit, Mapping):
        return Quota(metric=metric, hard=_number(metric, limit))
    if not limit.keys() <= {"hard", "soft"} or not limit:
        raise ValueError(f"{metric} must be a number, or have hard, soft or both")
    hard, soft = (None if limit.get(name) is None else _number(metric, limit[name]) for name in ("hard", "soft"))
    if hard is not None and soft is not None and soft > hard:
        raise ValueError(f"{metric}: soft warns before hard refuses, so it must not be larger")
    return Quota(metric=metric, hard=hard, soft=soft)


def _number(metric: str, amount: object) -> int:
    text = (
        str(amount).replace("_", "") if isinstance(amount, int | float | str | Decimal) and not isinstance(amount, bool) else ""
    )
    try:
        number = Decimal(text)
        value = to_nano(number) if metric == MONEY_METRIC else int(number)
    except (InvalidOperation, ValueError, OverflowError):
        value, number = -1, Decimal(0)
    if not 0 <= value <= LIMIT_MAX or (metric != MONEY_METRIC and value != number):
        raise ValueError(f"{metric} must be {'dollars' if metric == MONEY_METRIC else 'a whole number'} that is not negative")
    return value


def _plain(quota: Quota) -> object:
    limits = {name: _shown(quota.metric, value) for name in ("hard", "soft") if (value := getattr(quota, name)) is not None}
    return limits["hard"] if limits.keys() == {"hard"} else limits


def _shown(metric: str, value: int) -> object:
    return f"{(Decimal(value) / DOLLAR_NANO).normalize():f}" if metric == MONEY_METRIC else value
