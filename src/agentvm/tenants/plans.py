"""Plans — named sets of limits: the built-in ones, and those of the operator. Pure.

Explicit limits of a tenant or a user take precedence over those of its plan. `default` is for tenants without a plan, and for
those whose plan no longer exists. Its limits protect a fresh server from a single member: ordinary use never meets them.
"""

from collections.abc import Iterable, Mapping

import msgspec

from agentvm.errors import InvalidInput, shorten
from agentvm.model.account import EACH_USER, Allowance, Plan, Quota

DEFAULT = "default"

GIB_BYTES = 1024**3


def _allow(**limits: int) -> Allowance:
    return Allowance(quotas=tuple(Quota(metric=metric, hard=hard) for metric, hard in limits.items()))


BUILT_IN: Mapping[str, Plan] = {
    DEFAULT: Plan(
        limits=_allow(
            requests_per_minute=600_000,
            connections=50_000,
            containers=1_000_000,
            running_agents=20_000,
            running_tools=2_000,
            queued_messages=200_000,
            storage_bytes=200 * GIB_BYTES,
            export_bytes_per_day=1_000 * GIB_BYTES,
        ),
        users=_allow(requests_per_minute=30_000, connections=1_000, stored_bytes_per_day=20 * GIB_BYTES),
    ),
    "free": Plan(
        limits=_allow(
            requests_per_minute=600,
            connections=20,
            containers=20,
            running_agents=5,
            running_tools=8,
            queued_messages=50,
            tokens_per_day=100_000,
            storage_bytes=GIB_BYTES,
            export_bytes_per_day=5 * GIB_BYTES,
        ),
        users=_allow(requests_per_minute=120, connections=10, tokens_per_day=20_000, stored_bytes_per_day=GIB_BYTES // 4),
    ),
    "pro": Plan(
        limits=_allow(
            requests_per_minute=60_000,
            connections=5_000,
            containers=20_000,
            running_agents=1_000,
            running_tools=500,
            queued_messages=10_000,
            storage_bytes=100 * GIB_BYTES,
            export_bytes_per_day=500 * GIB_BYTES,
        ),
        users=_allow(requests_per_minute=3_000, connections=100, stored_bytes_per_day=5 * GIB_BYTES),
    ),
    "unlimited": Plan(),
}


class Plans:
    """The plans of a server; an operator's own goes before the built-in of the same name."""

    def __init__(self, own: Mapping[str, Plan] | None = None) -> None:
        self._own = dict(own or {})

    def replace(self, own: Mapping[str, Plan]) -> bool:
        """Replaces the operator's plans; returns whether anything changed."""
        changed = self._own != dict(own)
        self._own = dict(own)
        return changed

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*BUILT_IN, *self._own)))

    def find(self, name: str | None) -> Plan:
        """The plan of that name; the default one without a name, and for one that is not there."""
        return self._own.get(name or DEFAULT) or BUILT_IN.get(name or DEFAULT) or self.find(None)

    def check(self, name: str | None) -> None:
        """`InvalidInput` for a name that no plan has."""
        if name is not None and name not in self.names:
            raise InvalidInput(f"There is no plan {shorten(name)!r}; there are: {', '.join(self.names)}, or set plans.<name>")


def effective(plan: Plan, explicit: Iterable[Quota]) -> tuple[Quota, ...]:
    """Returns the limits that apply: explicit ones, else those of the plan."""
    quotas = {(quota.metric, quota.user_id): quota for quota in (*of_plan(plan), *explicit)}
    return tuple(quotas.values())


def of_plan(plan: Plan) -> tuple[Quota, ...]:
    """The limits of a plan, of a tenant and of each user."""
    return (*plan.limits.quotas, *(msgspec.structs.replace(quota, user_id=EACH_USER) for quota in plan.users.quotas))
