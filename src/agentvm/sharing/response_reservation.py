"""Response reservation — bytes of a budget for an answer that is still to be sent."""

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.sharing.byte_budget import ByteBudget


class ResponseReservation:
    """Reserved until it is released or garbage-collected: an answer that is never begun has no end."""

    def __init__(self, budget: ByteBudget, tenant_id: TenantId, size: int) -> None:
        """`ServerBusy` if there is none."""
        self._size = 0
        if not budget.reserve(tenant_id, size):
            raise ServerBusy("Too many exports are running at the moment; try again in a few seconds")
        self._budget, self._tenant_id, self._size = budget, tenant_id, size

    def release(self) -> None:
        """Releases the bytes; repeating it does no harm."""
        if self._size:
            self._budget.release(self._tenant_id, self._size)
            self._size = 0

    def __del__(self) -> None:
        self.release()
