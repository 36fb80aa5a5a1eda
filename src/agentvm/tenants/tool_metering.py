"""Tool metering — how many tool calls of a tenant run at a time."""

from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from agentvm.errors import QuotaExceeded
from agentvm.model.ids import TenantId
from agentvm.tenants.quota import Quotas

RUNNING = "running_tools"
POLL_SECONDS = 0.25
"""Time between two looks, in a cluster, whether one more may run."""


class ToolMetering:
    """The tools of all tenants; see `agentvm.runtime.billing.ToolMeter`."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._running: Counter[TenantId] = Counter()
        self._waiting: dict[TenantId, deque[anyio.Event]] = {}
        if quotas.parts is not None:
            quotas.parts.gauges[RUNNING] = lambda tenant_id, _user_id: self._running[tenant_id]

    @asynccontextmanager
    async def running(self, tenant_id: TenantId) -> AsyncIterator[None]:
        """Calls beyond the quota wait in the order in which they came; `QuotaExceeded` if it allows none at all."""
        # The number is read after the limit, or calls that came together would all see the same one.
        while await self._most(tenant_id) <= self._running[tenant_id]:
            turn, line = anyio.Event(), self._waiting.setdefault(tenant_id, deque())
            line.append(turn)
            try:
                # In a cluster the call that ends may run on another node.
                with anyio.move_on_after(POLL_SECONDS if self._quotas.parts is not None else None):
                    await turn.wait()
            finally:
                if turn in line:
                    line.remove(turn)
                elif self._running[tenant_id] == 0:
                    # Woken and cancelled at the same time: the next one must not wait for ever.
                    self._wake(tenant_id)
        self._running[tenant_id] += 1
        try:
            yield
        finally:
            self._running[tenant_id] -= 1
            if not self._running[tenant_id]:
                del self._running[tenant_id]
            self._wake(tenant_id)

    async def _most(self, tenant_id: TenantId) -> float:
        counters = await self._quotas.counters(tenant_id, None, (RUNNING,), 1)
        if any(counter.quota.hard is not None and counter.quota.hard < 1 for counter in counters):
            raise QuotaExceeded(RUNNING, limit=0, used=0)
        return min((counter.limit for counter in counters if counter.limit is not None), default=float("inf"))

    def _wake(self, tenant_id: TenantId) -> None:
        line = self._waiting.get(tenant_id)
        if line:
            line.popleft().set()
        elif line is not None:
            del self._waiting[tenant_id]
