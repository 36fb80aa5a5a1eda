"""Audit refusals — limits how many refusals are entered in the audit log."""

from collections import OrderedDict

from agentvm.model.ids import TenantId

REFUSED_MS = 60_000
ACTORS_MAX = 10_000


class AuditRefusals:
    """Selects the refusals that get an entry: one a minute of each actor and action.

    Otherwise a caller without any right could fill the disk by being refused.
    """

    def __init__(self, max_actors: int = ACTORS_MAX) -> None:
        self._max_actors = max_actors
        self._entered: OrderedDict[tuple[TenantId, str, str], int] = OrderedDict()

    def enter(self, tenant_id: TenantId, actor: str, action: str, now: int) -> bool:
        """Whether this one is to be entered; if so, the next are not for a minute."""
        name = (tenant_id, actor, action)
        at = self._entered.get(name)
        if at is not None and at <= now < at + REFUSED_MS:
            return False
        self._entered[name] = now
        self._entered.move_to_end(name)
        if len(self._entered) > self._max_actors:
            self._entered.popitem(last=False)
        return True
