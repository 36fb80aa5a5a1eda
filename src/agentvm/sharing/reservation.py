"""Reservations — the parts of a byte budget that one connection, one request or one response holds."""

from typing import Self

import anyio

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.sharing.byte_budget import ByteBudget

FREE_BYTES = 16 * 1024
"""Bytes that a connection may hold without a reservation: most are idle, and must not cost a look at the budget."""
STEP_BYTES = 64 * 1024
"""Beyond them bytes are reserved in steps, so that not every piece that arrives changes the budget."""
WAIT_SECONDS = 5.0
"""A request waits this long for room."""
RESERVE_ATTEMPTS_MAX = 50
"""Attempts to reserve within `WAIT_SECONDS`."""


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


class RequestReservation:
    """Bytes that one request holds for its input until it is answered. Released when the block is left."""

    __slots__ = ("_budget", "_tenant_id", "held")

    def __init__(self, budget: ByteBudget, tenant_id: TenantId) -> None:
        self._budget = budget
        self._tenant_id = tenant_id
        self.held = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.release(self._tenant_id, self.held)
        self.held = 0

    async def grow(self, size: int) -> None:
        """Holds that many bytes in all; `ServerBusy` when the budget stays full."""
        for _ in range(RESERVE_ATTEMPTS_MAX):
            if size <= self.held:
                return
            if self._budget.reserve(self._tenant_id, size - self.held):
                self.held = size
                return
            await anyio.sleep(WAIT_SECONDS / RESERVE_ATTEMPTS_MAX)
        raise ServerBusy("The server's memory for requests is full; try again in a few seconds")


class ResponseReservation:
    """Bytes of a streamed response, until it is released or garbage-collected: a response that is never begun has no end."""

    def __init__(self, budget: ByteBudget, tenant_id: TenantId, size: int) -> None:
        """`ServerBusy` at the limit."""
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
