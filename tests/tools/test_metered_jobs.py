import pytest
from tests.server.http.fixtures import open_world

from agentvm.errors.tool import TierUnavailable
from agentvm.model.tier import Job, JobLimits, JobOwner, Need


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
