from contextlib import AbstractAsyncContextManager

import msgspec
import pytest

from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.model.tier import Enforces, Job, JobLimits, JobResult, Need, Offer, TierName, TierRules
from agentvm.tiers.base import HostCalls, Process
from agentvm.tiers.scheduler import BROKEN_MS, Scheduler

NEED = Need(engine="python", wall_seconds=1)
JOB = Job(engine="python", code="1", limits=JobLimits(wall_ms=1_000))


class FakeTier:
    """A tier that runs nothing, and breaks when it is told to."""

    def __init__(self, name: TierName, *, breaks: bool = False, started: bool = False, price: int = 0) -> None:
        self.name: TierName = name
        self.breaks, self.started, self.price = breaks, started, price
        self.jobs: list[Job] = []

    async def offer(self) -> Offer:
        enforces = Enforces(memory="total", disk="total", processes="total")
        return Offer(tier=self.name, engines=frozenset({"python"}), enforces=enforces, price_per_second=self.price)

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        self.jobs.append(job)
        if self.breaks:
            error = TierBroken("no wall")
            error.started = self.started
            raise error
        return JobResult(exit_code=0)

    def open(self, job: Job) -> AbstractAsyncContextManager[Process]:
        raise NotImplementedError


def scheduler(*tiers: FakeTier, now: list[int], rules: TierRules | None = None) -> Scheduler:
    return Scheduler(tiers, slots={"process": 2}, clock=lambda: now[0], rules=lambda: rules or TierRules())


async def test_a_job_runs_where_it_was_placed_with_the_time_that_is_left() -> None:
    process, container = FakeTier("process"), FakeTier("container", price=5)
    placed, result = await scheduler(container, process, now=[0]).run(NEED, JOB, tenant="a")
    assert (placed.tier, result.exit_code) == ("process", 0)
    assert [tier for tier, _ in placed.why] == ["process", "container"]
    assert 0 < process.jobs[0].limits.wall_ms <= 1_000
    assert container.jobs == []


async def test_a_tier_that_breaks_at_its_start_is_left_once_and_only_upwards() -> None:
    process, container, now = FakeTier("process", breaks=True), FakeTier("container", price=5), [0]
    both = scheduler(process, container, now=now)
    placed, _ = await both.run(NEED, JOB, tenant="a")
    assert placed.tier == "container"
    # Known to be broken for a while, then tried again.
    placed, _ = await both.run(NEED, JOB, tenant="a")
    assert dict(placed.why)["process"] == "failed to start a moment ago"
    assert len(process.jobs) == 1
    now[0], process.breaks = BROKEN_MS, False
    placed, _ = await both.run(NEED, JOB, tenant="a")
    assert placed.tier == "process"


async def test_a_stronger_tier_that_breaks_is_not_replaced_by_a_weaker_one() -> None:
    process, container = FakeTier("process"), FakeTier("container", breaks=True)
    need = msgspec.structs.replace(NEED, tier="container")
    with pytest.raises(TierBroken):
        await scheduler(process, container, now=[0]).run(need, JOB, tenant="a")
    assert process.jobs == []


async def test_a_job_that_was_lost_after_it_began_is_not_run_again() -> None:
    process, container = FakeTier("process", breaks=True, started=True), FakeTier("container")
    with pytest.raises(TierBroken):
        await scheduler(process, container, now=[0]).run(NEED, JOB, tenant="a")
    assert container.jobs == []


async def test_rules_of_the_operator_and_the_tenant_hold_together_and_no_tier_is_an_error() -> None:
    process = FakeTier("process")
    closed = scheduler(process, now=[0], rules=TierRules(allow=("process",)))
    with pytest.raises(TierUnavailable) as failed:
        await closed.run(NEED, JOB, tenant="a", rules=TierRules(allow=("container",)))
    assert failed.value.details == {"why": [["process", "not allowed by tools.tiers"]]}
    assert process.jobs == []
