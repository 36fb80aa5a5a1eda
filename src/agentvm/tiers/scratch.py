"""Scratch — the folder of workspaces on hosts that forbid private mounts, and the sweeping of those that were left behind.

A launcher holds a lock on its folder for as long as it lives, so a folder without a lock is nobody's.

Part of the launcher's process: standard library only.
"""

import fcntl
import importlib
import os

SITE = "/tmp"
PREFIX = "agentvm-jails-"


def make_scratch(site: str = SITE) -> str:
    """Makes and locks a folder for this process, after removing those of launchers that were killed."""
    sweep(site)
    folder = f"{site}/{PREFIX}{os.urandom(8).hex()}"
    # Jobs reach their own folders below it, by a uid of their own, and cannot list the others.
    os.mkdir(folder, 0o711)
    fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_SH)
    return folder


def sweep(site: str = SITE) -> None:
    """Removes the folders of launchers that are gone."""
    for name in os.listdir(site):
        if name.startswith(PREFIX) and os.lstat(f"{site}/{name}").st_uid == os.getuid():
            _remove_unless_locked(f"{site}/{name}")


def _remove_unless_locked(folder: str) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(folder)
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)


def remove(folder: str) -> None:
    # Loaded only here: a launcher with namespaces stays small without it.
    importlib.import_module("shutil").rmtree(folder, ignore_errors=True)
