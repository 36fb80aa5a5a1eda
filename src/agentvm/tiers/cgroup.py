"""Control groups — the kernel's count of all memory and all processes of a job, where the host lets us make one.

Without them memory is limited for each process, not for the job as a whole. Version 2 needs a group that was delegated to the
server (`Delegate=yes` in a systemd unit); of version 1 the groups `memory` and `pids` are used.

Part of the launcher's process: standard library only.
"""

import os
from dataclasses import dataclass, field

from agentvm.tiers.frames import Bounds

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SITE = "/sys/fs/cgroup"
_FILES = {
    # Version: the names of the limits of memory and processes, and of the count of processes killed for memory.
    "v2": ("memory.max", "pids.max", "memory.events"),
    "v1": ("memory.limit_in_bytes", "pids.max", "memory.oom_control"),
}


@dataclass(slots=True)
class JobGroup:
    """The group of one job; nothing happens where there is none."""

    version: str = "none"
    folders: dict[str, int] = field(default_factory=dict)
    """Open folders by controller."""
    _entries: list[int] = field(default_factory=list)
    _events: int | None = None

    @property
    def descriptors(self) -> set[int]:
        return set(self.folders.values())

    @property
    def counts_memory(self) -> bool:
        return bool(self.folders)

    def prepare(self, bounds: Bounds) -> None:
        """Sets the limits. Called while there still is the right to, by the job's first process."""
        if not self.folders:
            return
        memory, processes, events = _FILES[self.version]
        # Files of the workspace are memory, too.
        _write(self.folders["memory"], memory, str(bounds.memory_bytes + bounds.disk_bytes))
        _write(self.folders["pids"], processes, str(bounds.processes))
        self._entries = [_open(folder, "cgroup.procs", os.O_WRONLY) for folder in dict.fromkeys(self.folders.values())]
        self._events = _open(self.folders["memory"], events, os.O_RDONLY)

    def enter(self) -> None:
        """Moves the calling process into the group, and all that it will start."""
        for entry in self._entries:
            os.write(entry, b"0")

    def ran_out_of_memory(self) -> bool:
        if self._events is None:
            return False
        rows = (line.split() for line in os.pread(self._events, 4096, 0).decode().splitlines())
        return any(row[0] == "oom_kill" and row[1] != "0" for row in rows if len(row) == 2)

    def close(self) -> None:
        for folder in set(self.folders.values()):
            os.close(folder)
        self.folders = {}


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
            if groups._works(f"agentvm-try-{os.getpid()}"):
                return groups
            for folder in folders.values():
                os.close(folder)
        return cls()

    def _works(self, name: str) -> bool:
        try:
            if self.version == "v2":
                _write(self._folders["memory"], "cgroup.subtree_control", "+memory +pids")
            group = self.make(name)
            try:
                for folder, file in zip((group.folders["memory"], group.folders["pids"]), _FILES[self.version], strict=False):
                    os.close(_open(folder, file, os.O_WRONLY))
            finally:
                group.close()
                self.remove(name)
        except OSError:
            return False
        return True

    def make(self, name: str) -> JobGroup:
        """A new group; `OSError` if it cannot be made."""
        if not self._folders:
            return JobGroup()
        for parent in self._parents():
            os.mkdir(name, 0o755, dir_fd=parent)
        folders = {controller: os.open(name, _FOLDER_FLAGS, dir_fd=parent) for controller, parent in self._folders.items()}
        return JobGroup(self.version, folders)

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
    found: list[tuple[str, dict[str, str]]] = []
    first: dict[str, str] = {}
    for _, controllers, path in rows:
        if not controllers:
            found.append(("v2", dict.fromkeys(("memory", "pids"), _SITE + path)))
        for name in {"memory", "pids"}.intersection(controllers.split(",")):
            first[name] = f"{_SITE}/{name}{path}"
    if len(first) == 2:
        found.append(("v1", dict(sorted(first.items()))))
    return found


def _open(folder: int, name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CLOEXEC, dir_fd=folder)


def _write(folder: int, name: str, text: str) -> None:
    descriptor = _open(folder, name, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
