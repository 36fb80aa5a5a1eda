"""A disk that fails when told to: a virtual file system below SQLite."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import apsw

Fault = Literal["full", "read-only", "sync", "slow"]
SLOW = 0.5
"""Seconds one sync takes on a slow disk."""


class Disk(apsw.VFS):
    """The default file system until `fault` says what is wrong with it."""

    def __init__(self) -> None:
        self.base = apsw.vfs_names()[0]
        self.fault: Fault | None = None
        self.hits = 0
        """How often the fault was met."""
        super().__init__("faulty", self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "DiskFile":
        return DiskFile(self, name, flags)

    def write(self) -> None:
        if self.fault == "full":
            self.hits += 1
            raise apsw.FullError("no space left on device")
        if self.fault == "read-only":
            self.hits += 1
            raise apsw.ReadOnlyError("read-only file system")

    def sync(self) -> None:
        if self.fault == "sync":
            self.hits += 1
            raise apsw.IOError("input/output error")
        if self.fault == "slow":
            self.hits += 1
            time.sleep(SLOW)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(disk.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.write()
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._disk.write()
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self._disk.sync()
        super().xSync(flags)


@contextmanager
def faulty_disk() -> Iterator[Disk]:
    """Databases that are opened meanwhile are on it."""
    disk = Disk()
    try:
        yield disk
    finally:
        apsw.set_default_vfs(disk.base)
        disk.unregister()
