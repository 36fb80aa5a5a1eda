"""Uid block — uids for the jobs of one launcher, which no other launcher on this machine uses at the same time.

A block is reserved by a socket with an abstract name, which the kernel assigns to one process only and releases when that
ends.

Part of the launcher's process: standard library only.
"""

import os
import signal
import socket

BLOCK_MAX = 256
"""Uids of one launcher, and so the jobs that it can run at a time."""


class UidBlock:
    """Uids that are lent one by one. None is lent where the server is not root."""

    def __init__(self, first: int = 0, count: int = 0, lock: socket.socket | None = None) -> None:
        self._lock = lock
        self._free = list(range(first, first + count))
        self.all = tuple(self._free)

    @classmethod
    def find(cls, first: int, count: int) -> "UidBlock":
        """Returns the first free block below `first + count`; empty if there is none, or no permission."""
        if os.getuid() != 0 or not hasattr(socket, "AF_UNIX"):
            return cls()
        for begin in range(first, first + count - BLOCK_MAX + 1, BLOCK_MAX):
            lock = socket.socket(socket.AF_UNIX)
            try:
                lock.bind(f"\0agentvm-uids-{begin}")
            except OSError:
                lock.close()
                continue
            return cls(begin, BLOCK_MAX, lock)
        return cls()

    def take(self) -> int | None:
        # From the front and given back at the end: a uid rests as long as possible.
        return self._free.pop(0) if self._free else None

    def give_back(self, uid: int | None) -> None:
        if uid is not None:
            self._free.append(uid)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()


def kill_all_of(uid: int) -> None:
    """Kills every process of a uid that belongs to jobs, from a child that has given up everything else."""
    if uid <= 0:
        raise ValueError("the uid of a job is never that of root")
    killer = os.fork()
    if killer == 0:
        try:
            os.setresuid(uid, uid, uid)
            if os.getresuid() == (uid, uid, uid):
                os.kill(-1, signal.SIGKILL)
        except OSError:
            # There was none.
            pass
        finally:
            os._exit(0)
    os.waitpid(killer, 0)


def owners() -> set[int]:
    """Uids that have a process."""
    uids = set()
    for name in os.listdir("/proc"):
        try:
            if name.isdigit():
                uids.add(os.stat(f"/proc/{name}").st_uid)
        except OSError:
            continue
    return uids
