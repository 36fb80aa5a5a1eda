"""Brooms — processes of the launcher that remove the files of jobs from a disk: they can be very many, and no job waits.

Part of the launcher's process: standard library only.
"""

import os
import signal
from collections.abc import Callable

from agentvm.tiers import kernel

Ended = Callable[[], None]


class Brooms:
    """The processes that sweep, by the descriptors that tell their end."""

    def __init__(self) -> None:
        self._sweeping: dict[int, tuple[int, Ended]] = {}

    def __contains__(self, watch: int) -> bool:
        return watch in self._sweeping

    @property
    def processes(self) -> set[int]:
        return {process for process, _ in self._sweeping.values()}

    def start(self, sweep: Callable[[], object], ended: Ended) -> int | None:
        """Sweeps in a process of its own; returns the descriptor that tells its end. `ended` is called then.

        None if the machine has no process left: then it is called at once, and the next launcher sweeps.
        """
        try:
            process = os.fork()
        except OSError:
            ended()
            return None
        if process == 0:
            try:
                kernel.die_with_parent()
                kernel.close_all_but(set())
                sweep()
            finally:
                os._exit(0)
        watch = os.pidfd_open(process)
        self._sweeping[watch] = process, ended
        return watch

    def bury(self, watch: int) -> None:
        """Reaps a process that has ended."""
        process, ended = self._sweeping.pop(watch)
        os.close(watch)
        os.waitpid(process, 0)
        ended()

    def close(self) -> None:
        """Ends all of them."""
        for process in self.processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self._sweeping.clear()
