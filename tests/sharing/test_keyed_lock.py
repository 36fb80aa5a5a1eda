"""Callers with the same key go one at a time, others do not wait."""

import gc

import anyio
import pytest

from agentvm.sharing.keyed_lock import KeyedLock


async def test_the_same_key_is_held_once_at_a_time_and_in_order() -> None:
    lock, order = KeyedLock[str](), list[str]()

    async def work(name: str) -> None:
        async with lock.hold("a"):
            order.append(f"{name} in")
            await anyio.lowlevel.checkpoint()
            order.append(f"{name} out")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for name in ("first", "second", "third"):
                tasks.start_soon(work, name)
    assert order == [f"{name} {way}" for name in ("first", "second", "third") for way in ("in", "out")]


async def test_other_keys_do_not_wait_and_unused_keys_take_no_memory() -> None:
    lock = KeyedLock[str]()
    with anyio.fail_after(60):
        async with lock.hold("a"), lock.hold("b"):
            assert len(lock) == 2
    gc.collect()
    assert len(lock) == 0


async def test_a_caller_that_is_cancelled_while_it_waits_leaves_the_lock_to_the_next() -> None:
    lock = KeyedLock[str]()

    async def wait() -> None:
        async with lock.hold("a"):
            pytest.fail("held twice")

    with anyio.fail_after(60):
        async with lock.hold("a"), anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        async with lock.hold("a"):
            pass
