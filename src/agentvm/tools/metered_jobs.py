"""Metered jobs — runs code in a sandbox within its tenant's quota, and enters its time into the ledger.

The same for a request and for a tool of an agent. The time is reserved before, and settled after, for any result of the job.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import msgspec

from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.model.ids import Clock, ContainerId, ImageId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import TIER_DRIVER, LedgerEntry
from agentvm.model.tier import Job, JobOwner, JobResult, Need, Placed, TierRules, Unplaced
from agentvm.model.usage import NO_USAGE
from agentvm.storage.sql.store import Store
from agentvm.tenants.quota import Quotas
from agentvm.tenants.sandbox_hold import SandboxHold
from agentvm.tiers.base import HostCalls
from agentvm.tiers.on_demand import TiersOnDemand
from agentvm.tools.base import CallContext
from agentvm.tools.sandbox_jobs import seconds_of


def _no_rules(tenant_id: TenantId) -> TierRules:
    return TierRules()


Charge = Callable[[LedgerEntry], None]
"""Takes the entry of a job, to store it with other rows."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A job that has begun, on the tier that it was placed on."""

    placed: Placed
    at: float = field(default_factory=time.monotonic)

    @property
    def age_ms(self) -> int:
        return round((time.monotonic() - self.at) * 1000)


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
        scheduler = await self.tiers.scheduler()
        if await scheduler.has(engine):
            return None
        return "; ".join(offer.missing or f"the tier {offer.tier} has no {engine}" for offer in await scheduler.offers())

    async def run(
        self, owner: JobOwner, need: Need, job: Job, calls: HostCalls | None = None, charge: Charge | None = None
    ) -> tuple[Placed, JobResult]:
        """Runs a job that has a key. `TierUnavailable` when nothing here can run it.

        `QuotaExceeded` or `WalletEmpty` when no time, or no money for a second of its tier, is left.

        `charge` takes the entry for the ledger; without it the entry is stored here.
        """
        scheduler = await self.tiers.scheduler()
        # Before anything is reserved: what cannot be run costs nothing.
        rules = self.rules(owner.tenant_id)
        price = (await scheduler.place(need, rules, tenant=owner.tenant_id)).price
        hold = await self.quotas.hold_sandbox(owner.tenant_id, owner.user_id, seconds_of(job.limits), price)
        limits = msgspec.structs.replace(job.limits, wall_ms=min(job.limits.wall_ms, hold.seconds * 1000))
        limited = msgspec.structs.replace(job, limits=limits, packages=need.packages)
        starts, result = list[_Start](), None
        try:
            placed, result = await scheduler.run(
                need,
                limited,
                tenant=owner.tenant_id,
                calls=calls,
                rules=rules,
                began=lambda place: starts.append(_Start(place)),
            )
            return placed, result
        except TierUnavailable as error:
            if not (isinstance(error, TierBroken) and error.started):
                # No wall, no packages: the code itself has not begun.
                starts.clear()
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._settle(owner, job.key, hold, starts[-1] if starts else None, result, charge)

    async def _settle(
        self,
        owner: JobOwner,
        key: str,
        hold: SandboxHold,
        start: "_Start | None",
        result: JobResult | None,
        charge: Charge | None,
    ) -> None:
        """Enters the time of a job with any result. A job that has never begun is not charged."""
        # Of a job that was lost nobody knows more than when it began.
        wall_ms = 0 if start is None else start.age_ms if result is None else result.duration_ms
        price = 0
        try:
            if start is None:
                return
            entry = self._entry(owner, key, wall_ms, start.placed, result)
            if charge is None:
                await self.store.accounts(owner.tenant_id).ledger.add([entry])
            else:
                charge(entry)
            price = entry.price or 0
        finally:
            # Also where the ledger cannot be written: the time would be set aside until the next start.
            hold.settle(wall_ms, price)

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

    def _entry(self, owner: JobOwner, key: str, wall_ms: int, placed: Placed, result: JobResult | None) -> LedgerEntry:
        """Returns the ledger entry of the job, for any result."""
        price = placed.price * wall_ms // 1000
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
            model=placed.tier,
            usage=NO_USAGE,
            cost=price,
            price=price,
            wall_ms=wall_ms,
            cpu_ms=0 if result is None else result.usage.cpu_ms,
        )


def _verdicts(error: TierUnavailable) -> tuple[tuple[str, str], ...]:
    return msgspec.convert(error.details.get("why", ()), tuple[tuple[str, str], ...])
