"""Tool metering — how many tool calls of a tenant run at a time."""

from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from agentvm.errors import QuotaExceeded
from agentvm.model.ids import TenantId
from agentvm.tenants.quota import Quotas

RUNNING = "running_tools"


class ToolMetering:
    """The tools of all tenants; see `agentvm.runtime.billing.ToolMeter`."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._running: Counter[TenantId] = Counter()
        self._waiting: dict[TenantId, deque[anyio.Event]] = {}

    @asynccontextmanager
    async def running(self, tenant_id: TenantId) -> AsyncIterator[None]:
        """Calls beyond the quota wait in the order in which they came; `QuotaExceeded` if it allows none at all."""
        # The number is read after the limit, or calls that came together would all see the same one.
        while await self._most(tenant_id) <= self._running[tenant_id]:
            turn, line = anyio.Event(), self._waiting.setdefault(tenant_id, deque())
            line.append(turn)
            try:
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
        book = await self._quotas.book(tenant_id)
        limits = [counter.quota.hard for counter in book.applying(None, (RUNNING,)) if counter.quota.hard is not None]
        most = min(limits, default=float("inf"))
        if most < 1:
            raise QuotaExceeded(RUNNING, limit=0, used=0)
        return most

    def _wake(self, tenant_id: TenantId) -> None:
        line = self._waiting.get(tenant_id)
        if line:
            line.popleft().set()
        elif line is not None:
            del self._waiting[tenant_id]
