"""Scheduler — runs each job on the tier that was decided for it, within the slots of that tier."""

from collections.abc import Callable, Hashable, Mapping, Sequence

import msgspec

from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.model.tier import TIERS, Job, JobLimits, JobResult, Need, Offer, Placed, TierName, TierRules, Unplaced
from agentvm.tiers.base import HostCalls, Tier
from agentvm.tiers.decide import decide
from agentvm.tiers.slots import TierSlots

logger = get_logger(__name__)

BROKEN_MS = 5_000
"""Time for which a tier that failed to start is not chosen again."""


class Scheduler:
    """The tiers of one server."""

    def __init__(
        self,
        tiers: Sequence[Tier],
        *,
        slots: Mapping[TierName, int],
        clock: Clock,
        rules: Callable[[], TierRules] = TierRules,
    ) -> None:
        """`rules` are the operator's, read for each job."""
        self._tiers = {tier.name: tier for tier in tiers}
        self._slots = TierSlots(slots)
        self._clock = clock
        self._rules = rules
        self._broken: dict[TierName, int] = {}

    async def offers(self) -> tuple[Offer, ...]:
        """The offers of all tiers, from the weakest to the strongest."""
        ordered = sorted(self._tiers.values(), key=lambda tier: TIERS.index(tier.name))
        offers = [await tier.offer() for tier in ordered]
        return tuple(
            msgspec.structs.replace(offer, free_slots=self._slots.free(offer.tier), broken_until=self._broken.get(offer.tier))
            for offer in offers
        )

    async def place(self, need: Need, rules: TierRules | None = None) -> Placed:
        """The tier for a job; `TierUnavailable` with the verdict on each. `rules` of a tenant only narrow the operator's."""
        answer = decide(need, await self.offers(), self._rules().narrowed(rules or TierRules()), self._clock())
        if isinstance(answer, Unplaced):
            raise TierUnavailable(answer.reason, details={"why": [list(verdict) for verdict in answer.why]})
        return answer

    async def run(
        self, need: Need, job: Job, *, tenant: Hashable, calls: HostCalls | None = None, rules: TierRules | None = None
    ) -> tuple[Placed, JobResult]:
        """Runs a job. A tier that breaks before the code has begun is left for another one, once."""
        placed = await self.place(need, rules)
        try:
            return placed, await self._run(placed, job, tenant, calls)
        except TierBroken as error:
            if error.started:
                raise
            self._broken[placed.tier] = self._clock() + BROKEN_MS
            logger.warning("tier_broken", tier=placed.tier, reason=str(error))
            stronger = [tier for tier in TIERS[TIERS.index(placed.tier) + 1 :] if tier in self._tiers]
            if not stronger:
                raise
            again = await self.place(msgspec.structs.replace(need, tier=stronger[0]), rules)
            return again, await self._run(again, job, tenant, calls)

    async def _run(self, placed: Placed, job: Job, tenant: Hashable, calls: HostCalls | None) -> JobResult:
        async with self._slots.hold(placed.tier, tenant, job.limits.wall_ms / 1000) as seconds:
            limits: JobLimits = msgspec.structs.replace(job.limits, wall_ms=max(1, round(seconds * 1000)))
            return await self._tiers[placed.tier].run(msgspec.structs.replace(job, limits=limits), calls)
