"""Allowance — the limits of a plan as they are written in a file, and shown. Pure."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from agentvm.errors import shorten
from agentvm.model.account import METRICS, OF_USERS, Allowance, Quota
from agentvm.model.money import NANO, to_nano

MONEY = "budget_per_month"
MOST = 2**53 - 1
"""Of a limit: what JSON carries exactly."""


def read_allowance(value: object, *, of_users: bool) -> Allowance:
    """A number by metric, which is `hard`, or both as `{soft: …, hard: …}`; money is in dollars.

    `ValueError` says what is wrong.
    """
    if not isinstance(value, Mapping):
        raise ValueError("it must be limits by metric like {tokens_per_day: 100000}")
    known = OF_USERS if of_users else METRICS
    quotas = []
    for metric, limit in value.items():
        if metric not in known:
            raise ValueError(f"{shorten(str(metric))!r} is no metric here; there are: {', '.join(known)}")
        quotas.append(_quota(metric, limit))
    return Allowance(quotas=tuple(sorted(quotas, key=lambda quota: quota.metric)))


def plain_allowance(allowance: Allowance) -> dict[str, object]:
    """As JSON that `read_allowance` reads again."""
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


def _number(metric: str, given: object) -> int:
    text = str(given).replace("_", "") if isinstance(given, int | float | str | Decimal) and not isinstance(given, bool) else ""
    try:
        number = Decimal(text)
        value = to_nano(number) if metric == MONEY else int(number)
    except (InvalidOperation, ValueError, OverflowError):
        value, number = -1, Decimal(0)
    if not 0 <= value <= MOST or (metric != MONEY and value != number):
        raise ValueError(f"{metric} must be {'dollars' if metric == MONEY else 'a whole number'} from 0 on")
    return value


def _plain(quota: Quota) -> object:
    limits = {name: _shown(quota.metric, value) for name in ("hard", "soft") if (value := getattr(quota, name)) is not None}
    return limits["hard"] if limits.keys() == {"hard"} else limits


def _shown(metric: str, value: int) -> object:
    return f"{(Decimal(value) / NANO).normalize():f}" if metric == MONEY else value
