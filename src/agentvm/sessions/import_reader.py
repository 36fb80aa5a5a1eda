"""Import reader — the program of the process that reads imports: an untrusted file in, a spool of checked records out.

`python -m agentvm.sessions.import_reader ORDERS` reads the file of one descriptor and writes the spool to another, under limits
of memory, time and file size that it sets for itself before it looks at a byte. It answers with one line of JSON, a `Reading`
or a `Refusal`, and ends when its parent does. It imports no server and no database: it starts in a tenth of a second.
"""

import ctypes
import errno
import os
import resource
import signal
import sys
import threading
from collections.abc import Mapping
from typing import BinaryIO, Literal, get_args

import msgspec

from agentvm.errors import AgentVMError, InvalidInput
from agentvm.errors.archive import ArchiveTooLarge
from agentvm.model.ids import ContainerId
from agentvm.sessions import chatgpt, claude, openwebui
from agentvm.sessions.archive import BLOB_MAX_BYTES
from agentvm.sessions.bounds import MAX_IMPORT_BYTES
from agentvm.sessions.foreign import Parse, open_foreign, read_foreign, recognise
from agentvm.sessions.reading import is_archive, read_archive
from agentvm.sessions.spool import Spool

MEMORY_BYTES = 512 * 1024 * 1024
CPU_SECONDS = 240
NICE_LEVEL = 10
"""Lower priority than the server, if both share one core."""
_PARENT_DEATH_SIGNAL_CODE = 1
_OOM_SCORE = "/proc/self/oom_score_adj"

Kind = Literal["auto", "archive", "chatgpt", "claude", "openwebui"]
FOREIGN: Mapping[str, Parse] = {"chatgpt": chatgpt.parse, "claude": claude.parse, "openwebui": openwebui.parse}
CONTAINER_NEEDED = "Set `container`, the container of the imported conversations"


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The import to read. `container_id` is the container of conversations of other programs, which have none."""

    kind: Kind = "auto"
    container_id: ContainerId | None = None
    most_bytes: int = MAX_IMPORT_BYTES
    """Unpacked."""
    most_attached: int = BLOB_MAX_BYTES
    """Bytes that one attachment may have."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """Orders for a process: who started it, the descriptors of the file and the spool, and its limits."""

    orders: Orders
    parent: int
    source: int
    spool: int
    memory_bytes: int = MEMORY_BYTES
    cpu_seconds: int = CPU_SECONDS


class Reading(msgspec.Struct, frozen=True, kw_only=True, tag="read"):
    """The result: the program that wrote the file, and the number of binary parts of an archive."""

    kind: Literal["archive", "chatgpt", "claude", "openwebui"]
    blobs: int = 0


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The error of an import that was not read: code, message and details."""

    code: str
    message: str
    details: dict[str, str | int] = {}


def read(source: BinaryIO, out: BinaryIO, orders: Orders) -> Reading:
    """Writes the content of the file to the spool; `ArchiveInvalid` or `ArchiveTooLarge` for an invalid file."""
    spool = Spool(out)
    if orders.kind == "archive" or (orders.kind == "auto" and is_archive(source)):
        read_archive(source, spool, orders.most_attached, orders.most_bytes)
        out.flush()
        return Reading(kind="archive", blobs=spool.counts.blobs)
    with open_foreign(source, orders.most_bytes) as text:
        kind = recognise(text) if orders.kind == "auto" else orders.kind
        if orders.container_id is None:
            raise InvalidInput(CONTAINER_NEEDED)
        read_foreign(text, kind, FOREIGN[kind], spool, orders.container_id)
    out.flush()
    return Reading(kind=kind)


def main() -> None:
    """Reads the import in the argument, and writes the result to stdout."""
    assignment = msgspec.json.decode(sys.argv[1], type=Assignment)
    _limit(assignment)
    _die_with(assignment.parent)
    with os.fdopen(assignment.source, "rb") as source, os.fdopen(assignment.spool, "wb") as out:
        source.seek(0)
        sys.stdout.buffer.write(msgspec.json.encode(_answer(source, out, assignment.orders)) + b"\n")
        sys.stdout.flush()
    # No farewell: the thread that watches the parent waits for ever.
    os._exit(0)


def _answer(source: BinaryIO, out: BinaryIO, orders: Orders) -> Reading | Refusal:
    try:
        return read(source, out, orders)
    except AgentVMError as error:
        details = {name: value for name, value in error.details.items() if isinstance(value, str | int)}
        return Refusal(code=error.code, message=str(error), details=details)
    except MemoryError:
        return _too_large("it needs more memory to be read than an import may have")
    except OSError as error:
        if error.errno == errno.EFBIG:
            return _too_large(f"it has more than {orders.most_bytes:,} bytes unpacked (limits.importBytes)")
        return Refusal(code="store_failed", message=f"The server has no room to unpack the import: {error.strerror}")


def _too_large(why: str) -> Refusal:
    return Refusal(code=ArchiveTooLarge.code, message=f"The import is refused, and nothing was written: {why}")


def _limit(assignment: Assignment) -> None:
    os.nice(NICE_LEVEL)
    # A spool has a little more than what it holds: ids and lengths.
    spool_bytes = 2 * assignment.orders.most_bytes
    for kind, most in (
        (resource.RLIMIT_AS, assignment.memory_bytes),
        (resource.RLIMIT_CPU, assignment.cpu_seconds),
        (resource.RLIMIT_FSIZE, spool_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    try:
        # Should memory run out, this process goes first.
        with open(_OOM_SCORE, "w") as file:
            file.write("1000")
    except OSError:
        # Not Linux, or not allowed: the limit of memory holds all the same.
        return


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL_CODE, signal.SIGKILL)
    # It may have died before the kernel was told.
    if os.getppid() != parent:
        os._exit(0)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    """Ends the process with its parent: stdin closes when that ends in any way, on every system."""
    sys.stdin.buffer.read()
    os._exit(0)


assert set(FOREIGN) | {"auto", "archive"} == set(get_args(Kind))

if __name__ == "__main__":
    main()
