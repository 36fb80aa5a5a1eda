from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from tests.server.http.fixtures import World, open_world

from agentvm.errors import QuotaExceeded, WalletEmpty
from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.model.ledger import LedgerEntry
from agentvm.model.tier import Enforces, Job, JobLimits, JobOwner, JobResult, Need, Offer, TierName
from agentvm.tiers.base import HostCalls, Process
from agentvm.tiers.scheduler import Scheduler
from agentvm.tools.metered_jobs import MeteredJobs

NEED = Need(engine="python", wall_seconds=1)


class Endless:
    """A tier whose jobs never end by themselves, or fail as it is told, at a price of a dollar for each second."""

    name: TierName = "container"

    def __init__(self, failure: TierUnavailable | None = None) -> None:
        self.begun = anyio.Event()
        self.jobs = list[Job]()
        self._failure = failure

    async def offer(self) -> Offer:
        enforces = Enforces(memory="total", disk="total", processes="total")
        return Offer(tier=self.name, engines=frozenset({"python"}), enforces=enforces, price_per_second=10**9)

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        self.jobs.append(job)
        self.begun.set()
        if self._failure is not None:
            raise self._failure
        await anyio.sleep_forever()
        raise AssertionError

    def open(self, job: Job) -> AbstractAsyncContextManager[Process]:
        raise NotImplementedError


class OpenTiers:
    def __init__(self, tier: Endless) -> None:
        self._scheduler = Scheduler([tier], slots={"container": 1}, clock=lambda: 0)

    async def scheduler(self) -> Scheduler:
        return self._scheduler


def jobs_on(world: World, tier: Endless) -> MeteredJobs:
    tiers: Any = OpenTiers(tier)
    return replace(world.vm.jobs, tiers=tiers)


async def entries(world: World) -> Sequence[LedgerEntry]:
    ledger = world.vm.tenancy.store.accounts(world.acme.tenant_id).ledger
    return [entry for _, entry in await ledger.list()]


async def seconds_left(world: World, jobs: MeteredJobs) -> int:
    hold = await jobs.quotas.hold_sandbox(world.acme.tenant_id, None, 1_000)
    hold.settle(0)
    return hold.seconds


async def limit(world: World, seconds: int) -> None:
    body = {"metric": "sandbox_seconds_per_day", "hard": seconds}
    changed = await world.ask("PUT", f"/v1/quotas?tenant={world.acme.slug}", body)
    assert changed.status < 300, changed.raw


async def test_an_engine_that_no_tier_has_is_missing_with_the_reason() -> None:
    async with open_world() as world:
        assert await world.vm.jobs.why_missing("python") is None
        missing = await world.vm.jobs.why_missing("cobol")
        assert missing is not None
        assert "the tier process has no cobol" in missing


async def test_a_job_is_entered_with_its_time_and_one_that_cannot_run_is_not() -> None:
    async with open_world() as world:
        owner = JobOwner(tenant_id=world.acme.tenant_id, user_id=None)
        job = Job(engine="shell", code="echo hi", limits=JobLimits(wall_ms=5_000), key="turn_1/c1")
        _, result = await world.vm.jobs.run(owner, Need(engine="shell"), job)
        assert result.stdout == b"hi\n"
        with pytest.raises(TierUnavailable, match="cobol"):
            await world.vm.jobs.run(owner, Need(engine="cobol"), job)
        ledger = world.vm.tenancy.store.accounts(owner.tenant_id).ledger
        assert [(entry.key, entry.driver, entry.wall_ms) for _, entry in await ledger.list()] == [
            ("turn_1/c1", "tier", result.duration_ms)
        ]


async def test_a_job_that_is_cancelled_costs_the_time_that_it_ran_on_its_tier_and_one_that_waited_costs_nothing() -> None:
    async with open_world() as world:
        owner, tier = JobOwner(tenant_id=world.acme.tenant_id), Endless()
        jobs = jobs_on(world, tier)
        await limit(world, 500)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(jobs.run, owner, NEED, Job(engine="python", key="turn_1/runs"))
            await tier.begun.wait()
            waiting = Job(engine="python", key="turn_1/waits", limits=JobLimits(wall_ms=30))
            with pytest.raises(TierUnavailable, match="waited"):
                await jobs.run(owner, NEED, waiting)
            tasks.cancel_scope.cancel()
        (entry,) = await entries(world)
        assert (entry.key, entry.model) == ("turn_1/runs", "container")
        # A millisecond costs a tenth of a cent.
        assert entry.wall_ms >= 30
        assert (entry.cost, entry.price) == (entry.wall_ms * 10**6, entry.wall_ms * 10**6)
        assert await seconds_left(world, jobs) == 500 - entry.wall_ms // 1000


async def test_a_job_whose_code_has_not_begun_is_not_entered_and_one_that_was_lost_is() -> None:
    async with open_world() as world:
        owner, lost = JobOwner(tenant_id=world.acme.tenant_id), TierBroken("it was killed")
        lost.started = True
        for failure in (TierBroken("no wall"), TierUnavailable("The packages cannot be installed"), lost):
            with pytest.raises(TierUnavailable, match=str(failure)):
                await jobs_on(world, Endless(failure)).run(owner, NEED, Job(engine="python", key=str(failure)))
        assert [entry.key for entry in await entries(world)] == ["it was killed"]


async def test_time_is_released_also_where_the_entry_cannot_be_stored() -> None:
    async with open_world() as world:
        owner = JobOwner(tenant_id=world.acme.tenant_id)
        await limit(world, 500)

        def refuse(entry: LedgerEntry) -> None:
            raise OSError("the disk is full")

        job = Job(engine="shell", code="echo hi", key="turn_1/c1")
        with pytest.raises(OSError, match="full"):
            await world.vm.jobs.run(owner, Need(engine="shell"), job, charge=refuse)
        assert await seconds_left(world, world.vm.jobs) == 500


async def credit(world: World, dollars: str) -> None:
    added = await world.ask("POST", f"/v1/wallet/credits?tenant={world.acme.slug}", {"reference": "r", "amountUsd": dollars})
    assert added.status == 201, added.raw


async def test_money_of_a_job_is_set_aside_and_no_job_runs_longer_than_it_can_be_paid_for() -> None:
    async with open_world() as world:
        owner, tier = JobOwner(tenant_id=world.acme.tenant_id), Endless()
        jobs, quotas, ledger = (
            jobs_on(world, tier),
            world.vm.tenancy.quotas,
            world.vm.tenancy.store.accounts(world.acme.tenant_id).ledger,
        )
        await credit(world, "2.50")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(jobs.run, owner, NEED, Job(engine="python", key="turn_1/runs"))
            await tier.begun.wait()
            assert tier.jobs[0].limits.wall_ms == 2_000
            with pytest.raises(WalletEmpty, match=r"\$0.50 left"):
                await quotas.hold(owner.tenant_id, None, 1, 10**9, force=False)
            with pytest.raises(WalletEmpty):
                await jobs.run(owner, NEED, Job(engine="python", key="turn_1/second"))
            tasks.cancel_scope.cancel()
        (entry,) = await entries(world)
        book = await quotas.book(owner.tenant_id)
        assert book.money_left == (await ledger.wallet()).balance == 2_500_000_000 - (entry.price or 0)


async def test_a_budget_counts_jobs_and_a_limit_of_tokens_does_not_stop_them() -> None:
    async with open_world() as world:
        owner, lost = JobOwner(tenant_id=world.acme.tenant_id), TierBroken("it was killed")
        lost.started = True
        jobs, quotas = jobs_on(world, Endless(lost)), world.vm.tenancy.quotas
        for metric, hard in (("budget_per_month", 2_000_000_000), ("tokens_per_day", 0)):
            changed = await world.ask("PUT", f"/v1/quotas?tenant={world.acme.slug}", {"metric": metric, "hard": hard})
            assert changed.status < 300, changed.raw
        (await quotas.hold(owner.tenant_id, None, 5, 0, force=True)).settle(5, 0)
        with pytest.raises(TierBroken):
            await jobs.run(owner, NEED, Job(engine="python", key="turn_1/c1"))
        (counter,) = (await quotas.book(owner.tenant_id)).applying(None, ("budget_per_month",))
        assert (counter.used, counter.held) == ((await entries(world))[0].price, 0)
        (await quotas.hold(owner.tenant_id, None, 0, 1_500_000_000, force=True)).settle(0, 1_500_000_000)
        with pytest.raises(QuotaExceeded, match="budget"):
            await jobs.run(owner, NEED, Job(engine="python", key="turn_1/c2"))
