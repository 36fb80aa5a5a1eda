import anyio
import pytest

from agentvm.errors.bounds import ServerBusy
from agentvm.errors.tool import TierUnavailable
from agentvm.tiers.slots import QUEUE_MAX, TENANT_QUEUE_MAX, TierSlots, default_slots


async def test_a_slot_is_held_for_the_block_and_the_time_left_is_told() -> None:
    slots = TierSlots({"process": 4})
    free = slots.free("process")
    async with slots.hold("process", "a", 10.0) as left:
        assert 9.0 < left <= 10.0
        assert slots.free("process") == free - 1
    assert slots.free("process") == free


async def test_waiting_counts_against_the_time_of_the_job() -> None:
    slots = TierSlots({"process": 1})
    async with slots.hold("process", "a", 10.0):
        with pytest.raises(TierUnavailable, match="waited"):
            async with slots.hold("process", "b", 0.02):
                pass
    async with slots.hold("process", "b", 1.0):
        pass


async def test_a_tenant_with_a_thousand_jobs_does_not_keep_another_waiting() -> None:
    slots, order = TierSlots({"process": 4}), list[str]()
    release = anyio.Event()

    async def job(tenant: str) -> None:
        try:
            async with slots.hold("process", tenant, 60.0):
                order.append(tenant)
                await release.wait()
        except ServerBusy:
            order.append("refused")

    async with anyio.create_task_group() as tasks:
        for _ in range(1000):
            tasks.start_soon(job, "greedy")
        await anyio.wait_all_tasks_blocked()
        # It holds its share and no more, and its queue has a bound.
        assert order.count("greedy") == 3
        assert order.count("refused") == 1000 - 3 - TENANT_QUEUE_MAX
        tasks.start_soon(job, "other")
        await anyio.wait_all_tasks_blocked()
        assert "other" in order
        release.set()
    assert slots.free("process") == 4 + QUEUE_MAX


async def test_the_queue_of_all_tenants_has_a_bound() -> None:
    slots, refused = TierSlots({"process": 1}), list[int]()

    async def job(tenant: int) -> None:
        try:
            async with slots.hold("process", tenant, 60.0):
                await anyio.sleep_forever()
        except ServerBusy:
            refused.append(tenant)

    async with anyio.create_task_group() as tasks:
        for tenant in range(QUEUE_MAX + 11):
            tasks.start_soon(job, tenant)
        await anyio.wait_all_tasks_blocked()
        assert len(refused) == 10
        assert slots.free("process") == 0
        tasks.cancel_scope.cancel()
    assert slots.free("process") == 1 + QUEUE_MAX


async def test_a_tier_without_slots_has_no_bound() -> None:
    slots = TierSlots({})
    async with slots.hold("remote", "a", 5.0) as left:
        assert left == 5.0
    assert slots.free("remote") == QUEUE_MAX


def test_there_are_two_slots_for_each_core() -> None:
    assert default_slots() >= 2
    assert default_slots() % 2 == 0
