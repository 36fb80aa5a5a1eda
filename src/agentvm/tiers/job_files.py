"""Job files — puts files into a workspace and reads back those that changed, byte for byte.

A program may leave anything behind: links, devices, folders without end, a file that is swapped while it is read. So a file is
opened below an open folder and never through a link, must be a regular one, and is read only after its size was looked at.

Part of the launcher's process: standard library only.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

DEPTH_MAX = 32
PATH_MAX_BYTES = 1024
ENTRIES_OF_FILE_MAX = 4
"""Entries of a workspace that are looked at, for each file that it may hold: a program can make millions."""
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Stamp = tuple[int, int, int, int, int]
"""Facts of a file that change whenever its bytes do: a program cannot set the time of the last change of its inode."""


def is_path(path: str) -> bool:
    """Whether a path is relative and normal: no empty part, no dots, nothing that climbs."""
    parts = path.split("/")
    return (
        0 < len(path.encode("utf-8", "surrogateescape")) <= PATH_MAX_BYTES
        and len(parts) <= DEPTH_MAX
        and {"", ".", ".."}.isdisjoint(parts)
        and "\0" not in path
    )


@dataclass(slots=True)
class Collected:
    """The files that differ from those that were put in."""

    files: dict[str, bytes] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    executable: list[str] = field(default_factory=list)
    left_out: int = 0


class JobFiles:
    """The files of one workspace, below an open folder."""

    def __init__(self, folder: int, placed: Mapping[str, Stamp] | None = None) -> None:
        self.folder = folder
        self.placed = dict(placed or {})
        self._unseen = 0
        """Entries that are still looked at."""

    @classmethod
    @contextmanager
    def open(cls, folder: str) -> Iterator[Self]:
        descriptor = os.open(folder, FOLDER_FLAGS)
        try:
            yield cls(descriptor)
        finally:
            os.close(descriptor)

    def place(self, files: Mapping[str, bytes], executable: frozenset[str]) -> None:
        """Writes files; `OSError` for a name that is no path, or when the workspace is full."""
        for path, data in files.items():
            if not is_path(path):
                raise OSError(f"{path!r} is not a path of a workspace")
            *folders, name = path.split("/")
            parent = self.folder
            for depth, folder in enumerate(folders):
                inner = _enter(parent, folder)
                if depth:
                    os.close(parent)
                parent = inner
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o755 if path in executable else 0o644, dir_fd=parent)
            with open(descriptor, "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                self.placed[path] = _stamp(os.fstat(descriptor))
            if parent != self.folder:
                os.close(parent)

    def collect(self, limit_bytes: int, limit_files: int) -> Collected:
        """The files that were added or changed, and the names of those that are gone."""
        collected, seen, left = Collected(), set[str](), limit_bytes
        self._unseen = limit_files * ENTRIES_OF_FILE_MAX
        for path, parent, name in self._walk(self.folder, "", collected):
            try:
                before = os.stat(name, dir_fd=parent, follow_symlinks=False)
            except OSError:
                continue
            if not stat.S_ISREG(before.st_mode):
                collected.left_out += 1
                continue
            seen.add(path)
            if self.placed.get(path) == _stamp(before):
                continue
            data = _read(parent, name, left) if len(collected.files) < limit_files else None
            if data is None:
                collected.left_out += 1
                continue
            left -= len(data)
            collected.files[path] = data
            if before.st_mode & 0o100:
                collected.executable.append(path)
        if self._unseen < 0:
            # Some entries were not looked at, so nobody knows what is gone.
            collected.left_out += 1
        else:
            collected.deleted = [path for path in self.placed if path not in seen]
        return collected

    def _walk(self, folder: int, above: str, collected: Collected, depth: int = 1) -> Iterator[tuple[str, int, str]]:
        # By names, which a swap cannot turn into links: each is opened below its open folder.
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, max(0, self._unseen) + 1))
        self._unseen -= len(names)
        for name in names:
            path = f"{above}{name}"
            if not _is_text(path) or not is_path(path):
                collected.left_out += 1
                continue
            try:
                inner = os.open(name, FOLDER_FLAGS, dir_fd=folder)
            except NotADirectoryError:
                yield path, folder, name
                continue
            except OSError:
                # A link, or a folder that was closed to its owner.
                collected.left_out += 1
                continue
            try:
                yield from self._walk(inner, f"{path}/", collected, depth + 1)
            finally:
                os.close(inner)


def _enter(parent: int, name: str) -> int:
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except FileExistsError:
        pass
    return os.open(name, FOLDER_FLAGS, dir_fd=parent)


def _is_text(path: str) -> bool:
    """Whether a name is UTF-8: another cannot be told to a client without changing it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stamp(facts: os.stat_result) -> Stamp:
    return (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, stat.S_IMODE(facts.st_mode))


def _read(parent: int, name: str, limit: int) -> bytes | None:
    try:
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=parent)
    except OSError:
        return None
    with open(descriptor, "rb", buffering=0) as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
            return None
        data = bytearray()
        # One byte more than it said: a file that grows while it is read is left out.
        while piece := file.read(min(1 << 20, limit + 1 - len(data))):
            data += piece
            if len(data) > limit:
                return None
        return bytes(data)
