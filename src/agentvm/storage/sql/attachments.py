"""AttachmentStore — the attachments of one container of one tenant.

Every statement that reads goes through the tenant and the container of this scope: a digest alone finds nothing. A large file
is written in several transactions, so that other commits can run in between; it belongs to no container until the last.
"""

import hashlib
import secrets
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import BinaryIO

import anyio
import anyio.to_thread

from agentvm.errors import ContainerNotFound, InvalidInput, StoreFailed
from agentvm.errors.attachment import AttachmentInUse
from agentvm.model.attachment import Attachment, reference_to
from agentvm.storage.attachments import CHUNK_BYTES, AttachmentPage, Upload
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import greater, total
from agentvm.storage.sql.places import read_place, write_place
from agentvm.storage.sql.records import Columns, Scope
from agentvm.storage.sql.rows import Key, is_present

PIECE_CHUNKS_MAX = 4
"""Chunks of one transaction."""
DROPPED_MAX = 100
"""Files that one commit drops."""
NOTED_MAX = 1_000
"""Files that one commit notes as unused, and uploads that it gives up."""
DROPPED_BYTES_MAX = 512 * 1024
"""Bytes of files that one commit deletes; a larger file is set aside and goes in slices."""

MAX_GIVEN_UP_BYTES = 256 * 1024 * 1024
"""Bytes of abandoned uploads that may wait for the next collection."""

_KEY_MAX = 2**62
GIVEN_UP_MS = 1
"""The creation time of a released blob: the next collection deletes it."""

IS_UNUSED = """
NOT EXISTS (SELECT 1 FROM attachments WHERE blob_key = ?1)
  AND NOT EXISTS (SELECT 1 FROM file_changes WHERE blob_key = ?1)
  AND NOT EXISTS (SELECT 1 FROM file_claims WHERE blob_key = ?1)
  AND NOT EXISTS (SELECT 1 FROM collection_documents WHERE blob_key = ?1)
"""
"""The condition that no row refers to the bytes `?1`."""

_ALL = "FROM attachments JOIN blobs USING (blob_key) WHERE tenant_id = ? AND container_id = ?"
_FROM = f"{_ALL} AND {is_present('attachments')}"
_ATTACHMENT = Columns(Attachment)
_COLUMNS = _ATTACHMENT.text
_GET = f"SELECT {_COLUMNS} {_FROM} AND digest = ?"
_LIST = f"SELECT attachment_key, {_COLUMNS} {_FROM} AND attachment_key < ? ORDER BY attachment_key DESC LIMIT ?"
_SIZE = f"SELECT size {_FROM} AND digest = ?"
_CHUNK = f"""
SELECT body FROM blob_chunks WHERE number = ? AND blob_key = (SELECT blob_key {_FROM} AND digest = ?)
"""
_HAS_CONTAINER = "SELECT 1 FROM containers WHERE tenant_id = ? AND container_id = ? AND deleted_at IS NULL"
_FIND_BLOB = "SELECT blob_key FROM blobs WHERE digest = ?"
_ADD_BLOB = "INSERT INTO blobs (digest, size, begun_at) VALUES (?, ?, ?) RETURNING blob_key"
# An upload that was given up may have lost chunks already.
_COMPLETE = f"UPDATE blobs SET digest = ?, begun_at = NULL WHERE digest = ? AND begun_at > {GIVEN_UP_MS}"
_OWNED = "SELECT 1 FROM attachments JOIN blobs USING (blob_key) WHERE digest = ? AND tenant_id = ? LIMIT 1"
_GIVE_UP = f"UPDATE blobs SET begun_at = {GIVEN_UP_MS} WHERE digest = ?"
_COMPLETE_KEY = f"UPDATE blobs SET digest = ?, begun_at = NULL WHERE blob_key = ? AND begun_at > {GIVEN_UP_MS}"
_GIVE_UP_KEY = f"UPDATE blobs SET begun_at = {GIVEN_UP_MS} WHERE blob_key = ? AND begun_at IS NOT NULL"
_ALL_GIVEN_UP = f"SELECT {total('size')} FROM blobs WHERE begun_at = {GIVEN_UP_MS}"
_GIVE_UP_OLD = f"""
UPDATE blobs SET begun_at = {GIVEN_UP_MS} WHERE blob_key IN (
    SELECT blob_key FROM blobs WHERE begun_at > {GIVEN_UP_MS} AND begun_at <= ? LIMIT {NOTED_MAX}
)
"""
# Under this name no upload finds it.
_SET_ASIDE = f"""
UPDATE blobs SET digest = 'erased:' || blob_key, begun_at = {GIVEN_UP_MS}
WHERE blob_key = ?1 AND {IS_UNUSED}
"""
_ASIDE = f"SELECT blob_key FROM blobs WHERE begun_at = {GIVEN_UP_MS} LIMIT 1"
_DROP_CHUNKS = "DELETE FROM blob_chunks WHERE position IN (SELECT position FROM blob_chunks WHERE blob_key = ? LIMIT ?)"
_SIZE_OF = "SELECT size FROM blobs WHERE blob_key = ?"
_ADD_CHUNK = "INSERT INTO blob_chunks (blob_key, number, body) VALUES (?, ?, ?)"
# Whoever uploads it again is about to use it; what a message refers to is used already.
_UPDATE = f"""
UPDATE attachments SET media_type = ?1, name = ?2, unused_since = {greater("?3", "unused_since")}, arrival_key = NULL
WHERE tenant_id = ?4 AND container_id = ?5 AND blob_key = ?6
"""
_ADD = """
INSERT INTO attachments (tenant_id, container_id, blob_key, media_type, name, created_at, uploaded_by, unused_since,
                         arrival_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, container_id, blob_key) DO NOTHING
"""
_CLAIM = f"""
UPDATE attachments SET unused_since = {greater("?1", "unused_since")}
WHERE tenant_id = ?2 AND container_id = ?3 AND blob_key = (SELECT blob_key FROM blobs WHERE digest = ?4)
  AND {is_present("attachments")}
"""
_LINK = f"INSERT INTO message_attachments (position, attachment_key) SELECT ?, attachment_key {_ALL} AND digest = ?"
_KEYS = f"""
SELECT attachment_key, blob_key,
       EXISTS (SELECT 1 FROM message_attachments AS m WHERE m.attachment_key = attachments.attachment_key)
{_FROM} AND digest = ?
"""
_DELETE = "DELETE FROM attachments WHERE attachment_key = ?"
_DROP_BLOB = f"DELETE FROM blobs WHERE blob_key = ?1 AND {IS_UNUSED}"
# The triggers keep `unused_since` right; that nothing refers to it is asked once more, because what goes does not come back.
_RIPE = """
SELECT attachment_key, blob_key, size FROM attachments JOIN blobs USING (blob_key)
WHERE unused_since BETWEEN 1 AND ?
  AND NOT EXISTS (SELECT 1 FROM message_attachments AS m WHERE m.attachment_key = attachments.attachment_key)
ORDER BY unused_since LIMIT ?
"""
_NOTE = f"""
UPDATE attachments SET unused_since = ?
WHERE attachment_key IN (SELECT attachment_key FROM attachments WHERE unused_since = 0 LIMIT {NOTED_MAX})
"""
_ARRIVING = "SELECT attachment_key, blob_key FROM attachments WHERE arrival_key = ? LIMIT ?"


class AttachmentStore(Scope):
    """The attachments of one container of one tenant."""

    def __init__(self, database: Database, key: Key) -> None:
        super().__init__(database)
        self._key = key

    async def add(self, file: BinaryIO, upload: Upload, now: int) -> tuple[Attachment, bool]:
        """Stores all of the file; whether the container did not have it before. The last name and type apply.

        `InvalidInput` for an empty file, `ContainerNotFound` when there is no such container.
        """
        digest, size = await anyio.to_thread.run_sync(measure_file, file)
        if not size:
            raise InvalidInput("An attachment must not be empty")

        begun = await self._put_aside(file, digest, size, now)

        def write(connection: Connection) -> tuple[Attachment, bool]:
            if not connection.fetch(_HAS_CONTAINER, self._key):
                raise ContainerNotFound(self._key[1])
            if begun is not None and not connection.fetch(_FIND_BLOB, (digest,)):
                connection.execute(_COMPLETE, (digest, begun))
            new = attach(connection, self._key, digest, size, _chunks(file), upload, now)
            return _ATTACHMENT.decode(connection.fetch(_GET, (*self._key, digest))[0]), new

        try:
            return await self._database.write(write)
        finally:
            if begun is not None:
                # Somebody else's was there first, or it was refused. What is left of it is collected, as after a crash: to
                # delete it here would take the longer, the more of it there is, and tell that another has the same.
                with anyio.CancelScope(shield=True):
                    await self._database.write(lambda connection: connection.execute(_GIVE_UP, (begun,)))

    async def _put_aside(self, file: BinaryIO, digest: str, size: int, now: int) -> str | None:
        """The key of its bytes, to which no row refers yet; None when the tenant has them, or the container is gone.

        Bytes that only other containers have are written as well and discarded at the end, so that the duration of an upload
        does not reveal whether another container has the file.
        """

        def begin(connection: Connection) -> str | None:
            if connection.fetch(_OWNED, (digest, self._key[0])) or not connection.fetch(_HAS_CONTAINER, self._key):
                return None
            name = f"upload:{secrets.token_hex(16)}"
            connection.fetch(_ADD_BLOB, (name, size, max(now, GIVEN_UP_MS + 1)))
            return name

        begun = await self._database.write(begin)
        if begun is not None:
            if await self._database.read(is_crowded):
                await drop_released(self._database)
            for first in range(0, -(-size // CHUNK_BYTES), PIECE_CHUNKS_MAX):
                await self._database.write(partial(_add_piece, file=file, name=begun, first=first))
        return begun

    async def get(self, digest: str) -> Attachment | None:
        return await self._first(_ATTACHMENT.decode, _GET, (*self._key, digest))

    async def list(self, *, after: str | None = None, limit: int = 100) -> AttachmentPage:
        """`InvalidInput` for an `after` that is no `next`."""
        place = _KEY_MAX if after is None else read_place(after, tuple[int])[0]

        def read(connection: Connection) -> AttachmentPage:
            rows = connection.fetch(_LIST, (*self._key, place, limit + 1))
            more = write_place(rows[limit - 1][0]) if len(rows) > limit else None
            return AttachmentPage(tuple(_ATTACHMENT.decode(row) for _, *row in rows[:limit]), more)

        return await self._database.read(read)

    async def sizes(self, digests: Collection[str]) -> dict[str, int]:
        """How many bytes each has; those that the container does not have are left out."""

        def read(connection: Connection) -> dict[str, int]:
            return {digest: size for digest in digests for (size,) in connection.fetch(_SIZE, (*self._key, digest))}

        return await self._database.read(read)

    async def claim(self, digests: Collection[str], now: int) -> frozenset[str]:
        """Returns the digests that the container has. `Store.collect` spares them for a grace from now."""

        def write(connection: Connection) -> frozenset[str]:
            claimed = (digest for digest in digests if connection.execute(_CLAIM, (max(now, 1), *self._key, digest)))
            return frozenset(claimed)

        return await self._database.write(write)

    async def read(self, digest: str, number: int) -> bytes | None:
        """The chunk of that number, from 0; empty beyond the last. None when the container does not have the attachment.

        Each chunk but the last has `CHUNK_BYTES` bytes.
        """

        def read(connection: Connection) -> bytes | None:
            for (body,) in connection.fetch(_CHUNK, (number, *self._key, digest)):
                return bytes(body)
            return b"" if connection.fetch(_SIZE, (*self._key, digest)) else None

        return await self._database.read(read)

    async def delete(self, digest: str) -> bool:
        """Whether there was such an attachment. `AttachmentInUse` while a message refers to it, also a rewound one."""

        def write(connection: Connection) -> bool:
            rows = connection.fetch(_KEYS, (*self._key, digest))
            for attachment_key, blob_key, used in rows:
                if used:
                    raise AttachmentInUse(
                        f"A message refers to {reference_to(digest)}; it is deleted with the last such message"
                    )
                _drop(connection, attachment_key, blob_key)
            return bool(rows)

        deleted = await self._database.write(write)
        await drop_released(self._database)
        return deleted


def attach(connection: Connection, key: Key, digest: str, size: int, chunks: Iterator[bytes], upload: Upload, now: int) -> bool:
    """Whether the container did not have it. The chunks, which must be those of the digest, are stored only if they are new."""
    blob_key = put_blob(connection, digest, size, chunks)
    # 0 means something else.
    since = max(now, 1)
    if connection.execute(_UPDATE, (upload.media_type, upload.name, since, *key, blob_key)):
        return False
    connection.execute(_ADD, (*key, blob_key, upload.media_type, upload.name, now, upload.uploaded_by, since, None))
    return True


def attach_arriving(
    connection: Connection, key: Key, blob: tuple[str, int, Iterator[bytes]], upload: Upload, now: int, arrival_key: int
) -> None:
    """Adds an attachment of an arrival, unless the container has it: then that one stays as it is."""
    blob_key = put_blob(connection, *blob)
    row = (*key, blob_key, upload.media_type, upload.name, now, upload.uploaded_by, max(now, 1), arrival_key)
    connection.execute(_ADD, row)


def drop_arriving_attachments(connection: Connection, arrival_key: int) -> bool:
    """Deletes some attachments of an arrival that is given up; whether there were any."""
    dropped = connection.fetch(_ARRIVING, (arrival_key, DROPPED_MAX))
    for attachment_key, blob_key in dropped:
        _drop(connection, attachment_key, blob_key)
    return bool(dropped)


def put_blob(connection: Connection, digest: str, size: int, chunks: Iterator[bytes]) -> int:
    """The key of the bytes; the chunks are stored only if they are new."""
    for (blob_key,) in connection.fetch(_FIND_BLOB, (digest,)):
        return int(blob_key)
    blob_key = int(connection.fetch(_ADD_BLOB, (digest, size, None))[0][0])
    connection.many(_ADD_CHUNK, ((blob_key, number, chunk) for number, chunk in enumerate(chunks)))
    return blob_key


def begin_blob(connection: Connection, size: int, now: int) -> int:
    """The key of bytes that are still being uploaded and belong to no container yet."""
    name = f"upload:{secrets.token_hex(16)}"
    return int(connection.fetch(_ADD_BLOB, (name, size, max(now, GIVEN_UP_MS + 1)))[0][0])


def add_chunks(connection: Connection, blob_key: int, first: int, chunks: Sequence[bytes]) -> None:
    """Some of the bytes that were begun."""
    connection.many(_ADD_CHUNK, ((blob_key, first + number, chunk) for number, chunk in enumerate(chunks)))


def complete_blob(connection: Connection, blob_key: int, digest: str) -> None:
    """All of the bytes have come. If the same bytes were stored in the meantime, those are kept; abandoned uploads are
    deleted."""
    if connection.fetch(_FIND_BLOB, (digest,)):
        release_blob(connection, blob_key)
    else:
        connection.execute(_COMPLETE_KEY, (digest, blob_key))


def release_blob(connection: Connection, blob_key: int) -> None:
    connection.execute(_GIVE_UP_KEY, (blob_key,))


def link(connection: Connection, key: Key, position: int, digests: Sequence[str]) -> None:
    """A message refers to them. One that was deleted in the meantime is skipped: readers of the message get a note."""
    connection.many(_LINK, ((position, *key, digest) for digest in digests))


def collect_attachments(connection: Connection, now: int, grace: int) -> int:
    """See `Store.collect`. Dropping comes first, so that nothing is noted and dropped by one call."""
    connection.execute(_GIVE_UP_OLD, (now - grace,))
    dropped = freed = 0
    for attachment_key, blob_key, _ in connection.fetch(_RIPE, (now - grace, DROPPED_MAX)):
        freed += _drop(connection, attachment_key, blob_key)
        dropped += 1
        if freed >= DROPPED_BYTES_MAX:
            break
    connection.execute(_NOTE, (now,))
    return dropped


async def drop_released(database: Database) -> None:
    """Deletes the bytes that nothing refers to any more, a slice in each commit."""
    while await database.write(drop_abandoned_slice):
        pass


def drop_abandoned_slice(connection: Connection) -> bool:
    """Deletes some bytes of a file that was set aside, or of an upload that was given up; whether there was one."""
    for (blob_key,) in connection.fetch(_ASIDE):
        if not connection.execute(_DROP_CHUNKS, (blob_key, max(1, DROPPED_BYTES_MAX // CHUNK_BYTES))):
            connection.execute(_DROP_BLOB, (blob_key,))
        return True
    return False


def drop_blob(connection: Connection, blob_key: int) -> int:
    """Deletes the unreferenced bytes of a file, or sets them aside if they are many; returns the number of deleted bytes."""
    size: int = connection.fetch(_SIZE_OF, (blob_key,))[0][0]
    if size > DROPPED_BYTES_MAX:
        connection.execute(_SET_ASIDE, (blob_key,))
        return 0
    return size if connection.execute(_DROP_BLOB, (blob_key,)) else 0


def is_crowded(connection: Connection) -> bool:
    """Whether so many bytes of abandoned uploads wait that they are to be dropped at once."""
    given_up: int = connection.fetch(_ALL_GIVEN_UP)[0][0]
    return given_up > MAX_GIVEN_UP_BYTES


def _drop(connection: Connection, attachment_key: int, blob_key: int) -> int:
    connection.execute(_DELETE, (attachment_key,))
    # Nobody can be about to use it: an upload brings its bytes along, in one transaction.
    return drop_blob(connection, blob_key)


def _add_piece(connection: Connection, *, file: BinaryIO, name: str, first: int) -> None:
    """Adds some chunks, unless the upload took longer than any grace: then the last transaction brings all of them."""
    for (blob_key,) in connection.fetch(_FIND_BLOB, (name,)):
        file.seek(first * CHUNK_BYTES)
        for number in range(first, first + PIECE_CHUNKS_MAX):
            if chunk := _read(file):
                connection.execute(_ADD_CHUNK, (blob_key, number, chunk))


def measure_file(file: BinaryIO) -> tuple[str, int]:
    """Returns the digest and the size of a file."""
    digest, size = hashlib.sha256(), 0
    for chunk in _chunks(file):
        digest.update(chunk)
        size += len(chunk)
    return f"sha256:{digest.hexdigest()}", size


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yields the chunks from the beginning of the file on each call: a write may be run again."""
    file.seek(0)
    while chunk := _read(file):
        yield chunk


def _read(file: BinaryIO) -> bytes:
    """A file that cannot be read is its uploader's trouble alone, and not the writer's."""
    try:
        return file.read(CHUNK_BYTES)
    except OSError as error:
        raise StoreFailed(f"The upload cannot be read again: {error}; try again") from error


async def read_all(store: AttachmentStore, digest: str) -> bytes | None:
    """Returns all bytes; None when the attachment is missing, or deleted in the meantime."""
    chunks: list[bytes] = []
    while chunk := await store.read(digest, len(chunks)):
        chunks.append(chunk)
        if len(chunk) < CHUNK_BYTES:
            break
    return None if chunk is None else b"".join(chunks)
