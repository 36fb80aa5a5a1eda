"""CollectionStore — the collections of one tenant: documents that change, each change a revision with a number.

The bytes are in `blobs`, shared by all owners of the same file; an upload always writes them, so it does not reveal other
owners. Deletion takes precedence over revisions: a deleted document leaves all of them at once, and its data is deleted in
slices.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO

import anyio
import anyio.to_thread

from agentvm.errors import Conflict, InvalidInput, StoreFailed, not_found
from agentvm.model.collection import (
    COLLECTION_MAX_BYTES,
    COLLECTIONS_MAX,
    DOCUMENTS_MAX,
    Collection,
    CollectionDocument,
    CollectionUsage,
)
from agentvm.storage.attachments import CHUNK_BYTES
from agentvm.storage.sql.attachments import (
    DROPPED_BYTES_MAX,
    PIECE_CHUNKS_MAX,
    add_chunks,
    begin_blob,
    complete_blob,
    drop_blob,
    drop_released,
    is_crowded,
    measure_file,
    release_blob,
)
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import total
from agentvm.storage.sql.records import Columns, TenantScope
from agentvm.storage.sql.rows import note_traces, refuse_deleted

TIDIED_MAX = 100
"""Passages or documents that one commit drops."""
ERASED = "erased:"
"""The names of collections that are being erased begin with this; no other can."""

_COLLECTION, _DOCUMENT = Columns(Collection), Columns(CollectionDocument)
_ADD = "INSERT INTO collections (tenant_id, collection_id, revision, oldest, created_at, updated_at) VALUES (?, ?, 0, 0, ?, ?)"
_COUNT = f"SELECT count(*) FROM collections WHERE tenant_id = ? AND collection_id NOT LIKE '{ERASED}%'"
_LIST = f"""
SELECT {_COLLECTION.text} FROM collections WHERE tenant_id = ? AND collection_id NOT LIKE '{ERASED}%' ORDER BY collection_id
"""
_GET = f"SELECT {_COLLECTION.text} FROM collections WHERE tenant_id = ? AND collection_id = ?"
_KEY = "SELECT collection_key, revision FROM collections WHERE tenant_id = ? AND collection_id = ?"
_NEXT = "UPDATE collections SET revision = revision + 1, updated_at = ? WHERE collection_key = ? RETURNING revision"
_OF = """
FROM collection_documents AS d JOIN collections AS c USING (collection_key) WHERE c.tenant_id = ?1 AND c.collection_id = ?2
"""
_USAGE = f"""
SELECT {total("d.size")}, count(CASE WHEN d.removed_in IS NULL THEN 1 END), count(*) {_OF} AND d.deleted_at IS NULL
"""
_COLUMNS = _DOCUMENT.select("d.")
_CURRENT = f"SELECT {_COLUMNS} {_OF} AND d.document = ?3 AND d.removed_in IS NULL"
IN_REVISION = "d.added_in <= {0} AND (d.removed_in IS NULL OR d.removed_in > {0})"
"""The condition that a document `d` is in a revision, also one that was deleted since."""
_DOCUMENTS = f"SELECT {_COLUMNS} {_OF} AND {IN_REVISION.format('?3')} AND d.document > ?4 ORDER BY d.document LIMIT ?5"
_BLOB = "SELECT blob_key FROM blobs WHERE digest = ?"
_REPLACE = "UPDATE collection_documents SET removed_in = ? WHERE collection_key = ? AND document = ? AND removed_in IS NULL"
_INSERT = f"""
INSERT INTO collection_documents (collection_key, blob_key, {_DOCUMENT.text}) VALUES (?, ?, {_DOCUMENT.marks})
"""
_LIVING = """
SELECT document_key, blob_key FROM collection_documents WHERE collection_key = ? AND document = ? AND deleted_at IS NULL
"""
# The name stays: whoever searches an older revision is told that the document was deleted.
_BURY = """
UPDATE collection_documents
SET deleted_at = ?1, removed_in = coalesce(removed_in, ?2), blob_key = NULL, digest = NULL, title = NULL, media_type = NULL,
    size = 0
WHERE document_key = ?3
"""
_FORGOTTEN = """
SELECT document_key, blob_key FROM collection_documents
WHERE collection_key = ? AND removed_in <= ? AND deleted_at IS NULL LIMIT ?
"""
_FORGET = "UPDATE collections SET oldest = ? WHERE collection_key = ? AND oldest < ?"
_ERASE = f"UPDATE collections SET collection_id = '{ERASED}' || collection_key WHERE tenant_id = ? AND collection_id = ?"
_ERASE_ALL = f"""
UPDATE collections SET collection_id = '{ERASED}' || collection_key WHERE tenant_id = ? AND collection_id NOT LIKE '{ERASED}%'
"""
_BYTES = """
SELECT b.body FROM collection_documents AS d JOIN collections AS c USING (collection_key) JOIN blob_chunks AS b USING (blob_key)
WHERE c.tenant_id = ? AND d.document_key = ? ORDER BY b.number
"""
_BYTES_NAMED = f"""
SELECT b.body FROM collection_documents AS d JOIN collections AS c USING (collection_key) JOIN blob_chunks AS b USING (blob_key)
WHERE c.tenant_id = ?1 AND c.collection_id = ?2 AND {IN_REVISION.format("?3")} AND d.document = ?4 ORDER BY b.number
"""
_SET_ADDED = "UPDATE collection_documents SET added_in = ? WHERE collection_key = ?"
_SET_REVISION = "UPDATE collections SET revision = ?, oldest = ? WHERE collection_key = ?"
_TO_BURY = f"""
SELECT d.document_key, d.blob_key FROM collections AS c JOIN collection_documents AS d USING (collection_key)
WHERE c.collection_id LIKE '{ERASED}%' AND d.deleted_at IS NULL LIMIT ?
"""
_DEAD_CHUNKS = """
DELETE FROM knowledge_chunks WHERE chunk_key IN (
    SELECT k.chunk_key FROM collection_documents AS d JOIN knowledge_chunks AS k ON k.source_key = d.document_key
    WHERE d.deleted_at IS NOT NULL LIMIT ?
)
"""
_DEAD_READS = """
DELETE FROM knowledge_reads WHERE (index_key, document_key) IN (
    SELECT r.index_key, r.document_key FROM collection_documents AS d JOIN knowledge_reads AS r USING (document_key)
    WHERE d.deleted_at IS NOT NULL LIMIT ?
)
"""
_DEAD_DOCUMENTS = f"""
DELETE FROM collection_documents WHERE document_key IN (
    SELECT d.document_key FROM collection_documents AS d JOIN collections AS c USING (collection_key)
    WHERE d.deleted_at IS NOT NULL AND (d.removed_in <= c.oldest OR c.collection_id LIKE '{ERASED}%') LIMIT ?
)
"""
_DEAD_COLLECTIONS = f"""
DELETE FROM collections WHERE collection_key IN (
    SELECT collection_key FROM collections WHERE collection_id LIKE '{ERASED}%' LIMIT ?
)
"""


class CollectionStore(TenantScope):
    """The collections of one tenant."""

    __slots__ = ()

    async def create(self, collection_id: str, now: int) -> Collection:
        """Creates an empty collection; `Conflict` when the name is taken, or there are too many."""

        def write(connection: Connection) -> Collection:
            refuse_deleted(connection, self._tenant_id)
            if connection.fetch(_KEY, (self._tenant_id, collection_id)):
                raise Conflict(f"There is a collection {collection_id} already")
            if connection.fetch(_COUNT, (self._tenant_id,))[0][0] >= COLLECTIONS_MAX:
                raise Conflict(f"A tenant has at most {COLLECTIONS_MAX} collections: delete some first")
            connection.execute(_ADD, (self._tenant_id, collection_id, now, now))
            return _COLLECTION.decode(connection.fetch(_GET, (self._tenant_id, collection_id))[0])

        return await self._database.write(write)

    async def list(self) -> tuple[Collection, ...]:
        return await self._all(_COLLECTION.decode, _LIST, (self._tenant_id,))

    async def get(self, collection_id: str) -> Collection | None:
        return await self._first(_COLLECTION.decode, _GET, (self._tenant_id, collection_id))

    async def usage(self, collection_id: str) -> CollectionUsage:
        """Returns the bytes of all revisions, the documents of the newest, and those of all."""
        usage = await self._first(lambda row: CollectionUsage(*row), _USAGE, (self._tenant_id, collection_id))
        return usage or CollectionUsage(0, 0, 0)

    async def documents(
        self, collection_id: str, revision: int, *, after: str = "", limit: int = 100
    ) -> tuple[CollectionDocument, ...]:
        """Returns documents of a revision by name, also deleted ones."""
        return await self._all(_DOCUMENT.decode, _DOCUMENTS, (self._tenant_id, collection_id, revision, after, limit))

    async def put(
        self, collection_id: str, file: BinaryIO, document: str, title: str | None, media_type: str | None, now: int
    ) -> tuple[CollectionDocument, bool]:
        """Adds or replaces a document; whether that made a revision, which the same file does not.

        `NotFound` without such a collection, `InvalidInput` for an empty file and beyond the bounds of a collection.
        """
        place = (self._tenant_id, collection_id)
        digest, size = await anyio.to_thread.run_sync(measure_file, file)
        if not size:
            raise InvalidInput(f"The document {document} is empty")
        current = await self._first(_DOCUMENT.decode, _CURRENT, (*place, document))
        if current is not None and (current.digest, current.title, current.media_type) == (digest, title, media_type):
            return current, False
        await self._database.read(lambda connection: self._check(connection, collection_id, size))
        blob_key = await self._database.write(lambda connection: begin_blob(connection, size, now))

        def write(connection: Connection) -> CollectionDocument:
            collection_key = self._check(connection, collection_id, size)
            complete_blob(connection, blob_key, digest)
            blobs = connection.fetch(_BLOB, (digest,))
            if not blobs:
                raise StoreFailed(
                    f"The bytes of {document} were discarded, because the upload took longer than a day; send it again"
                )
            revision = int(connection.fetch(_NEXT, (now, collection_key))[0][0])
            connection.execute(_REPLACE, (revision, collection_key, document))
            added = CollectionDocument(
                document=document,
                title=title,
                media_type=media_type,
                digest=digest,
                size=size,
                added_in=revision,
                added_at=now,
            )
            row = (collection_key, blobs[0][0], *_DOCUMENT.encode(added))
            connection.execute(_INSERT, row)
            return added

        try:
            await self._write_pieces(file, blob_key, size)
            return await self._database.write(write), True
        finally:
            with anyio.CancelScope(shield=True):
                await self._database.write(lambda connection: release_blob(connection, blob_key))
                if await self._database.read(is_crowded):
                    await drop_released(self._database)

    async def settle(self, collection_id: str, revision: int) -> bool:
        """Sets the revision of a collection whose documents were just imported, as its only one; returns whether the
        collection exists."""

        def write(connection: Connection) -> bool:
            for collection_key, there in connection.fetch(_KEY, (self._tenant_id, collection_id)):
                if there > revision:
                    raise Conflict(f"The collection {collection_id} has more revisions than {revision}")
                connection.execute(_SET_ADDED, (revision, collection_key))
                connection.execute(_SET_REVISION, (revision, revision, collection_key))
                return True
            return False

        return await self._database.write(write)

    async def read_named(self, collection_id: str, revision: int, document: str) -> bytes | None:
        """Returns the bytes of a document of a revision; None when it was deleted."""
        place = (self._tenant_id, collection_id, revision, document)

        def read(connection: Connection) -> bytes | None:
            return b"".join(bytes(body) for (body,) in connection.fetch(_BYTES_NAMED, place)) or None

        return await self._database.read(read)

    async def delete_document(self, collection_id: str, document: str, now: int) -> int | None:
        """Deletes a document from every revision; the bytes that were freed, None without such a document."""

        def write(connection: Connection) -> int | None:
            for collection_key, _ in connection.fetch(_KEY, (self._tenant_id, collection_id)):
                rows = connection.fetch(_LIVING, (collection_key, document))
                if not rows:
                    return None
                note_traces(connection, self._tenant_id, f"collections/{collection_id}", now)
                revision = connection.fetch(_NEXT, (now, collection_key))[0][0]
                return sum(_bury(connection, row, revision, now) for row in rows)
            return None

        freed = await self._database.write(write)
        await self.tidy()
        return freed

    async def forget(self, collection_id: str, before: int, now: int) -> int | None:
        """Deletes the revisions before that one, with the documents that only they have; returns the bytes freed, None without
        such a collection."""

        def begin(connection: Connection) -> tuple[int, int] | None:
            for collection_key, revision in connection.fetch(_KEY, (self._tenant_id, collection_id)):
                oldest = min(before, revision)
                connection.execute(_FORGET, (oldest, collection_key, oldest))
                note_traces(connection, self._tenant_id, f"collections/{collection_id}", now)
                return int(collection_key), oldest
            return None

        place = await self._database.write(begin)
        if place is None:
            return None
        freed, (key, oldest) = 0, place

        def write(connection: Connection) -> int:
            rows = connection.fetch(_FORGOTTEN, (key, oldest, TIDIED_MAX))
            return sum(_bury(connection, row, oldest, now) for row in rows)

        while some := await self._database.write(write):
            freed += some
        await self.tidy()
        return freed

    async def delete(self, collection_id: str, now: int) -> bool:
        """Deletes a collection with all revisions. Its name is free at once."""

        def write(connection: Connection) -> bool:
            if not connection.execute(_ERASE, (self._tenant_id, collection_id)):
                return False
            note_traces(connection, self._tenant_id, f"collections/{collection_id}", now)
            return True

        if not await self._database.write(write):
            return False
        await self.tidy()
        return True

    async def read(self, document_key: int) -> bytes | None:
        """Returns the bytes of a document; None when it was deleted."""

        def read(connection: Connection) -> bytes | None:
            return b"".join(bytes(body) for (body,) in connection.fetch(_BYTES, (self._tenant_id, document_key))) or None

        return await self._database.read(read)

    async def tidy(self) -> None:
        """Drops the rest of deleted documents, a slice in each commit."""
        while await self._database.write(tidy_slice):
            pass
        await drop_released(self._database)

    def _check(self, connection: Connection, collection_id: str, size: int) -> int:
        """Returns the key of a collection that has room for this many bytes."""
        for collection_key, _ in connection.fetch(_KEY, (self._tenant_id, collection_id)):
            used, documents, _ = connection.fetch(_USAGE, (self._tenant_id, collection_id))[0]
            if used + size > COLLECTION_MAX_BYTES:
                raise InvalidInput(
                    f"The collection {collection_id} would have {used + size:,} bytes; it may have {COLLECTION_MAX_BYTES:,}. "
                    "Delete documents, or forget older revisions"
                )
            if documents >= DOCUMENTS_MAX:
                raise InvalidInput(f"The collection {collection_id} has {DOCUMENTS_MAX:,} documents, the maximum")
            return int(collection_key)
        raise not_found("Collection", collection_id)

    async def _write_pieces(self, file: BinaryIO, blob_key: int, size: int) -> None:
        """Writes in several transactions, so that others' commits come in between."""
        file.seek(0)
        for first in range(0, -(-size // CHUNK_BYTES), PIECE_CHUNKS_MAX):
            body = await anyio.to_thread.run_sync(file.read, PIECE_CHUNKS_MAX * CHUNK_BYTES)
            chunks = [body[start : start + CHUNK_BYTES] for start in range(0, len(body), CHUNK_BYTES)]
            await self._database.write(partial(add_chunks, blob_key=blob_key, first=first, chunks=chunks))


def erase_collections(connection: Connection, tenant_id: str) -> bool:
    """Takes all collections of a tenant out of sight; whether there were any. `tidy_slice` erases them."""
    return connection.execute(_ERASE_ALL, (tenant_id,)) > 0


def tidy_slice(connection: Connection) -> bool:
    """Drops some of the rest of deleted documents and collections; whether there may be more."""
    freed = 0
    for row in connection.fetch(_TO_BURY, (TIDIED_MAX,)):
        freed += _bury(connection, row, 0, 1)
        if freed >= DROPPED_BYTES_MAX:
            break
    if freed:
        return True
    # A collection goes when nothing is left in it.
    statements = (_DEAD_CHUNKS, _DEAD_READS, _DEAD_DOCUMENTS, _DEAD_COLLECTIONS)
    return any(connection.execute(statement, (TIDIED_MAX,)) for statement in statements)


def _bury(connection: Connection, row: Sequence[Any], revision: int, now: int) -> int:
    """Leaves only the name of a document; returns the bytes that the tenant has no longer."""
    document_key, blob_key = row
    size = connection.fetch("SELECT size FROM collection_documents WHERE document_key = ?", (document_key,))[0][0]
    connection.execute(_BURY, (now, revision, document_key))
    if blob_key is not None:
        drop_blob(connection, blob_key)
    return int(size)
