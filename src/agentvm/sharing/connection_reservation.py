"""Connection reservation — the part of a byte budget that one connection holds, as its bytes come and go.

A connection that holds little reserves nothing: most are idle, and a byte more or less must not cost a look at the budget.
"""

from agentvm.model.ids import TenantId
from agentvm.sharing.byte_budget import ByteBudget

FREE_BYTES = 16 * 1024
"""Bytes that a connection may hold without a reservation."""
STEP_BYTES = 64 * 1024
"""Beyond them bytes are reserved in steps, so that not every piece that arrives changes the budget."""


class ConnectionReservation:
    """Bytes that one connection has reserved, for the tenant that it belongs to; None while that is not known."""

    __slots__ = ("_budget", "_tenant_id", "held")

    def __init__(self, budget: ByteBudget, tenant_id: TenantId | None) -> None:
        self._budget = budget
        self._tenant_id = tenant_id
        self.held = 0

    def hold(self, size: int) -> bool:
        """Holds that many bytes from now on; False, and nothing changes, at the limit."""
        target = 0 if size <= FREE_BYTES else -(-size // STEP_BYTES) * STEP_BYTES
        if target > self.held:
            if not self._budget.reserve(self._tenant_id, target - self.held):
                return False
        elif target < self.held:
            self._budget.release(self._tenant_id, self.held - target)
        self.held = target
        return True

    def move(self, tenant_id: TenantId) -> bool:
        """Moves the reservation to this tenant; False, and nothing is held any more, at the tenant's limit."""
        held, self.held = self.held, 0
        self._budget.release(self._tenant_id, held)
        self._tenant_id = tenant_id
        if not self._budget.reserve(tenant_id, held):
            return False
        self.held = held
        return True
