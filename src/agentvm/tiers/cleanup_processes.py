"""Cleanup processes — delete the files of ended jobs: a job can leave very many, and no other job waits for the deletion.

Part of the launcher's process: standard library only.
"""

import os
import signal
from collections.abc import Callable

from agentvm.tiers import kernel

Ended = Callable[[], None]


class CleanupProcesses:
    """The running cleanup processes, by the process descriptors that become readable when they end."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[int, Ended]] = {}

    def __contains__(self, watch: int) -> bool:
        return watch in self._running

    @property
    def processes(self) -> set[int]:
        return {process for process, _ in self._running.values()}

    def start(self, sweep: Callable[[], object], ended: Ended) -> int | None:
        """Starts `sweep` in a process of its own and returns the descriptor of the process. `ended` is called when it ends.

        None if the machine has no process left: then `ended` is called at once, and the next launcher deletes the files.
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
        self._running[watch] = process, ended
        return watch

    def reap(self, watch: int) -> None:
        """Reaps a process that has ended."""
        process, ended = self._running.pop(watch)
        os.close(watch)
        os.waitpid(process, 0)
        ended()

    def close(self) -> None:
        """Kills all cleanup processes."""
        for process in self.processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self._running.clear()
