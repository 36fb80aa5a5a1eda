"""A life is leased while callers hold it, ends when it is idle, and says why its process died."""

import sys

import anyio

from agentvm.sharing.process_life import TAIL_BYTES, ProcessLife

DEADLINE_SECONDS = 60


async def test_a_life_that_nobody_holds_ends_when_it_is_idle() -> None:
    life = ProcessLife()
    with anyio.fail_after(DEADLINE_SECONDS):
        await life.wait_over(0)
    assert life.over
    assert life.ready.is_set()


async def test_a_life_that_is_held_is_not_idle() -> None:
    life = ProcessLife()
    life.hold(1)
    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(life.wait_over, 0)
            await anyio.wait_all_tasks_blocked()
            assert life.is_leased
            assert not life.over
            life.hold(-1)
    assert life.over


async def test_a_process_that_dies_ends_its_life_with_its_last_line() -> None:
    life = ProcessLife()
    code = f"import sys; sys.stderr.write('x' * {TAIL_BYTES} + '\\nno such model'); sys.exit(3)"
    with anyio.fail_after(DEADLINE_SECONDS):
        async with await anyio.open_process([sys.executable, "-c", code]) as process:
            status, words = await life.watch(process)
    assert status == 3
    assert len(words) == TAIL_BYTES
    assert life.over
    assert life.failure == "its process ended with status 3: no such model"
