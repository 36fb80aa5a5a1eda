"""Metered jobs — runs code in a sandbox within its tenant's quota, and enters what it took into the ledger.

The same for a request and for a tool of an agent. The time is reserved before, and settled after, whatever the job came to.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import msgspec

from agentvm.errors.tool import TierUnavailable
from agentvm.model.ids import Clock, ContainerId, ImageId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import TIER_DRIVER, LedgerEntry
from agentvm.model.tier import Job, JobOwner, JobResult, Need, Placed, TierRules, Unplaced
from agentvm.model.usage import NO_USAGE
from agentvm.storage.sql.store import Store
from agentvm.tenants.quota import Quotas
from agentvm.tiers.base import HostCalls
from agentvm.tiers.on_demand import TiersOnDemand
from agentvm.tools.base import CallContext
from agentvm.tools.sandbox_jobs import seconds_of


def _no_rules(tenant_id: TenantId) -> TierRules:
    return TierRules()


Charge = Callable[[LedgerEntry], None]
"""Takes the entry of a job, to store it with something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredJobs:
    """The jobs of a server."""

    tiers: TiersOnDemand
    store: Store
    quotas: Quotas
    clock: Clock
    rules: Callable[[TenantId], TierRules] = _no_rules
    """Rules of a tenant; they hold beside the operator's, which the scheduler knows."""

    async def why_missing(self, engine: str) -> str | None:
        """Returns why no tier of this machine has the engine, with the remedy; None if one has it."""
        offers = await (await self.tiers.scheduler()).offers()
        if any(engine in offer.engines and not offer.missing for offer in offers):
            return None
        return "; ".join(offer.missing or f"the tier {offer.tier} has no {engine}" for offer in offers)

    async def run(
        self, owner: JobOwner, need: Need, job: Job, calls: HostCalls | None = None, charge: Charge | None = None
    ) -> tuple[Placed, JobResult]:
        """Runs a job that has a key. `QuotaExceeded` when no time is left, `TierUnavailable` when nothing here can run it.

        `charge` takes the entry for the ledger; without it the entry is stored here.
        """
        scheduler = await self.tiers.scheduler()
        # Before anything is reserved: what cannot be run costs nothing.
        rules = self.rules(owner.tenant_id)
        await scheduler.place(need, rules)
        hold = await self.quotas.hold_sandbox(owner.tenant_id, owner.user_id, seconds_of(job.limits))
        began, placed, result = time.monotonic(), None, None
        limits = msgspec.structs.replace(job.limits, wall_ms=min(job.limits.wall_ms, hold.seconds * 1000))
        try:
            limited = msgspec.structs.replace(job, limits=limits, packages=need.packages)
            placed, result = await scheduler.run(need, limited, tenant=owner.tenant_id, calls=calls, rules=rules)
        finally:
            # Of a job that was lost nobody knows more than when it began.
            wall_ms = round((time.monotonic() - began) * 1000) if result is None else result.duration_ms
            with anyio.CancelScope(shield=True):
                entry = self._entry(owner, job.key, wall_ms, placed, result)
                if charge is None:
                    await self.store.accounts(owner.tenant_id).ledger.add([entry])
                else:
                    charge(entry)
                hold.settle(wall_ms)
        return placed, result

    async def run_call(self, context: CallContext, need: Need, job: Job, calls: HostCalls | None = None) -> JobResult:
        """Runs the job of a tool call, whose record gets the verdict on each tier."""
        owner = JobOwner(tenant_id=TenantId(context.caller.tenant_id), user_id=UserId(context.caller.user_id) or None)
        try:
            placed, result = await self.run(owner, need, job, calls, context.charge)
        except TierUnavailable as error:
            context.placed(Unplaced(reason=str(error), why=_verdicts(error)))
            raise
        context.placed(placed)
        return result

    def _entry(self, owner: JobOwner, key: str, wall_ms: int, placed: Placed | None, result: JobResult | None) -> LedgerEntry:
        """Returns the job for the ledger, whatever it came to."""
        price = 0 if placed is None else placed.price * wall_ms // 1000
        return LedgerEntry(
            key=key,
            at=self.clock(),
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            container_id=ContainerId(""),
            image_id=ImageId(""),
            session_id=SessionId(""),
            turn_id=TurnId(""),
            driver=TIER_DRIVER,
            model="process" if placed is None else placed.tier,
            usage=NO_USAGE,
            cost=price,
            price=price,
            wall_ms=wall_ms,
            cpu_ms=0 if result is None else result.usage.cpu_ms,
        )


def _verdicts(error: TierUnavailable) -> tuple[tuple[str, str], ...]:
    return msgspec.convert(error.details.get("why", ()), tuple[tuple[str, str], ...])
