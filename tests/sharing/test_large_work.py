from functools import partial
from threading import Event, current_thread, main_thread

import anyio
import anyio.lowlevel

from agentvm.sharing.large_work import LARGE_BYTES, go_through


async def test_little_is_gone_through_at_once_and_much_beside_the_event_loop() -> None:
    assert await go_through("acme", LARGE_BYTES - 1, current_thread) is main_thread()
    assert await go_through("acme", LARGE_BYTES, current_thread) is not main_thread()


async def test_tenants_have_their_turns_one_at_a_time() -> None:
    go, order = Event(), list[str]()

    def work(owner: str) -> None:
        go.wait(60)
        order.append(owner)

    async def one(owner: str) -> None:
        await go_through(owner, LARGE_BYTES, partial(work, owner))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for owner in ("acme", "acme", "acme", "bolt"):
                tasks.start_soon(one, owner)
                await anyio.lowlevel.checkpoint()
            go.set()
    assert order[:2] == ["acme", "bolt"]
    assert len(order) == 4
