"""Announcement — a file in the data directory with the URL of its running server.

Programs of the same user on the same machine find the port there. The server writes the file when it listens and removes it
when it stops. A crash leaves the file behind: it has the id of its process, and is ignored once that is gone.
"""

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from agentvm.log import get_logger
from agentvm.model.base import Record

logger = get_logger(__name__)

FILE_NAME = "server.json"
_FILE_BYTES_MAX = 4096
_REACHABLE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address to connect to for a server that listens on every address."""


class Announced(Record):
    url: str
    pid: int


@contextmanager
def announced(data_dir: Path | None, host: str, port: int) -> Generator[None]:
    """Writes the file for as long as the context lasts. A server without a data directory has none."""
    if data_dir is None:
        yield
        return
    path = data_dir.expanduser().absolute() / FILE_NAME
    reachable = _REACHABLE.get(host, host)
    address = f"[{reachable}]" if ":" in reachable else reachable
    try:
        _write(path, Announced(url=f"http://{address}:{port}", pid=os.getpid()))
    except OSError as error:
        # Convenience only: the server works without it.
        logger.warning("address_not_announced", error=error.strerror)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def running_server(data_dir: Path) -> str | None:
    """Returns the URL of the server that runs on this data directory; None without one."""
    try:
        with (data_dir.expanduser() / FILE_NAME).open("rb") as file:
            server = msgspec.json.decode(file.read(_FILE_BYTES_MAX), type=Announced)
    except (OSError, RuntimeError, ValueError):
        return None
    return server.url if server.url.startswith("http://") and _is_running(server.pid) else None


def _write(path: Path, content: Announced) -> None:
    """Writes the file in one step, so that a reader never sees half of it; private, as every file there."""
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE_NAME}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(content))
        os.replace(aside, path)
    except OSError:
        Path(aside).unlink(missing_ok=True)
        raise


def _is_running(pid: int) -> bool:
    if pid <= 0:
        return False
    if sys.platform == "win32":
        # There the same call would end the process.
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
