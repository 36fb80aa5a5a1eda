"""Large messages wait for room, tenant by tenant; small ones for nothing."""

import anyio

from agentvm.model.ids import TenantId
from agentvm.runtime.large import LARGE_BYTES, TOTAL_BYTES, LargeMessages


async def test_large_messages_wait_for_room_tenant_by_tenant_and_small_ones_for_none() -> None:
    large, entered = LargeMessages(), list[str]()
    share = TOTAL_BYTES // 2

    async def come(name: str, size: int, done: anyio.Event) -> None:
        async with large.room(TenantId(f"tnt_{name[0]}"), "x" * size):
            entered.append(name)
            await done.wait()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            first, rest = anyio.Event(), anyio.Event()
            rest.set()
            for name, done in (("a0", first), ("a1", rest), ("b0", first), ("a2", rest)):
                tasks.start_soon(come, name, share, done)
                await anyio.wait_all_tasks_blocked()
            assert entered == ["a0", "b0"]
            await come("b-small", LARGE_BYTES - 1, rest)
            tasks.start_soon(come, "b1", share, rest)
            await anyio.wait_all_tasks_blocked()
            first.set()
    assert entered[:3] == ["a0", "b0", "b-small"]
    assert sorted(entered[3:]) == ["a1", "a2", "b1"]
