"""Control groups — the kernel's count of all memory and all processes of a job, where the host lets us make one.

Without them memory is limited for each process, not for the job as a whole. Version 2 needs a group that was delegated to the
server (`Delegate=yes` in a systemd unit); of version 1 the groups `memory` and `pids` are used.

Part of the launcher's process: standard library only.
"""

import os
import time
from dataclasses import dataclass, field

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SITE = "/sys/fs/cgroup"
PREFIX = "agentvm-"
"""Begin of the name of a job's group, before the id of its launcher's process."""
DYING_SECONDS = 1.0
DYING_PAUSE_SECONDS = 0.02
"""How long the group of a dead launcher may stay busy, and how often that is looked at."""
_FILES = {
    # Version: the names of the limits of memory and processes, and of the count of processes killed for memory.
    "v2": ("memory.max", "pids.max", "memory.events"),
    "v1": ("memory.limit_in_bytes", "pids.max", "memory.oom_control"),
}


@dataclass(slots=True)
class JobGroup:
    """The group of one job; nothing happens where there is none."""

    entries: list[int] = field(default_factory=list)
    """Open files that take a process into the group."""
    events: int | None = None

    @property
    def counts_memory(self) -> bool:
        return bool(self.entries)

    def enter(self) -> None:
        """Moves the calling process into the group, and all that it will start."""
        for entry in self.entries:
            os.write(entry, b"0")

    def ran_out_of_memory(self) -> bool:
        if self.events is None:
            return False
        rows = (line.split() for line in os.pread(self.events, 4096, 0).decode().splitlines())
        return any(row[0] == "oom_kill" and row[1] != "0" for row in rows if len(row) == 2)

    def close(self) -> None:
        for descriptor in (*self.entries, *(() if self.events is None else (self.events,))):
            os.close(descriptor)
        self.entries, self.events = [], None


class Groups:
    """The groups of all jobs, below the one that the server runs in. The folders stay open when the root is changed."""

    def __init__(self, version: str = "none", folders: dict[str, int] | None = None) -> None:
        self.version = version
        self._folders = folders or {}

    @classmethod
    def find(cls) -> "Groups":
        """The groups that this process may make, tried by making one."""
        for version, paths in _candidates():
            try:
                folders = {name: os.open(path, _FOLDER_FLAGS) for name, path in paths.items()}
            except OSError:
                continue
            groups = cls(version, folders)
            if groups._works(f"{PREFIX}{os.getpid()}-try"):
                return groups
            for folder in folders.values():
                os.close(folder)
        return cls()

    def _works(self, name: str) -> bool:
        try:
            if self.version == "v2":
                _write(self._folders["memory"], "cgroup.subtree_control", "+memory +pids")
            self.sweep()
            try:
                self.make(name, memory_bytes=2**30, processes=1).close()
            finally:
                self.remove(name)
        except OSError:
            return False
        return True

    def make(self, name: str, *, memory_bytes: int, processes: int) -> JobGroup:
        """A new group; `OSError` if it cannot be made."""
        if not self._folders:
            return JobGroup()
        for parent in self._parents():
            os.mkdir(name, 0o755, dir_fd=parent)
        memory, pids, events = _FILES[self.version]
        _write(self._folders["memory"], f"{name}/{memory}", str(memory_bytes))
        _write(self._folders["pids"], f"{name}/{pids}", str(processes))
        entries = [_open(parent, f"{name}/cgroup.procs", os.O_WRONLY) for parent in self._parents()]
        return JobGroup(entries, _open(self._folders["memory"], f"{name}/{events}", os.O_RDONLY))

    def sweep(self) -> None:
        """Removes the groups of launchers that were killed. Their jobs have just been killed too, and may still be dying."""
        for parent in self._parents():
            for name in os.listdir(parent):
                owner = name.removeprefix(PREFIX).partition("-")[0]
                if name.startswith(PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                    self._remove_dying(name)

    def _remove_dying(self, name: str) -> None:
        until = time.monotonic() + DYING_SECONDS
        while not self.remove(name) and time.monotonic() < until:
            time.sleep(DYING_PAUSE_SECONDS)

    def remove(self, name: str) -> bool:
        """Whether the group is gone; it is not while a process in it is still being buried."""
        gone = True
        for parent in self._parents():
            try:
                os.rmdir(name, dir_fd=parent)
            except FileNotFoundError:
                continue
            except OSError:
                gone = False
        return gone

    def _parents(self) -> tuple[int, ...]:
        if self.version == "v2":
            return (self._folders["memory"],)
        return tuple(self._folders.values())


def _candidates() -> list[tuple[str, dict[str, str]]]:
    """Folders of this process's own groups, version 2 first."""
    try:
        with open("/proc/self/cgroup") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    candidates: list[tuple[str, dict[str, str]]] = []
    first: dict[str, str] = {}
    for _, controllers, path in rows:
        if not controllers:
            candidates.append(("v2", dict.fromkeys(("memory", "pids"), _SITE + path)))
        for name in {"memory", "pids"}.intersection(controllers.split(",")):
            first[name] = f"{_SITE}/{name}{path}"
    if len(first) == 2:
        candidates.append(("v1", dict(sorted(first.items()))))
    return candidates


def _open(folder: int, name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CLOEXEC, dir_fd=folder)


def _write(folder: int, name: str, text: str) -> None:
    descriptor = _open(folder, name, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
