"""Backup — a data directory as one file, taken beside a running server or without one.

Theory of operation. A reader of a database in WAL mode sees one state of it for as long as its transaction lasts, and the
writer continues in the meantime. A separate connection, in any process, starts a read transaction and copies page by page: the
copy is the database at that moment, with everything that was acknowledged before. The lock of the data directory is not needed.
Only the write-ahead log cannot be folded into the file until the copy is done, and grows a little.

The file is a ZIP of the database, of the server's key and configuration if they are asked for, and of a manifest with the
digest of each. It is written aside and gets its name when it is whole and synced.
"""

import hashlib
import hmac
import os
import tempfile
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import apsw
import msgspec

from agentvm.errors import Conflict, NotFound, StoreFailed
from agentvm.model.base import Record
from agentvm.model.ids import Clock
from agentvm.storage.engines.sqlite.datadir import DATABASE
from agentvm.storage.engines.sqlite.placing import sync_directory
from agentvm.version import VERSION

FORMAT: Literal[1] = 1
MANIFEST = "manifest.json"
SERVER_KEY = "server.key"
CONFIG = "config.yaml"
PARTS = (DATABASE, SERVER_KEY, CONFIG)
"""The files that a backup may contain."""

PAGES = 2_048
"""Copied at a time: the reader of progress hears often, and the copy is not slowed down."""
BLOCK_BYTES = 1 << 20
SETTLED = 16 * BLOCK_BYTES
"""How much is packed until the disk is waited for."""
BUSY_MS = 5_000
_LEVEL = 1
"""The compression level: higher ones take several times as long for a few percent."""
_EPOCH = (1980, 1, 1, 0, 0, 0)

Progress = Callable[[str, int, int], None]
"""Called with the name of the step, the amount done and the total amount."""


class Part(Record, forbid_unknown_fields=True):
    """One file of the backup."""

    name: str
    size: int
    sha256: str


class BackupManifest(Record, forbid_unknown_fields=True, omit_defaults=False):
    """The description of a backup. `at` is the moment, in ms, of which it holds everything."""

    format: Literal[1]
    agentvm: str
    schema: int
    at: int
    parts: tuple[Part, ...]
    seal: str | None = None
    """HMAC-SHA256 of the manifest without this field, under a key of the server; the parts are in it by their digests."""

    def sealed(self, key: bytes) -> "BackupManifest":
        bare = msgspec.structs.replace(self, seal=None)
        return msgspec.structs.replace(bare, seal=hmac.digest(key, msgspec.json.encode(bare), "sha256").hex())

    def is_sealed(self, key: bytes) -> bool:
        """Whether the backup was made with the key and is unchanged."""
        return hmac.compare_digest(self.seal or "", self.sealed(key).seal or "")


@dataclass(frozen=True, slots=True)
class BackupResult:
    """A backup that was made."""

    path: Path
    manifest: BackupManifest
    size: int


def silent(step: str, done: int, of: int) -> None:
    """Ignores progress."""


def make_backup(
    data_dir: Path,
    target: Path,
    *,
    clock: Clock,
    with_key: bool = False,
    force: bool = False,
    seal_key: bytes | None = None,
    progress: Progress = silent,
) -> BackupResult:
    """Writes the backup to the target, which must not be there, unless it is forced. It takes a while: use a thread.

    With `seal_key` the holder of the same key can verify later that it is unchanged.

    `NotFound` without a database, `Conflict` if the target is there, `StoreFailed` for a disk that does not play along.
    """
    database = data_dir / DATABASE
    if not database.is_file():
        raise NotFound(f"There is no database in {data_dir}; name the server's data directory with --data-dir")
    if target.exists() and not force:
        raise Conflict(f"{target} is there already; choose another name, or give --force to replace it")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", ignore_cleanup_errors=True) as folder:
            aside = Path(folder)
            at, schema = copy_database(database, aside / DATABASE, clock, progress)
            packed = aside / "packed"
            sources = {DATABASE: aside / DATABASE} | (_server_files(data_dir) if with_key else {})
            parts = _pack(packed, sources, at, schema, seal_key, progress)
            _publish(packed, target, force=force)
            sync_directory(target.parent)
            return BackupResult(target, parts, target.stat().st_size)
    except (OSError, apsw.Error) as error:
        raise StoreFailed(f"The backup {target} cannot be created: {error}. Nothing was left there") from error


def _server_files(data_dir: Path) -> dict[str, Path]:
    """The server's own files that exist."""
    return {name: data_dir / name for name in (SERVER_KEY, CONFIG) if (data_dir / name).is_file()}


def copy_database(source: Path, target: Path, clock: Clock, progress: Progress = silent) -> tuple[int, int]:
    """A copy that needs no write-ahead log; the moment of which it is, and the version of its schema."""
    with _opened(source, apsw.SQLITE_OPEN_READONLY) as reading:
        # A transaction has its state from its first read on, and the copy is of that state, however long it takes.
        reading.execute("BEGIN")
        at = clock()
        schema = int(reading.pragma("user_version"))
        list(reading.execute("SELECT count(*) FROM sqlite_schema"))
        with _opened(target, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) as writing:
            # It gets its name when it is whole, so nothing has to be undone or synced before.
            writing.pragma("synchronous", "off")
            writing.pragma("journal_mode", "off")
            with target.open("rb") as file, writing.backup("main", reading, "main") as copying:
                while not copying.step(PAGES):
                    _settle(file)
                    progress("copying", copying.page_count - copying.remaining, copying.page_count)
                progress("copying", copying.page_count, copying.page_count)
            writing.pragma("journal_mode", "delete")
    return at, schema


@contextmanager
def _opened(path: Path, flags: int) -> Generator[apsw.Connection]:
    connection = apsw.Connection(str(path.absolute()), flags=flags)
    try:
        connection.set_busy_timeout(BUSY_MS)
        yield connection
    finally:
        connection.close()


def _pack(
    target: Path, sources: dict[str, Path], at: int, schema: int, seal_key: bytes | None, progress: Progress
) -> BackupManifest:
    with create_private(target) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
            parts = tuple(_add(archive, file, name, path, progress) for name, path in sources.items())
            manifest = BackupManifest(format=FORMAT, agentvm=VERSION, schema=schema, at=at, parts=parts)
            if seal_key is not None:
                manifest = manifest.sealed(seal_key)
            archive.writestr(_entry(MANIFEST), msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        file.flush()
        os.fsync(file.fileno())
    return manifest


def _settle(file: BinaryIO) -> None:
    """Waits until the disk has the written bytes: else the server's commits would wait behind all of them at once."""
    file.flush()
    os.fsync(file.fileno())


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
    return entry


def _add(archive: zipfile.ZipFile, file: BinaryIO, name: str, path: Path, progress: Progress) -> Part:
    size, digest = path.stat().st_size, hashlib.sha256()
    entry = _entry(name)
    entry.file_size = size
    done = 0
    with path.open("rb") as reading, archive.open(entry, "w") as writing:
        while block := reading.read(BLOCK_BYTES):
            digest.update(block)
            writing.write(block)
            done += len(block)
            if done % SETTLED == 0:
                _settle(file)
            progress("packing", done, size)
    return Part(name=name, size=done, sha256=digest.hexdigest())


def create_private(path: Path) -> BinaryIO:
    """Creates a file that only its owner can read: it holds all conversations, and maybe the server key."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _publish(packed: Path, target: Path, *, force: bool) -> None:
    if force:
        os.replace(packed, target)
        return
    try:
        os.link(packed, target)
    except FileExistsError:
        raise Conflict(f"{target} was created by another program; choose another name, or give --force to replace it") from None
    except OSError:
        # Not every file system has hard links; there the two steps are not one.
        os.rename(packed, target)
