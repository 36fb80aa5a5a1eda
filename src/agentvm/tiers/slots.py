"""Slots — how many jobs run at a time on each tier, shared fairly among tenants. The queue has a bound.

Waiting is part of a job's time: a job that waited too long is not started.
"""

from collections.abc import AsyncGenerator, Hashable, Mapping
from contextlib import asynccontextmanager

import anyio

from agentvm.errors.bounds import ServerBusy
from agentvm.errors.tool import TierUnavailable
from agentvm.model.tier import TierName
from agentvm.sharing.fair_slots import FairSlots

QUEUE_MAX = 64
"""Jobs that may wait for a slot of one tier."""
TENANT_QUEUE_MAX = 32
"""Jobs of one tenant that may wait: the others always find room in the queue."""
_SHARE_RATIO = 0.75
"""The part of all slots that one tenant may hold."""


class TierSlots:
    """Used from one event loop."""

    def __init__(self, capacity: Mapping[TierName, int]) -> None:
        self._slots = {
            tier: FairSlots(number, share=max(1, round(number * _SHARE_RATIO)), idle_first=True)
            for tier, number in capacity.items()
        }
        self._waiting: dict[tuple[TierName, Hashable], int] = {}

    def free(self, tier: TierName) -> int:
        """Free slots and places in the queue."""
        slots = self._slots.get(tier)
        return QUEUE_MAX if slots is None else slots.free + QUEUE_MAX - slots.waiting

    @asynccontextmanager
    async def hold(self, tier: TierName, tenant: Hashable, seconds: float) -> AsyncGenerator[float]:
        """A slot for the time of the block; yields the seconds that are left of those the job had."""
        slots, began = self._slots.get(tier), anyio.current_time()
        if slots is None:
            yield seconds
            return
        place = (tier, tenant)
        if slots.waiting >= QUEUE_MAX or self._waiting.get(place, 0) >= TENANT_QUEUE_MAX:
            raise ServerBusy(f"Too many jobs wait for the tier {tier}; try again later")
        self._waiting[place] = self._waiting.get(place, 0) + 1
        try:
            with anyio.fail_after(seconds):
                held = await slots.acquire(tenant)
        except TimeoutError:
            raise TierUnavailable(f"The job waited {seconds:g} s for a slot of the tier {tier}: all its time") from None
        finally:
            self._waiting[place] -= 1
            if not self._waiting[place]:
                del self._waiting[place]
        try:
            yield max(0.001, seconds - (anyio.current_time() - began))
        finally:
            held.release()
