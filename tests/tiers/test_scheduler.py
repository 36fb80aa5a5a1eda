from contextlib import AbstractAsyncContextManager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors import ToolFailed
from agentvm.errors.tool import EngineLacking, TierBroken, TierUnavailable, WorkspaceFull
from agentvm.model.tier import TIERS, Enforces, Job, JobLimits, JobResult, Need, Offer, TierName, TierRules
from agentvm.tiers.base import HostCalls, Process
from agentvm.tiers.scheduler import BROKEN_MS, Scheduler

NEED = Need(engine="python", wall_seconds=1)
JOB = Job(engine="python", code="1", limits=JobLimits(wall_ms=1_000))


class FakeTier:
    """A tier that runs nothing, and fails when it is told to."""

    def __init__(
        self,
        name: TierName,
        *,
        breaks: bool = False,
        started: bool = False,
        price: int = 0,
        engine: str = "python",
        failure: ToolFailed | None = None,
    ) -> None:
        self.name: TierName = name
        self.breaks, self.started, self.price = breaks, started, price
        self.engine, self.failure = engine, failure
        self.jobs: list[Job] = []

    async def offer(self) -> Offer:
        enforces = Enforces(memory="total", disk="total", processes="total")
        return Offer(tier=self.name, engines=frozenset({self.engine}), enforces=enforces, price_per_second=self.price)

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        self.jobs.append(job)
        if self.breaks:
            error = TierBroken("no wall")
            error.started = self.started
            raise error
        if self.failure is not None:
            raise self.failure
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


async def test_a_tier_that_failed_to_start_the_job_of_a_tenant_is_there_for_all_others() -> None:
    process, now = FakeTier("process", breaks=True), [0]
    alone = scheduler(process, now=now)
    with pytest.raises(TierBroken):
        await alone.run(NEED, JOB, tenant="a")
    process.breaks = False
    with pytest.raises(TierUnavailable, match="failed to start a moment ago"):
        await alone.run(NEED, JOB, tenant="a")
    assert (await alone.place(NEED, tenant="b")).tier == "process"
    assert (await alone.run(NEED, JOB, tenant="b"))[1].exit_code == 0
    now[0] = BROKEN_MS
    assert (await alone.run(NEED, JOB, tenant="a"))[1].exit_code == 0


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


async def test_a_subset_engine_that_lacks_something_is_left_for_the_whole_engine() -> None:
    lacking = EngineLacking("no module statistics")
    isolate = FakeTier("isolate", engine="python-subset", failure=lacking)
    process = FakeTier("process")
    need = msgspec.structs.replace(NEED, engine="python-subset")
    job = msgspec.structs.replace(JOB, engine="python-subset")
    tiers = Scheduler([isolate, process], slots={}, clock=lambda: 0)
    placed, _ = await tiers.run(need, job, tenant="a")
    assert (placed.tier, placed.escalated_from) == ("process", "isolate")
    assert placed.why == (("isolate", "left: no module statistics"), ("process", "chosen"))
    assert ([job.engine for job in isolate.jobs], [job.engine for job in process.jobs]) == (["python-subset"], ["python"])
    # It is no failure of the tier: the next program may do without.
    isolate.failure = None
    placed, _ = await tiers.run(need, job, tenant="a")
    assert (placed.tier, placed.escalated_from) == ("isolate", None)


async def test_a_program_for_a_subset_runs_on_the_whole_engine_where_there_is_no_subset() -> None:
    process = FakeTier("process")
    tiers = Scheduler([process], slots={}, clock=lambda: 0)
    job = msgspec.structs.replace(JOB, engine="python-subset")
    placed, _ = await tiers.run(msgspec.structs.replace(NEED, engine="python-subset"), job, tenant="a")
    assert (placed.tier, process.jobs[0].engine, process.jobs[0].owner) == ("process", "python", "a")


async def test_a_lack_that_no_stronger_tier_can_fill_is_told() -> None:
    isolate = FakeTier("isolate", engine="python-subset", failure=EngineLacking("no module statistics"))
    job = msgspec.structs.replace(JOB, engine="python-subset")
    with pytest.raises(EngineLacking, match="statistics"):
        await Scheduler([isolate], slots={}, clock=lambda: 0).run(
            msgspec.structs.replace(NEED, engine="python-subset"), job, tenant="a"
        )


FAILURES = {
    "lacking": EngineLacking("syntax"),
    "broken at start": TierBroken("no wall"),
    "refused": TierUnavailable("no"),
    "full": WorkspaceFull("full"),
    "failed": ToolFailed("failed"),
}


@given(st.lists(st.sampled_from((*FAILURES, "lost", "")), min_size=len(TIERS), max_size=len(TIERS)))
async def test_a_job_moves_once_and_upwards_and_on_the_two_grounds_only(failures: list[str]) -> None:
    lost = TierBroken("lost")
    lost.started = True
    named = {**FAILURES, "lost": lost, "": None}
    tiers = [FakeTier(name, failure=named[failure]) for name, failure in zip(TIERS, failures, strict=True)]
    try:
        placed, _ = await Scheduler(tiers, slots={}, clock=lambda: 0).run(NEED, JOB, tenant="a")
    except ToolFailed:
        placed = None
    ran = [tier.name for tier in tiers for _ in tier.jobs]
    moved = failures[0] in ("lacking", "broken at start")
    assert ran == (["inline", "isolate"] if moved else ["inline"])
    if placed is not None:
        assert (placed.tier, placed.escalated_from) == (("isolate", "inline") if moved else ("inline", None))
        assert [tier for tier, _ in placed.why] == list(TIERS)


async def test_prices_of_the_operator_are_those_of_the_offers_from_the_next_job_on() -> None:
    prices = {"container": 20_000}
    tiers = Scheduler([FakeTier("process"), FakeTier("container")], slots={}, clock=lambda: 0, prices=lambda: prices)
    placed, _ = await tiers.run(msgspec.structs.replace(NEED, tier="container"), JOB, tenant="a")
    assert (placed.tier, placed.price) == ("container", 20_000)
    prices["process"] = 30_000
    placed, _ = await tiers.run(NEED, JOB, tenant="a")
    assert (placed.tier, dict(placed.why)["process"]) == ("container", "dearer: 3e-05 $/s")


async def test_an_engine_is_looked_for_from_the_weakest_tier_on_and_no_further_than_where_it_is() -> None:
    class Silent(FakeTier):
        async def offer(self) -> Offer:
            raise AssertionError("a tier was asked that need not be")

    tiers = scheduler(Silent("remote"), FakeTier("process"), FakeTier("isolate", engine="javascript"), now=[0])
    for engine in ("javascript", "python", "python-subset"):
        assert await tiers.has(engine)
    assert not await scheduler(FakeTier("process"), now=[0]).has("cobol")
