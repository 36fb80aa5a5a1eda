import time

import anyio
import anyio.lowlevel
import pytest

from agentvm.observability import sampler as module
from agentvm.observability.sampler import DISK_FULL_BYTES, RECENT_SAMPLES_MAX, Sampler


def test_the_worst_of_late_counts_and_is_forgotten() -> None:
    sampler = Sampler(lambda: None)
    assert sampler.lag == 0
    sampler.sample(0.4)
    sampler.sample(-0.1)
    assert sampler.lag == 0.4
    for _ in range(RECENT_SAMPLES_MAX):
        sampler.sample(0.01)
    assert sampler.lag == 0.01


def test_a_disk_is_full_until_there_is_room_again() -> None:
    free = [DISK_FULL_BYTES]
    sampler = Sampler(lambda: free[0])
    assert not sampler.full
    free[0] -= 1
    sampler.sample(0)
    assert (sampler.full, sampler.disk_free) == (True, DISK_FULL_BYTES - 1)
    free[0] = 10 * DISK_FULL_BYTES
    sampler.sample(0)
    assert not sampler.full
    assert not Sampler(lambda: None).full


async def test_a_loop_that_is_held_up_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0.01)
    looked = anyio.Event()

    def free() -> int:
        if sampler is not None and sampler.lag >= 0.05:
            looked.set()
        return 10 * DISK_FULL_BYTES

    sampler: Sampler | None = None
    sampler = Sampler(free)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sampler.run)
            await anyio.lowlevel.checkpoint()
            time.sleep(0.2)  # noqa: ASYNC251 - What is to be seen.
            await looked.wait()
            tasks.cancel_scope.cancel()
    assert sampler.lag >= 0.05
