"""Large work — goes through much data of a stranger without stopping the event loop.

A megabyte takes the loop as long as ten answers of other users. So it is gone through in a thread, and there is one at a time:
a second would only take the loop's time as well. Those who wait have their turns by tenant.
"""

from collections.abc import Callable, Hashable
from typing import TypeVar

from anyio.lowlevel import RunVar

from agentvm.sharing.fair_slots import FairSlots
from agentvm.sharing.own_thread import run_in_own_thread

LARGE_BYTES = 128 * 1024
"""Bytes that take the event loop a few milliseconds at most."""

T = TypeVar("T")

_turns: RunVar[FairSlots] = RunVar("large_work")


async def go_through(owner: Hashable, size: int, work: Callable[[], T]) -> T:
    """Returns the result of work on so many bytes, for a tenant; few of them are gone through at once.

    Raises the work's `AgentVMError`, `OSError` or `ValueError`.
    """
    if size < LARGE_BYTES:
        return work()
    turns = _turns.get(None)
    if turns is None:
        _turns.set(turns := FairSlots(1, idle_first=True))
    held = await turns.acquire(owner)
    return await run_in_own_thread("large work", work, held.release)
