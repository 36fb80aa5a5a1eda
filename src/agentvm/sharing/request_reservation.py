"""Reservation — the part of a byte budget that one request holds for what it reads, until it is answered."""

from typing import Self

import anyio

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.sharing.byte_budget import ByteBudget

WAIT_SECONDS = 5.0
LOOKS = 50
"""How long a request waits for room, and how often it looks for it."""


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
        """Holds that many bytes in all; `ServerBusy` when there is no room for them after a while."""
        for _ in range(LOOKS):
            if size <= self.held:
                return
            if self._budget.reserve(self._tenant_id, size - self.held):
                self.held = size
                return
            await anyio.sleep(WAIT_SECONDS / LOOKS)
        raise ServerBusy("The server is reading as much for its users as it can hold; try again in a few seconds")
