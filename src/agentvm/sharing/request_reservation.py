"""Request reservation — the part of a byte budget that one request holds for its input, until it is answered."""

from typing import Self

import anyio

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.sharing.byte_budget import ByteBudget

WAIT_SECONDS = 5.0
RESERVE_ATTEMPTS_MAX = 50
"""Attempts to reserve within `WAIT_SECONDS`."""


class RequestReservation:
    """Bytes of one request, for its tenant. Released when the block is left."""

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
