"""Data directory — where a server keeps its files, and the lock that keeps a second server out.

The lock belongs to the open file, not to the file's existence: the operating system drops it with the process, however that
ends, so a lock file left behind by a crash does not block others. It is never deleted, because a deleted file could be locked
twice. The pid inside is for people only.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agentvm.errors import ConfigInvalid, DataDirInUse
from agentvm.log import get_logger
from agentvm.storage.engines.sqlite.placing import finish_placing
from agentvm.storage.engines.sqlite.private import is_open_to_others

logger = get_logger(__name__)

LOCK_NAME = "agentvm.lock"
DATABASE = "agentvm.db"

if sys.platform == "win32":
    import msvcrt

    # Windows also forbids reading a locked byte: lock one far behind the pid.
    _LOCKED_BYTE = 1 << 20

    def _try_lock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError from error

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def lock_data_dir(path: Path) -> Generator[Path]:
    """Creates the directory if needed and holds it: `DataDirInUse` when another server does, `ConfigInvalid` when it cannot be.

    Gives the directory's absolute path.
    """
    directory = _make_directory(path)
    descriptor = _open_lock(directory)
    try:
        try:
            _try_lock(descriptor)
            _write_pid(descriptor)
        except BlockingIOError:
            fact = f"The data directory {directory} is in use by another AgentVM server (process {_read_pid(descriptor)})."
            raise DataDirInUse(
                f"{fact} Stop that server, or give this one a directory of its own with --data-dir.",
                details={"fact": fact, "dataDir": str(directory)},
            ) from None
        except OSError as error:
            raise ConfigInvalid(
                f"The data directory {directory} cannot be locked: {error.strerror}. "
                "Choose one on a local disk with free space, with --data-dir."
            ) from error
        # A restore that was decided on and did not come to its end is no state to work on.
        finish_placing(directory)
        yield directory
    finally:
        os.close(descriptor)


def _make_directory(path: Path) -> Path:
    try:
        directory = path.expanduser().absolute()
    except RuntimeError as error:
        raise ConfigInvalid(f"The data directory {path} cannot be resolved: {error}") from error
    try:
        # Private: it holds everybody's conversations. One that exists keeps the mode its owner chose; its files are private.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_open_to_others(directory):
            logger.warning("data_directory_open_to_others", path=str(directory), remedy=f"chmod 700 {directory}")
    except FileExistsError:
        raise ConfigInvalid(f"The data directory {directory} is a file. Choose a directory with --data-dir.") from None
    except OSError as error:
        raise ConfigInvalid(
            f"The data directory {directory} cannot be created: {error.strerror}. Choose another one with --data-dir."
        ) from error
    return directory


def _open_lock(directory: Path) -> int:
    try:
        return os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigInvalid(
            f"The data directory {directory} is not writable: {error.strerror}. "
            "Give this user the right to write there, or choose another one with --data-dir."
        ) from error


def _read_pid(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    pid = os.read(descriptor, 20).decode("ascii", "replace").strip()
    # The holder may have locked, but not yet written.
    return pid if pid.isdigit() else "unknown"


def _write_pid(descriptor: int) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))
