"""Restore — a backup back into a data directory: verified as a whole before anything is put in place.

A backup may be damaged, or be another file. It is unpacked into a folder of its own inside the data directory, so that putting
it in place is a matter of renames; only names, sizes and digests that its manifest gives are taken, and the database must pass
SQLite's own checks and have exactly the schema that the migrations make: an additional trigger would be foreign code in every
server that is started on it. Where there is a server key, the backup must have been made under it.
"""

import hashlib
import os
import shutil
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec

from agentvm.errors import Conflict, MigrationUnknown, NotFound, StoreFailed, shorten
from agentvm.errors.archive import BackupInvalid
from agentvm.storage.engines.sqlite.backup import (
    BLOCK_BYTES,
    FORMAT,
    MANIFEST,
    PARTS,
    SERVER_KEY,
    BackupManifest,
    Part,
    Progress,
    create_private,
    silent,
)
from agentvm.storage.engines.sqlite.datadir import DATABASE, LOCK_NAME, lock_data_dir
from agentvm.storage.engines.sqlite.migrations import distrust_schema, load_migrations, read_schema, schema_at
from agentvm.storage.engines.sqlite.placing import REPLACED, STAGED, make_stage, place, sync_directory

MANIFEST_BYTES_MAX = 64 * 1024
_FOREIGN = (
    "It was created with another server key, or was changed since. If you know where it comes from and that "
    "nobody could change it, give --trust"
)
_UNSEALED = (
    "Its authenticity cannot be verified: it was created without a server key. If you know where it comes from and that "
    "nobody could change it, give --trust"
)

_OWN = (LOCK_NAME, STAGED)
"""Names in a data directory that was never used."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError)
"""Errors of a ZIP file that is damaged, or made to mislead."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore; `replaced` is the folder with the files from before."""

    manifest: BackupManifest
    replaced: Path | None = None
    has_key: bool = True
    """Whether there is a server key now: with the backup, or from before."""
    is_authentic: bool = False
    """Whether the seal proves that the backup is unchanged since a server with the same key made it."""


def check_backup(
    path: Path, scratch: Path, progress: Progress = silent, *, seal_key: bytes | None = None, trust: bool = False
) -> BackupManifest:
    """Verifies a backup as a restore would, in a folder that is there for it, and puts nothing in place."""
    try:
        return _unpack(path, scratch, progress, seal_key, trust=trust)
    except (OSError, apsw.Error) as error:
        raise StoreFailed(f"The backup {path} cannot be unpacked: {error}") from error


def restore_backup(
    path: Path,
    data_dir: Path,
    *,
    force: bool = False,
    seal_key: bytes | None = None,
    trust: bool = False,
    progress: Progress = silent,
) -> Restored:
    """Puts the backup's files into the directory: all of them, or none. It takes a while: use a thread.

    With `seal_key` one that was not made under this key is refused, unless its origin is trusted anyway.

    `BackupInvalid` names its fault, `Conflict` that the directory is not empty, `DataDirInUse` that a server runs there,
    `MigrationUnknown` that a newer AgentVM made it.
    """
    if not path.is_file():
        raise NotFound(f"There is no backup {path}")
    # Before the lock: a file that is not a backup leaves nothing in the directory.
    _read_manifest(path, seal_key, trust=trust)
    with lock_data_dir(data_dir) as directory:
        if not force and (there := _used(directory)):
            raise Conflict(
                f"The data directory {directory} is not empty: there is {shorten(there)}. Choose another, or use --force to "
                "replace it; the replaced files are kept in a folder"
            )
        try:
            stage = make_stage(directory)
            try:
                manifest = _unpack(path, stage, progress, seal_key, trust=trust)
                sync_directory(stage)
                replaced = place(directory)
            finally:
                shutil.rmtree(stage, ignore_errors=True)
        except (OSError, apsw.Error) as error:
            raise StoreFailed(f"The backup {path} cannot be restored to {directory}: {error}") from error
        authentic = seal_key is not None and manifest.is_sealed(seal_key)
        return Restored(manifest, replaced, (directory / SERVER_KEY).exists(), authentic)


def _used(directory: Path) -> str | None:
    """The name of a file in the directory, if there is one."""
    names = sorted(path.name for path in directory.iterdir())
    return next((name for name in names if name not in _OWN and not name.startswith(REPLACED)), None)


def _unpack(path: Path, folder: Path, progress: Progress, seal_key: bytes | None, *, trust: bool) -> BackupManifest:
    manifest = _read_manifest(path, seal_key, trust=trust)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_room(folder, sum(part.size for part in manifest.parts))
            for part in manifest.parts:
                _extract(archive, part, folder / part.name, progress)
    except _DAMAGE as error:
        raise BackupInvalid(f"{path} is not a backup of AgentVM, or is damaged: {shorten(str(error))}") from None
    _check_database(folder / DATABASE, manifest, progress)
    return manifest


def _read_manifest(path: Path, seal_key: bytes | None, *, trust: bool) -> BackupManifest:
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(archive)
    except _DAMAGE as error:
        raise BackupInvalid(f"{path} is not a backup of AgentVM, or is damaged: {shorten(str(error))}") from None
    if seal_key is not None and not trust and not manifest.is_sealed(seal_key):
        raise BackupInvalid(_FOREIGN if manifest.seal is not None else _UNSEALED)
    return manifest


def _manifest(archive: zipfile.ZipFile) -> BackupManifest:
    names = [entry.filename for entry in archive.infolist()]
    if MANIFEST not in names:
        raise BackupInvalid(f"There is no {MANIFEST} in it: it is not a backup of AgentVM")
    with archive.open(MANIFEST) as file:
        body = file.read(MANIFEST_BYTES_MAX + 1)
    if len(body) > MANIFEST_BYTES_MAX:
        raise BackupInvalid(f"Its {MANIFEST} is too long to be one")
    try:
        raw = msgspec.json.decode(body)
        if isinstance(raw, dict) and raw.get("format") != FORMAT:
            stated = shorten(repr(raw.get("format")))
            raise BackupInvalid(f"The format of the backup is {stated}; this server reads only {FORMAT}: use a newer AgentVM")
        manifest = msgspec.convert(raw, type=BackupManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BackupInvalid(f"Its {MANIFEST} cannot be read: {shorten(str(error))}") from None
    part_names = [part.name for part in manifest.parts]
    if DATABASE not in part_names or len(set(part_names)) < len(part_names) or not set(part_names) <= set(PARTS):
        raise BackupInvalid(f"Its {MANIFEST} must name {DATABASE}, and besides at most {', '.join(PARTS[1:])}, each once")
    if sorted(names) != sorted((*part_names, MANIFEST)):
        raise BackupInvalid(f"Its files differ from those in its {MANIFEST}")
    return manifest


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StoreFailed(f"The backup needs {needed:,} bytes in {folder}, where {free:,} are free; make room and try again")


def _extract(archive: zipfile.ZipFile, part: Part, target: Path, progress: Progress) -> None:
    digest, done = hashlib.sha256(), 0
    with archive.open(part.name) as reading, create_private(target) as writing:
        # One byte more than it should have is enough to know; the rest is not unpacked.
        while block := reading.read(min(BLOCK_BYTES, part.size + 1 - done)):
            digest.update(block)
            writing.write(block)
            done += len(block)
            progress("unpacking", done, part.size)
            if done > part.size:
                break
        writing.flush()
        os.fsync(writing.fileno())
    if done != part.size or digest.hexdigest() != part.sha256:
        raise BackupInvalid(f"It is damaged: {part.name} differs from its {MANIFEST} ({done} bytes, or another digest)")


def _check_database(path: Path, manifest: BackupManifest, progress: Progress) -> None:
    progress("checking", 0, 1)
    expected = len(load_migrations())
    try:
        connection = apsw.Connection(str(path.absolute()), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            distrust_schema(connection)
            version = int(connection.pragma("user_version"))
            if version != manifest.schema or version < 1:
                raise BackupInvalid(f"Its database has schema version {version}, and its {MANIFEST} says {manifest.schema}")
            if version > expected:
                raise MigrationUnknown(
                    f"The backup has schema version {version}, but this AgentVM knows only versions up to {expected}. "
                    f"Restore it with AgentVM {shorten(manifest.agentvm)} or newer."
                )
            _check_schema(connection, version)
            _check_rows(connection)
        finally:
            connection.close()
    except apsw.Error as error:
        raise BackupInvalid(f"Its database is damaged: {error}") from None
    progress("checking", 1, 1)


def _check_schema(connection: apsw.Connection, version: int) -> None:
    present, expected = read_schema(connection), schema_at(version)
    for kind, name, *_ in sorted(present - expected, key=repr):
        raise BackupInvalid(
            f"Its database has been tampered with: the {kind} {shorten(name)!r} is not part of the schema of AgentVM"
        )
    for kind, name, *_ in sorted(expected - present, key=repr):
        raise BackupInvalid(f"Its database has been tampered with: the {kind} {name!r} is missing")


def _check_rows(connection: apsw.Connection) -> None:
    present = [str(line) for (line,) in connection.execute("PRAGMA integrity_check(1)")]
    if present != ["ok"]:
        raise BackupInvalid(f"Its database is damaged: {shorten(present[0])}")
    for table, *_ in connection.execute("PRAGMA foreign_key_check"):
        raise BackupInvalid(f"Its database is damaged: a row of {table} refers to one that is not there")
