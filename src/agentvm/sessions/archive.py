"""Archive — images and sessions in one file, format 1 to 4, and how it is written while it is read.

A ZIP of `images.jsonl`, of `containers.jsonl`, of `sessions/<number>.jsonl` for each session, of `blobs/sha256/<hex>` for each
binary part, and of `manifest.json`, which comes last because it has the size and the digest of all the others. A ZIP, since its
members may be written without knowing their sizes before, so an archive of any size is sent as it is made. The same sessions
give the same bytes: nothing of the server, the user or the time is in it. Format 2 knows attachments, format 3 files of
sessions, format 4 memories, schedules and triggers; an archive without any is of format 1, so that older servers read it.
"""

import hashlib
import re
import zipfile
from typing import Final, Literal, get_args

import msgspec

from agentvm.errors.archive import ArchiveTooLarge
from agentvm.model.base import Record
from agentvm.sessions.bounds import MAX_MESSAGE_BYTES

ExportFormat = Literal["archive", "markdown", "html"]
ArchiveFormat = Literal[1, 2, 3, 4]
FORMATS: Final = get_args(ArchiveFormat)
KIND: Final = "agentvm.sessions"

ARCHIVE_MAX_BYTES = 512 * 1024 * 1024
"""Maximum size of the file."""
MAX_RATIO = 200
"""Maximum compression ratio, beyond `SMALL_UNPACKED_BYTES`."""
SMALL_UNPACKED_BYTES = 100 * 1024 * 1024
"""Unpacked bytes that any file may have: conversations can be as repetitive as a decompression bomb."""
MAX_FILES = 60_000
LINE_MAX_BYTES = MAX_MESSAGE_BYTES + 64 * 1024
BLOB_MAX_BYTES = 100 * 1024 * 1024
MANIFEST_MAX_BYTES = 16 * 1024 * 1024

MANIFEST = "manifest.json"
IMAGES = "images.jsonl"
CONTAINERS = "containers.jsonl"
"""Memories, schedules and triggers; only in format 4."""
BLOBS = "blobs/sha256/"
NAME = re.compile(r"manifest\.json|(?:images|containers)\.jsonl|sessions/[0-9]{6}\.jsonl|blobs/sha256/[0-9a-f]{64}")

_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEVEL = 6


class File(Record, forbid_unknown_fields=True):
    name: str
    size: int
    sha256: str


class Counts(Record, forbid_unknown_fields=True, omit_defaults=False):
    images: int = 0
    sessions: int = 0
    messages: int = 0
    turns: int = 0
    blobs: int = 0


class ImportCounts(Counts, forbid_unknown_fields=True, omit_defaults=False):
    """Counts of an import. A manifest does not have the last three, so that older servers read it."""

    memories: int = 0
    schedules: int = 0
    triggers: int = 0


class ArchiveManifest(Record, forbid_unknown_fields=True, omit_defaults=False):
    """The `manifest.json`. `files` are in the order in which they are in the archive."""

    format: ArchiveFormat
    kind: Literal["agentvm.sessions"]
    counts: Counts
    files: tuple[File, ...]


def unpacked_max(packed: int, most_bytes: int) -> int:
    """Returns the maximum of unpacked bytes of a file of that size."""
    return min(most_bytes, max(SMALL_UNPACKED_BYTES, MAX_RATIO * packed))


def session_file(number: int) -> str:
    return f"sessions/{number:06}.jsonl"


class ZipSink:
    """The output of the ZIP, which cannot seek, like a socket."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        body, self._parts = b"".join(self._parts), []
        return body


class ArchiveWriter:
    """Writes members one after the other; `take` returns the bytes so far."""

    def __init__(self) -> None:
        self._sink = ZipSink()
        self._zip = zipfile.ZipFile(self._sink, "w", allowZip64=False)  # type: ignore[call-overload]  # It needs no more.
        self._files: list[File] = []

    def write(self, name: str, *, stored: bool = False) -> "MemberWriter":
        if len(self._files) >= MAX_FILES - 1:
            raise ArchiveTooLarge(f"An archive has at most {MAX_FILES:,} files; export the containers one by one")
        return MemberWriter(self._zip, name, self._files, stored=stored)

    def finish(self, counts: Counts, number: ArchiveFormat = 1) -> None:
        manifest = ArchiveManifest(format=number, kind=KIND, counts=counts, files=tuple(self._files))
        with MemberWriter(self._zip, MANIFEST, []) as member:
            member.add(msgspec.json.encode(manifest))
        self._zip.close()

    def take(self) -> bytes:
        return self._sink.take()


class MemberWriter:
    """One member, while it is written."""

    def __init__(self, archive: zipfile.ZipFile, name: str, files: list[File], *, stored: bool = False) -> None:
        entry = zipfile.ZipInfo(name, _EPOCH)
        entry.external_attr = 0o644 << 16
        entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
        # Python 3.13 gave it its public name; the one before has none.
        entry._compresslevel = _LEVEL  # type: ignore[attr-defined]
        self._file = archive.open(entry, "w")
        self._name, self._files = name, files
        self._digest, self._size = hashlib.sha256(), 0

    def add(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)
        self._file.write(data)

    def __enter__(self) -> "MemberWriter":
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()
        self._files.append(File(name=self._name, size=self._size, sha256=self._digest.hexdigest()))
