"""Process life — one child process that several callers lease, from its start until it ends or has been idle for too long.

Flags change only between awaits of one event loop, so no lock is needed.
"""

import math
from contextlib import suppress

import anyio
import anyio.abc

TAIL_BYTES = 2_000


class ProcessLife:
    """A life ends once; one that is over is never leased again. `failure` says why, for the error of a caller."""

    def __init__(self) -> None:
        self.ready = anyio.Event()
        self.failure = "its process ended"
        self.over = False
        self.process_id: int | None = None
        self._leases = 0
        self._changed = anyio.Event()

    @property
    def is_leased(self) -> bool:
        return self._leases > 0

    def hold(self, change: int) -> None:
        """Counts leases: 1 for a new one, -1 for one that is over."""
        self._leases += change
        self._changed.set()

    def end(self) -> None:
        self.over = True
        self.ready.set()
        self._changed.set()

    async def wait_over(self, idle_seconds: float) -> None:
        """Waits until the life is over; ends it when it was not leased for this long."""
        while not self.over:
            self._changed = anyio.Event()
            with anyio.move_on_after(math.inf if self._leases else idle_seconds) as waiting:
                await self._changed.wait()
            if waiting.cancelled_caught and not self._leases:
                self.end()

    async def watch(self, process: anyio.abc.Process) -> tuple[int, str]:
        """Ends the life when the process dies. Returns its status and the end of its stderr, which goes to no terminal."""
        assert process.stderr is not None
        tail = b""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for piece in process.stderr:
                tail = (tail + piece)[-TAIL_BYTES:]
        status, words = await process.wait(), tail.decode(errors="replace").strip()
        last = words.rpartition("\n")[2]
        self.failure = f"its process ended with status {status}" + (f": {last}" if last else "")
        self.end()
        return status, words
