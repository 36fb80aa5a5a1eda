"""Placing — puts files that were restored into a data directory, so that a crash at any moment leaves the old ones or the new.

Theory of operation. The new files wait in `restore.new` until they are complete and verified. Renaming that folder to
`restore.placing` is the decision: from then on the new ones count, and the next holder of the directory finishes the rest
(`finish_placing`, also called when a server starts). Each step is one rename, and the progress is seen from where the files
are, so the steps may begin anew as often as needed. The earlier files are kept in a folder `replaced-…`.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from agentvm.errors import StoreFailed

STAGED = "restore.new"
PLACING = "restore.placing"
REPLACED = "replaced-"
_OLD = "old"

COMPANIONS = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite creates beside a database; left behind, they would be taken for those of the new one."""

Rename = Callable[[Path, Path], None]


def rename(source: Path, target: Path) -> None:
    os.rename(source, target)
    sync_directory(target.parent)
    if source.parent != target.parent:
        sync_directory(source.parent)


def sync_directory(directory: Path) -> None:
    """Syncs a directory: a crash must not undo a rename."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_stage(directory: Path) -> Path:
    """An empty folder for the new files; the files of an earlier try are dropped."""
    stage = directory / STAGED
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(mode=0o700)
    return stage


def place(directory: Path, move: Rename = rename) -> Path | None:
    """Puts staged files in place; returns where the replaced files are kept, if there were any."""
    move(directory / STAGED, directory / PLACING)
    return finish_placing(directory, move)


def finish_placing(directory: Path, move: Rename = rename) -> Path | None:
    """Completes an interrupted placing, if there is one. Only for who holds the directory."""
    placing = directory / PLACING
    if not placing.is_dir():
        return None
    try:
        (placing / _OLD).mkdir(mode=0o700, exist_ok=True)
        for new in sorted(path for path in placing.iterdir() if path.name != _OLD):
            for name in (*(new.name + ending for ending in COMPANIONS), new.name):
                if os.path.lexists(directory / name):
                    move(directory / name, placing / _OLD / name)
            move(new, directory / new.name)
        return _keep_old(directory, move)
    except OSError as error:
        raise StoreFailed(
            f"The restored files cannot be moved into {directory}: {error}. Run the command again to continue"
        ) from error


def _keep_old(directory: Path, move: Rename) -> Path | None:
    placing = directory / PLACING
    if not any((placing / _OLD).iterdir()):
        (placing / _OLD).rmdir()
        placing.rmdir()
        return None
    number = 1
    while (replaced := directory / f"{REPLACED}{number}").exists():
        number += 1
    move(placing / _OLD, replaced)
    placing.rmdir()
    return replaced
