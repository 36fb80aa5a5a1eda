"""Fair slots are never exceeded, are granted tenant by tenant, and never lost."""

import anyio
from anyio import wait_all_tasks_blocked
from hypothesis import given
from hypothesis import strategies as st

from agentvm.sharing.fair_slots import PASSES_MAX, FairSlots, HeldSlots


class Crowd:
    """Callers that wait for slots and note when they got them."""

    def __init__(self, slots: FairSlots, tasks: anyio.abc.TaskGroup) -> None:
        self._slots = slots
        self._tasks = tasks
        self.served: list[str] = []
        self.held: dict[str, HeldSlots] = {}

    async def come(self, name: str, size: int = 1) -> None:
        self._tasks.start_soon(self._wait, name, size)
        await wait_all_tasks_blocked()

    async def _wait(self, name: str, size: int) -> None:
        self.held[name] = await self._slots.acquire(name[0], size)
        self.served.append(name)

    async def leave(self, name: str) -> None:
        self.held.pop(name).release()
        await wait_all_tasks_blocked()


async def test_those_that_wait_are_served_tenant_by_tenant() -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            crowd = Crowd(FairSlots(1), tasks)
            for name in ("a0", "a1", "a2", "a3", "b0"):
                await crowd.come(name)
            for name in ("a0", "a1", "b0", "a2"):
                await crowd.leave(name)
            assert crowd.served == ["a0", "a1", "b0", "a2", "a3"]


async def test_a_tenant_holds_at_most_its_share_and_another_is_served_at_once() -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            slots = FairSlots(10, share=6)
            crowd = Crowd(slots, tasks)
            for name, size in (("a0", 4), ("a1", 4), ("b0", 4)):
                await crowd.come(name, size)
            assert crowd.served == ["a0", "b0"]
            assert (slots.held_by("a"), slots.free, slots.waiting) == (4, 2, 1)
            await crowd.leave("a0")
            assert crowd.served == ["a0", "b0", "a1"]


async def test_a_request_beyond_a_share_is_granted_as_a_whole_share() -> None:
    slots = FairSlots(10, share=6)
    with anyio.fail_after(60):
        async with slots.hold("a", 100):
            assert slots.held_by("a") == 6
        async with slots.hold(None, 100):
            assert slots.free == 0
    assert slots.free == 10


async def test_little_passes_much_but_not_for_ever() -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            slots = FairSlots(10)
            crowd = Crowd(slots, tasks)
            await crowd.come("a0", 9)
            await crowd.come("b-much", 9)
            for _ in range(PASSES_MAX):
                (await slots.acquire("c")).release()
            await crowd.come("d0")
            assert "d0" not in crowd.held
            await crowd.leave("a0")
            assert crowd.served[-2:] == ["b-much", "d0"]


async def test_slots_released_early_are_released_once() -> None:
    slots = FairSlots(3)
    with anyio.fail_after(60):
        async with slots.hold("a", 2) as held:
            held.release()
            held.release()
            assert slots.free == 3
    assert slots.free == 3


async def test_a_cancelled_caller_leaves_its_place_to_the_next() -> None:
    slots = FairSlots(2)

    async def come() -> None:
        async with slots.hold("b", 2):
            pass

    with anyio.fail_after(60):
        first = await slots.acquire("a", 2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(come)
            await wait_all_tasks_blocked()
            # Granted in the same moment as it is cancelled.
            first.release()
            tasks.cancel_scope.cancel()
    assert (slots.free, slots.waiting) == (2, 0)
    with anyio.fail_after(60):
        first = await slots.acquire("a")
        with anyio.move_on_after(0):
            await slots.acquire("a", 2)
    first.release()
    assert (slots.free, slots.waiting) == (2, 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=30), st.integers(1, 12), st.integers(1, 12))
async def test_whoever_comes_is_served_in_the_end_and_no_bound_is_exceeded(
    comers: list[tuple[str, int]], capacity: int, share: int
) -> None:
    slots = FairSlots(capacity, share=share)
    served = 0

    async def come(key: str, size: int) -> None:
        nonlocal served
        async with slots.hold(key, size):
            assert 0 <= slots.free
            assert slots.held_by(key) <= min(share, capacity)
            await anyio.lowlevel.checkpoint()
        served += 1

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for key, size in comers:
                tasks.start_soon(come, key, size)
    assert (served, slots.free, slots.waiting) == (len(comers), capacity, 0)
