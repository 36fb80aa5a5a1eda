"""Scheduler — runs each job on the tier that was decided for it, within the slots of that tier.

A job moves to a stronger tier once, and only on two grounds: its engine is a subset without a feature that the code uses, found
before the code had any effect, or the tier broke before the code had begun. The move is part of the placement.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from agentvm.errors.tool import EngineLacking, TierBroken, TierUnavailable
from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.model.tier import FULL_ENGINES, TIERS, Job, JobResult, Need, Offer, Placed, TierName, TierRules, Unplaced
from agentvm.tiers.base import HostCalls, Process, Tier
from agentvm.tiers.decide import WHY_MAX, decide, engine_on
from agentvm.tiers.slots import TierSlots

logger = get_logger(__name__)

BROKEN_MS = 5_000
"""Time for which a tier that failed to start a job is not chosen for its tenant again."""


Began = Callable[[Placed], None]
"""Called when a job has its slot and begins: the time before it was spent waiting."""


def _free() -> Mapping[str, int]:
    return {}


def _unnoticed(placed: Placed) -> None:
    """Does nothing when a job starts: it is not counted."""


class Scheduler:
    """The tiers of one server."""

    def __init__(
        self,
        tiers: Sequence[Tier],
        *,
        slots: Mapping[TierName, int],
        clock: Clock,
        rules: Callable[[], TierRules] = TierRules,
        prices: Callable[[], Mapping[str, int]] = _free,
    ) -> None:
        """`rules` are the operator's, and `prices` billionths of a dollar a second by tier; both are read for each job."""
        self._tiers = {tier.name: tier for tier in tiers}
        self._slots = TierSlots(slots)
        self._clock = clock
        self._rules = rules
        self._prices = prices
        # By tenant: it may be the job that cannot be started, and then nobody else is to notice.
        self._broken: dict[tuple[TierName, str], int] = {}

    async def offers(self, tenant: str = "") -> tuple[Offer, ...]:
        """The offers of all tiers to a tenant, from the weakest to the strongest."""
        ordered = sorted(self._tiers.values(), key=lambda tier: TIERS.index(tier.name))
        offers, prices = [await tier.offer() for tier in ordered], self._prices()
        return tuple(
            msgspec.structs.replace(
                offer,
                free_slots=self._slots.free(offer.tier),
                price_per_second=prices.get(offer.tier, offer.price_per_second),
                broken_until=self._broken.get((offer.tier, tenant)),
            )
            for offer in offers
        )

    async def has(self, engine: str) -> bool:
        """Whether a tier runs programs of an engine. The weakest that does is the last that is asked."""
        for tier in sorted(self._tiers.values(), key=lambda tier: TIERS.index(tier.name)):
            offer = await tier.offer()
            if not offer.missing and engine_on(engine, offer) is not None:
                return True
        return False

    async def place(self, need: Need, rules: TierRules | None = None, *, tenant: str = "") -> Placed:
        """The tier for a job; `TierUnavailable` with the verdict on each. `rules` of a tenant only narrow the operator's."""
        answer = decide(need, await self.offers(tenant), self._rules().narrowed(rules or TierRules()), self._clock())
        if isinstance(answer, Unplaced):
            raise TierUnavailable(answer.reason, details={"why": [list(verdict) for verdict in answer.why]})
        return answer

    async def run(
        self,
        need: Need,
        job: Job,
        *,
        tenant: str,
        calls: HostCalls | None = None,
        rules: TierRules | None = None,
        began: Began = _unnoticed,
    ) -> tuple[Placed, JobResult]:
        """Runs a job, on a second tier if the first one was left on one of the two grounds. `began` is told of each start."""
        placed = await self.place(need, rules, tenant=tenant)
        image = need.engine.removeprefix("image:") if need.engine.startswith("image:") else ""
        job = msgspec.structs.replace(job, owner=tenant, image=image)
        try:
            return placed, await self._run(placed, job, calls, began)
        except TierBroken as error:
            if error.started:
                raise
            self._note_broken(placed.tier, tenant)
            logger.warning("tier_broken", tier=placed.tier, tenant_id=tenant, reason=str(error))
            failure: TierUnavailable = error
        except EngineLacking as error:
            failure = error
        placed = await self._escalate(need, placed, failure, rules, tenant)
        return placed, await self._run(placed, job, calls, began)

    def _note_broken(self, tier: TierName, tenant: str) -> None:
        now = self._clock()
        self._broken = {key: until for key, until in self._broken.items() if until > now}
        self._broken[tier, tenant] = now + BROKEN_MS

    async def _escalate(
        self, need: Need, first: Placed, failure: TierUnavailable, rules: TierRules | None, tenant: str
    ) -> Placed:
        stronger = [tier for tier in TIERS[TIERS.index(first.tier) + 1 :] if tier in self._tiers]
        if not stronger:
            raise failure
        # A subset has failed: only the whole engine is a step upwards.
        engine = FULL_ENGINES.get(need.engine, need.engine) if isinstance(failure, EngineLacking) else need.engine
        second = await self.place(msgspec.structs.replace(need, tier=stronger[0], engine=engine), rules, tenant=tenant)
        ground = f"left: {failure}"[:WHY_MAX]
        logger.info("job_escalated", tier=second.tier, left=first.tier, ground=ground)
        why = tuple((tier, ground if tier == first.tier else verdict) for tier, verdict in second.why)
        return msgspec.structs.replace(second, why=why, escalated_from=first.tier)

    @asynccontextmanager
    async def open(self, need: Need, job: Job, *, rules: TierRules | None = None) -> AsyncIterator[Process]:
        """Starts a program that lives until the context is left. It takes no slot."""
        placed = await self.place(need, rules)
        async with self._tiers[placed.tier].open(job) as process:
            yield process

    async def _run(self, placed: Placed, job: Job, calls: HostCalls | None, began: Began) -> JobResult:
        tier = self._tiers[placed.tier]
        engine = engine_on(job.engine, await tier.offer()) or job.engine
        async with self._slots.hold(placed.tier, job.owner, job.limits.wall_ms / 1000) as seconds:
            limits = msgspec.structs.replace(job.limits, wall_ms=max(1, round(seconds * 1000)))
            began(placed)
            return await tier.run(msgspec.structs.replace(job, engine=engine, limits=limits), calls)
