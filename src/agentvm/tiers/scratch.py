"""Scratch — the folder of workspaces on hosts that forbid private mounts, and the sweeping of those that were left behind.

A launcher holds a lock on its folder for as long as it lives, so a folder without a lock is abandoned.

Part of the launcher's process: standard library only.
"""

import fcntl
import os
from collections.abc import Iterator

from agentvm.tiers.job_files import FOLDER_FLAGS

SITE = "/tmp"
PREFIX = "agentvm-jails-"
_NAMES_MAX = 1_000
"""Entries of a folder that are listed at a time."""


def make_scratch(site: str = SITE) -> str:
    """Makes and locks a folder for this process."""
    folder = f"{site}/{PREFIX}{os.urandom(8).hex()}"
    # Jobs reach their own folders below it, by a uid of their own, and cannot list the others.
    os.mkdir(folder, 0o711)
    fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_SH)
    return folder


def is_littered(site: str = SITE) -> bool:
    """Whether a launcher that is gone has left a folder."""
    return any(_abandoned(site))


def sweep(site: str = SITE) -> None:
    """Removes the folders of launchers that are gone."""
    for folder in _abandoned(site):
        remove(folder)


def _abandoned(site: str) -> Iterator[str]:
    """Yields the folders without a lock, each locked until the next is asked for."""
    for name in os.listdir(site):
        folder = f"{site}/{name}"
        if not name.startswith(PREFIX):
            continue
        try:
            descriptor = os.open(folder, FOLDER_FLAGS)
        except OSError:
            # A link, or gone meanwhile.
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_uid == os.getuid():
                yield folder
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def remove(folder: str, entries_max: int | None = None) -> bool:
    """Removes a folder with all that is in it; False if there were more entries than `entries_max`, and some are left.

    A program can leave folders that are deeper than any path and any recursion. So folders are moved to the top and emptied
    there, and nothing is listed as a whole. An entry that cannot be removed is left.
    """
    try:
        top = os.open(folder, FOLDER_FLAGS)
    except OSError:
        return True
    try:
        left = _Left(entries_max)
        while not left.is_over and _remove_some(top, left):
            pass
    finally:
        os.close(top)
    if left.is_over:
        return False
    try:
        os.rmdir(folder)
    except OSError:
        pass
    return True


class _Left:
    """The entries that may still be removed."""

    def __init__(self, entries: int | None) -> None:
        self._entries = entries

    @property
    def is_over(self) -> bool:
        return self._entries is not None and self._entries <= 0

    def count(self, removed: int) -> None:
        if self._entries is not None:
            self._entries -= removed


def _remove_some(top: int, left: _Left) -> bool:
    """Removes some of the entries of a folder; returns whether any was removed."""
    removed = 0
    for name in _some_names(top):
        if left.is_over:
            break
        done = _unlink(top, name) or _empty(top, name, left)
        removed += done
        left.count(done)
    return removed > 0


def _some_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for _, entry in zip(range(_NAMES_MAX), entries, strict=False)]


def _unlink(folder: int, name: str) -> bool:
    for away in (os.unlink, os.rmdir):
        try:
            away(name, dir_fd=folder)
        except OSError:
            continue
        return True
    return False


def _empty(top: int, name: str, left: _Left) -> bool:
    """Removes the entries of a folder; folders that are not empty move up beside it. Returns whether any was removed."""
    try:
        # Its owner may have closed it. It is no link: that would have been removed.
        os.chmod(name, 0o700, dir_fd=top)
        folder = os.open(name, FOLDER_FLAGS, dir_fd=top)
    except OSError:
        return False
    removed = 0
    try:
        while not left.is_over and (names := _some_names(folder)):
            done = sum(_unlink(folder, inner) or _move_up(folder, inner, top) for inner in names)
            left.count(done)
            removed += done
            if not done:
                break
    finally:
        os.close(folder)
    return _unlink(top, name) or removed > 0


def _move_up(folder: int, name: str, top: int) -> bool:
    try:
        os.chmod(name, 0o700, dir_fd=folder)
        os.rename(name, os.urandom(8).hex(), src_dir_fd=folder, dst_dir_fd=top)
    except OSError:
        return False
    return True
