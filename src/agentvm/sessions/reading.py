"""Reading — reads an untrusted archive: validated completely before anything is built from it.

It is never unpacked onto the disk under a name of its own choosing. Members have the names of the format, each once, and match
the manifest; nothing beyond a bound is unpacked. Errors say where: the file, the line, the member.
"""

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

import msgspec

from agentvm.errors import InvalidInput, shorten
from agentvm.errors.archive import ArchiveInvalid, ArchiveTooLarge
from agentvm.model.attachment import check_media_type, check_name
from agentvm.model.definition import snapshot_of
from agentvm.model.image import Image
from agentvm.sessions import line
from agentvm.sessions.archive import (
    ARCHIVE_MAX_BYTES,
    BLOB_MAX_BYTES,
    BLOBS,
    CONTAINERS,
    FORMATS,
    IMAGES,
    LINE_MAX_BYTES,
    MANIFEST,
    MANIFEST_MAX_BYTES,
    MAX_FILES,
    NAME,
    ArchiveManifest,
    File,
    session_file,
    unpacked_max,
)
from agentvm.sessions.bounds import MAX_HEAD_VALUES, MAX_IMPORT_BYTES, MAX_MESSAGE_BYTES, count_values
from agentvm.sessions.container_lines import to_item
from agentvm.sessions.line import Unfit
from agentvm.sessions.spool import Heads, Spool
from agentvm.storage.attachments import Upload

CONVERSATIONS = "conversations.json"
"""The member of the ZIP in which other programs export."""
_END = struct.Struct("<4s4H2LH")
_ENTRY_MAX_BYTES = 46 + 128
"""Bytes of an entry of the directory, with a name of ours."""
UNPACKING = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    struct.error,
    OverflowError,
)
"""Errors of the ZIP reader for a damaged or malicious file."""


def invalid(why: str, file: str | None = None, number: int | None = None, member: str | None = None) -> ArchiveInvalid:
    """With the place of the error, for people and for programs."""
    place = "" if file is None else f"{file}{'' if number is None else f', line {number}'}: "
    details = {"file": file, "line": number, "member": member}
    return ArchiveInvalid(
        f"The archive is refused, and nothing was written. {place}{why}",
        details={name: value for name, value in details.items() if value is not None},
    )


class _AnyManifest(msgspec.Struct):
    """The format field of any manifest."""

    format: object = None


def is_archive(file: BinaryIO) -> bool:
    """Whether it should be read as an archive of ours: a ZIP, damaged or not, that is no export of another program."""
    file.seek(0)
    if not file.read(4).startswith(b"PK"):
        return False
    try:
        with zipfile.ZipFile(file) as archive:
            return MANIFEST in archive.namelist() or CONVERSATIONS not in archive.namelist()
    except UNPACKING:
        return True


def read_archive(file: BinaryIO, spool: Spool, most_attached: int = BLOB_MAX_BYTES, most_bytes: int = MAX_IMPORT_BYTES) -> None:
    """Puts all that is in the archive on the spool. It takes a while.

    `most_attached` are the bytes that an attachment may have here, `most_bytes` those that all of it may become.

    `ArchiveInvalid` or `ArchiveTooLarge` for anything but a whole and sound one.
    """
    try:
        _check_end(file)
        most = unpacked_max(_size(file), most_bytes)
        with zipfile.ZipFile(file) as archive:
            _Reader(archive, spool, most_attached, most).read()
    except UNPACKING as error:
        raise invalid(f"It is not an archive of sessions, or is damaged: {shorten(str(error))}") from None


def _upload(media_type: object, name: object) -> Upload:
    """Returns the properties of an attachment; invalid ones, which messages may have, are left out."""
    try:
        kind = check_media_type(str(media_type))
    except InvalidInput:
        kind = "application/octet-stream"
    try:
        return Upload(media_type=kind, name=check_name(name if isinstance(name, str) else None))
    except InvalidInput:
        return Upload(media_type=kind)


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _check_end(file: BinaryIO) -> None:
    """Before the directory is read: a general reader takes as much memory as it says."""
    size = _size(file)
    if size > ARCHIVE_MAX_BYTES:
        raise ArchiveTooLarge(f"The archive has {size:,} bytes, and may have {ARCHIVE_MAX_BYTES:,}")
    if size < _END.size:
        raise invalid("It is not an archive of sessions: it is too short")
    file.seek(size - _END.size)
    magic, _, _, here, entries, length, _, comment = _END.unpack(file.read(_END.size))
    if magic != b"PK\x05\x06" or comment:
        raise invalid("It is not an archive of sessions, or is truncated: the end of the ZIP is missing")
    if entries != here or entries > MAX_FILES or length > MAX_FILES * _ENTRY_MAX_BYTES:
        raise ArchiveTooLarge(f"The archive has more than {MAX_FILES:,} files")
    file.seek(0)


class _Reader:
    """One archive while it is read."""

    def __init__(self, archive: zipfile.ZipFile, spool: Spool, most_attached: int, most_bytes: int) -> None:
        self._archive = archive
        self._spool = spool
        self._most_attached = most_attached
        self._attach: line.Attach | None = None
        self._has_files = False
        self._most_bytes = self._left = most_bytes
        self._blobs: dict[str, File] = {}
        self._used: set[str] = set()

    def read(self) -> None:
        self._check_members()
        manifest = self._manifest()
        self._attach = self._add_attachment if manifest.format > 1 else None
        self._has_files = manifest.format > 2
        files = {file.name: file for file in manifest.files}
        self._blobs = {f"sha256:{name.removeprefix(BLOBS)}": file for name, file in files.items() if name.startswith(BLOBS)}
        besides = [CONTAINERS] if manifest.format > 3 else []
        sessions = [session_file(number) for number in range(1, manifest.counts.sessions + 1)]
        if [name for name in files if not name.startswith(BLOBS)] != [IMAGES, *besides, *sessions]:
            expected = " and ".join((IMAGES, *besides))
            raise invalid(f"the files must be {expected} and the sessions in order", MANIFEST, member="files")
        images = list(self._images(files[IMAGES]))
        waiting: dict[str, Image] = {image.image_id: image for image in images}
        if len(waiting) < len(images):
            raise invalid("an image is there twice", IMAGES, member="image.imageId")
        for name in sessions:
            self._session(files[name], waiting)
        for image in waiting.values():
            # Those without a session, which the spool refuses.
            self._place(IMAGES, None, self._spool.add_image, image)
        for name in besides:
            self._items(files[name])
        if unused := sorted(self._blobs.keys() - self._used):
            raise invalid(f"The blob {unused[0]} belongs to nothing", BLOBS + unused[0].removeprefix("sha256:"))
        self._place(IMAGES, None, lambda _: self._spool.check(), None)
        self._spool.counts = msgspec.structs.replace(self._spool.counts, blobs=len(self._blobs))
        if manifest.counts != self._spool.counts:
            raise invalid("the counts do not match the content", MANIFEST, member="counts")

    def _check_members(self) -> None:
        seen: set[str] = set()
        for entry in self._archive.infolist():
            name = shorten(entry.filename)
            if not NAME.fullmatch(entry.filename):
                raise invalid(f"{name!r} does not belong in an archive of sessions")
            if entry.filename in seen:
                raise invalid(f"{name} is there twice")
            seen.add(entry.filename)
            if not (stat.S_ISREG(mode := entry.external_attr >> 16) or stat.S_IFMT(mode) == 0):
                raise invalid(f"{name} is not a plain file")
            if entry.flag_bits & 0x41:
                raise invalid(f"{name} is encrypted")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise invalid(f"{name} has an unsupported compression")

    def _manifest(self) -> ArchiveManifest:
        if MANIFEST not in self._archive.namelist():
            raise invalid(f"There is no {MANIFEST} in it")
        with self._archive.open(MANIFEST) as member:
            body = member.read(MANIFEST_MAX_BYTES + 1)
        if len(body) > MANIFEST_MAX_BYTES:
            raise ArchiveTooLarge(f"{MANIFEST} has more than {MANIFEST_MAX_BYTES:,} bytes")
        try:
            count_values(body, MAX_HEAD_VALUES)
            format = msgspec.json.decode(body, type=_AnyManifest).format
            if format not in FORMATS:
                problem = f"the format is {shorten(repr(format))}; this server reads 1 to {max(FORMATS)}"
                raise invalid(f"{problem}: use a newer AgentVM", MANIFEST)
            manifest = msgspec.json.decode(body, type=ArchiveManifest)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise invalid(f"it cannot be read: {shorten(str(error))}", MANIFEST) from None
        there = [entry.filename for entry in self._archive.infolist()]
        if [*(file.name for file in manifest.files), MANIFEST] != there:
            raise invalid("its files are not those of the archive, or in another order", MANIFEST, member="files")
        return manifest

    def _images(self, file: File) -> Iterator[Image]:
        heads = Heads()
        for number, body in self._lines(file):
            heads.add(body)
            kind, record = self._place(file.name, number, line.read_line, body)
            if kind != "image":
                raise invalid(f"only images are allowed here, not {shorten(kind)}", file.name, number, "type")
            image: Image = self._place(file.name, number, line.to_image, record)
            if snapshot_of(image.definition)[0] != image.digest:
                raise invalid("the digest does not match the definition", file.name, number, "image.digest")
            yield image

    def _session(self, file: File, waiting: dict[str, Image]) -> None:
        session = None
        for number, body in self._lines(file):
            kind, record = self._place(file.name, number, line.read_line, body)
            if (kind == "session") != (session is None):
                raise invalid("the first line must be the session, and no other", file.name, number, "type")
            if session is None:
                image = self._image_of(record, waiting, file.name)
                session = self._place(file.name, number, partial(line.to_session, container_id=image.container_id), record)
                self._place(file.name, number, self._spool.add_session, session)
            elif kind == "turn":
                turn = self._place(file.name, number, partial(line.to_turn, session=session), record)
                self._place(file.name, number, self._spool.add_turn, turn)
            elif kind == "message":
                message = self._place(file.name, number, partial(line.to_message, blob=self._blob, attach=self._attach), record)
                self._place(file.name, number, self._spool.add_message, message)
            elif kind == "file" and self._has_files:
                change = self._place(file.name, number, line.to_file, record)
                self._place(file.name, number, partial(self._spool.add_change, read=self._blob_of_file), change)
            else:
                raise invalid(f"unknown type: {shorten(kind)}", file.name, number, "type")
        if session is None:
            raise invalid("the session is missing", file.name)

    def _items(self, file: File) -> None:
        """Puts memories, schedules and triggers on the spool."""
        for number, body in self._lines(file):
            kind, record = self._place(file.name, number, line.read_line, body)
            item = self._place(file.name, number, partial(to_item, kind), record)
            self._place(file.name, number, partial(self._spool.add_item, item), body)

    def _image_of(self, data: line.Json, waiting: dict[str, Image], file: str) -> Image:
        """The session's image, put on the spool before it if it is the first."""
        image_id = data.get("imageId")
        if not isinstance(image_id, str):
            raise invalid("imageId is missing", file, 1, "session.imageId")
        if image_id in waiting:
            image = waiting.pop(image_id)
            self._place(file, 1, self._spool.add_image, image)
        staged_image = self._spool.images.get(image_id)
        if staged_image is None:
            raise invalid(f"its image {shorten(image_id)} is not in {IMAGES}", file, 1, "session.imageId")
        return staged_image

    def _place(self, file: str, number: int | None, work: Any, value: object) -> Any:
        try:
            return work(value)
        except Unfit as error:
            raise invalid(str(error), file, number, error.member) from None
        except ArchiveTooLarge as error:
            if error.details:
                raise
            place = file if number is None else f"{file}, line {number}"
            details: dict[str, object] = {"file": file} if number is None else {"file": file, "line": number}
            raise ArchiveTooLarge(f"{place}: {error}", details=details) from None
        except InvalidInput as error:
            if isinstance(error, ArchiveInvalid):
                raise
            raise invalid(str(error), file, number) from None

    def _lines(self, file: File) -> Iterator[tuple[int, bytes]]:
        digest, size, number = hashlib.sha256(), 0, 0
        with self._archive.open(file.name) as member:
            while body := member.readline(LINE_MAX_BYTES + 1):
                number += 1
                size += len(body)
                self._spend(len(body))
                if len(body) > LINE_MAX_BYTES:
                    raise ArchiveTooLarge(f"{file.name}, line {number} has more than {LINE_MAX_BYTES:,} bytes")
                if size > file.size:
                    break
                digest.update(body)
                if not body.endswith(b"\n"):
                    raise invalid("the line has no line break", file.name, number)
                yield number, body
        if size != file.size or digest.hexdigest() != file.sha256:
            raise invalid("it is damaged: its size or digest is not that of the manifest", file.name)

    def _blob(self, digest: str, most: int = MAX_MESSAGE_BYTES) -> bytes:
        file = self._blobs.get(digest)
        if file is None:
            raise Unfit(f"the blob {shorten(digest)} is not there", "message.content")
        if file.size > most:
            raise ArchiveTooLarge(f"{file.name} has {file.size:,} bytes, and may have {most:,}")
        self._spend(file.size)
        with self._archive.open(file.name) as member:
            body = member.read(file.size + 1)
        if len(body) != file.size or line.digest_of(body) != digest or f"sha256:{file.sha256}" != digest:
            raise invalid("it is damaged: its size or digest is not that of the manifest", file.name)
        self._used.add(digest)
        return body

    def _blob_of_file(self, digest: str) -> bytes:
        return self._blob(digest, most=BLOB_MAX_BYTES)

    def _add_attachment(self, digest: str, media_type: object, name: object) -> None:
        file = self._blobs.get(digest)
        if file is not None and file.size > self._most_attached:
            raise ArchiveTooLarge(
                f"{file.name} has {file.size:,} bytes, and an attachment may have {self._most_attached:,} "
                "(limits.attachmentBytes); nothing was written",
                details={"file": file.name},
            )
        if file is not None and not file.size:
            raise Unfit("an attachment must not be empty", "message.content")
        self._spool.add_attachment(digest, _upload(media_type, name), partial(self._blob, most=self._most_attached))

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ArchiveTooLarge(
                f"The archive has more than {self._most_bytes:,} bytes unpacked, which is more than an import may have "
                "(limits.importBytes), or more than a file of its size; export the containers one by one"
            )
