import anyio
import pytest

from agentvm.errors.bounds import ServerBusy
from agentvm.errors.tool import TierUnavailable
from agentvm.tiers.slots import QUEUE_MAX, TENANT_QUEUE_MAX, TierSlots


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


async def settle() -> None:
    """Lets every task go as far as it can: a slot changes hands in fewer steps."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def ticks_of_neighbours(load: int) -> int:
    """Turns of the tier, each as long as a job, until eight tenants have run twenty jobs each beside one with this load."""
    slots, running, left = TierSlots({"process": 4}), list[anyio.Event](), [8]

    async def job(tenant: str) -> None:
        async with slots.hold("process", tenant, 10**6):
            ended = anyio.Event()
            running.append(ended)
            await ended.wait()

    async def repeat(tenant: str, count: int) -> None:
        for _ in range(count):
            await job(tenant)

    async def neighbour(tenant: str) -> None:
        await repeat(tenant, 20)
        left[0] -= 1

    async with anyio.create_task_group() as tasks:
        # As many at a time as one tenant may have: in slots, and in the queue.
        for _ in range(min(load, TENANT_QUEUE_MAX)):
            tasks.start_soon(repeat, "greedy", 20 * load)
        for number in range(8):
            tasks.start_soon(neighbour, f"neighbour {number}")
        ticks = 0
        await settle()
        while left[0]:
            ticks += 1
            for ended in running[:]:
                running.remove(ended)
                ended.set()
            await settle()
        tasks.cancel_scope.cancel()
    return ticks


async def test_a_tenant_at_a_thousand_times_the_load_costs_its_neighbours_a_tenth_at_most() -> None:
    usual, loaded = await ticks_of_neighbours(1), await ticks_of_neighbours(1000)
    assert usual >= 8 * 20 / 4
    assert loaded <= usual * 1.1
