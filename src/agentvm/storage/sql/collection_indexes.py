"""CollectionIndexes — the indexes of the collections of one tenant, which grow document by document.

A document is claimed by the node that reads it, its passages come in small commits, and a search sees them when all are there.
A claim that a dead node has left is taken over.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from agentvm.model.collection import CollectionDocument
from agentvm.model.ids import TenantId
from agentvm.model.knowledge import DocumentProblem
from agentvm.storage.sql.collections import ERASED, IN_REVISION
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import total
from agentvm.storage.sql.knowledge import SLICE_CHUNKS_MAX, CompleteIndex, IndexedChunk, add_to_index, drop_index_slice
from agentvm.storage.sql.records import Columns, TenantScope

CLAIM_MS = 5 * 60_000
"""A claim of another node that is older than this is taken over: reading one document takes a minute at most. That of a node
that has ended is taken over at once."""
PROBLEMS_MAX = 100
"""Documents that could not be read and are told with one search."""

_DOCUMENT = Columns(CollectionDocument)
_MINE = "SELECT collection_key FROM collections WHERE tenant_id = ? AND collection_id = ?"
_ADD = """
INSERT INTO knowledge_indexes (tenant_id, collection_key, form, problems)
SELECT tenant_id, collection_key, ?3, ?4 FROM collections WHERE tenant_id = ?1 AND collection_id = ?2
ON CONFLICT (collection_key, form) DO NOTHING
"""
_FIND = f"SELECT index_key FROM knowledge_indexes WHERE collection_key = ({_MINE}) AND form = ?"
_FORMS = f"SELECT index_key, form FROM knowledge_indexes WHERE collection_key = ({_MINE}) ORDER BY index_key DESC"
_OWN = "SELECT collection_key FROM knowledge_indexes WHERE tenant_id = ?1 AND index_key = ?2"
_PENDING = f"""
SELECT count(*), count(CASE WHEN r.read_at IS NULL THEN 1 END)
FROM collection_documents AS d LEFT JOIN knowledge_reads AS r ON r.document_key = d.document_key AND r.index_key = ?2
WHERE d.collection_key = ({_OWN}) AND d.deleted_at IS NULL AND {IN_REVISION.format("?3")}
"""
# Those of the newest revision first.
_NEXT = f"""
SELECT d.document_key, {_DOCUMENT.select("d.")}
FROM collection_documents AS d LEFT JOIN knowledge_reads AS r ON r.document_key = d.document_key AND r.index_key = ?2
WHERE d.collection_key = ({_OWN}) AND d.deleted_at IS NULL
  AND (r.document_key IS NULL OR (r.read_at IS NULL AND (
    r.node_id = ?3 OR r.begun_at < ?4 OR r.node_id NOT IN (SELECT node_id FROM nodes WHERE state = 'up')
  )))
ORDER BY d.removed_in IS NOT NULL, d.document_key LIMIT 1
"""
_CLAIM = """
INSERT INTO knowledge_reads (index_key, document_key, node_id, begun_at, chunks) VALUES (?, ?, ?, ?, 0)
ON CONFLICT (index_key, document_key) DO UPDATE SET node_id = excluded.node_id, begun_at = excluded.begun_at
"""
_DROP_LEFT = """
DELETE FROM knowledge_chunks WHERE chunk_key IN (
    SELECT chunk_key FROM knowledge_chunks WHERE source_key = ? AND index_key = ? LIMIT ?
)
"""
_IS_CLAIMED = """
SELECT 1
FROM knowledge_reads AS r
JOIN knowledge_indexes AS k USING (index_key)
JOIN collection_documents AS d USING (document_key)
WHERE k.tenant_id = ? AND k.index_key = ? AND d.document_key = ? AND r.node_id = ? AND r.read_at IS NULL
  AND d.deleted_at IS NULL
"""
_FINISH = """
UPDATE knowledge_reads SET read_at = ?, chunks = ?, problem = ?
WHERE index_key = (SELECT index_key FROM knowledge_indexes WHERE tenant_id = ? AND index_key = ?) AND document_key = ?
"""
_CHUNKS = f"""
SELECT {total("r.chunks")} FROM knowledge_indexes AS k JOIN knowledge_reads AS r USING (index_key)
WHERE k.tenant_id = ? AND k.index_key = ?
"""
_PROBLEMS = f"""
SELECT d.document, r.problem, d.deleted_at
FROM collection_documents AS d LEFT JOIN knowledge_reads AS r ON r.document_key = d.document_key AND r.index_key = ?2
WHERE d.collection_key = ({_OWN}) AND {IN_REVISION.format("?3")} AND (r.problem IS NOT NULL OR d.deleted_at IS NOT NULL)
ORDER BY d.document LIMIT {PROBLEMS_MAX}
"""
_STATES = f"""
SELECT d.document, r.read_at, r.chunks, r.problem
FROM collection_documents AS d JOIN knowledge_reads AS r ON r.document_key = d.document_key AND r.index_key = ?2
WHERE d.collection_key = ({_OWN}) AND {IN_REVISION.format("?3")}
"""
_UNFINISHED = f"""
SELECT k.index_key, c.tenant_id, c.collection_id, k.form
FROM knowledge_indexes AS k JOIN collections AS c USING (collection_key)
WHERE k.index_key > ? AND c.collection_id NOT LIKE '{ERASED}%' AND EXISTS (
    SELECT 1 FROM collection_documents AS d
    LEFT JOIN knowledge_reads AS r ON r.document_key = d.document_key AND r.index_key = k.index_key
    WHERE d.collection_key = k.collection_key AND d.deleted_at IS NULL AND d.removed_in IS NULL AND r.read_at IS NULL
)
ORDER BY k.index_key LIMIT ?
"""


class UnfinishedIndex(NamedTuple):
    """An index that lacks documents of the newest revision of its collection."""

    index_key: int
    tenant_id: TenantId
    collection_id: str
    form: str


class ClaimedDocument(NamedTuple):
    document_key: int
    document: CollectionDocument


class ReadState(NamedTuple):
    """Progress of a document in an index; None in `read_at` while it is read."""

    read_at: int | None
    chunks: int
    problem: str | None


class CollectionIndexes(TenantScope):
    """The indexes of the collections of one tenant, as this node makes them."""

    __slots__ = ("_node_id",)

    def __init__(self, database: Database, tenant_id: TenantId, node_id: int) -> None:
        super().__init__(database, tenant_id)
        self._node_id = node_id

    async def ensure(self, collection_id: str, form: str) -> int | None:
        """Returns the key of the index of this form; None without such a collection."""
        place = (self._tenant_id, collection_id, form)
        number = await self._first(_number, _FIND, place)
        if number is None:
            await self._execute(_ADD, (*place, b"[]"))
            number = await self._first(_number, _FIND, place)
        return number

    async def forms(self, collection_id: str) -> tuple[tuple[int, str], ...]:
        """Returns the keys and forms of all indexes, the newest first."""
        return await self._all(lambda row: (int(row[0]), str(row[1])), _FORMS, (self._tenant_id, collection_id))

    async def progress(self, index_key: int, revision: int) -> tuple[int, int]:
        """Returns how many documents a revision has, and how many of them the index does not have yet."""
        counts = await self._first(lambda row: (int(row[0]), int(row[1])), _PENDING, (self._tenant_id, index_key, revision))
        return counts or (0, 0)

    async def whole(self, index_key: int, revision: int) -> CompleteIndex:
        """Returns the index for a revision, with the problems of its documents."""
        rows = await self._all(lambda row: row, _PROBLEMS, (self._tenant_id, index_key, revision))
        problems = [
            DocumentProblem(document=document, problem=problem if deleted_at is None else "it was deleted from the collection")
            for document, problem, deleted_at in rows
        ]
        return CompleteIndex(index_key, tuple(problems), revision)

    async def states(self, index_key: int, revision: int) -> dict[str, ReadState]:
        """Returns the progress of the documents of a revision by name; those that are not begun are left out."""
        rows = await self._all(lambda row: row, _STATES, (self._tenant_id, index_key, revision))
        return {document: ReadState(read_at, chunks, problem) for document, read_at, chunks, problem in rows}

    async def claim(self, index_key: int, now: int) -> ClaimedDocument | None:
        """Returns a document that is to be read; None when there is none, or another node reads the last."""

        def write(connection: Connection) -> ClaimedDocument | None:
            place = (self._tenant_id, index_key, self._node_id, now - CLAIM_MS)
            for document_key, *row in connection.fetch(_NEXT, place):
                connection.execute(_CLAIM, (index_key, document_key, self._node_id, now))
                return ClaimedDocument(int(document_key), _DOCUMENT.decode(row))
            return None

        claimed = await self._database.write(write)
        if claimed is not None:
            left = (claimed.document_key, index_key, SLICE_CHUNKS_MAX)
            while await self._execute(_DROP_LEFT, left):
                pass
        return claimed

    async def count(self, index_key: int) -> int:
        """Returns how many passages the index has."""
        return await self._first(_number, _CHUNKS, (self._tenant_id, index_key)) or 0

    async def finish(
        self, index_key: int, document_key: int, chunks: Sequence[IndexedChunk], problem: str | None, now: int
    ) -> None:
        """Adds all passages of a claimed document; nothing for one that was deleted in the meantime."""

        def write(connection: Connection, piece: Sequence[IndexedChunk]) -> bool:
            if not connection.fetch(_IS_CLAIMED, (self._tenant_id, index_key, document_key, self._node_id)):
                return False
            add_to_index(connection, index_key, piece, document_key)
            return True

        for start in range(0, len(chunks), SLICE_CHUNKS_MAX):
            if not await self._database.write(partial(write, piece=chunks[start : start + SLICE_CHUNKS_MAX])):
                return
        await self._execute(_FINISH, (now, len(chunks), problem, self._tenant_id, index_key, document_key))

    async def drop(self, index_key: int) -> None:
        """Deletes an index, a slice in each commit."""

        def write(connection: Connection) -> bool:
            return bool(connection.fetch(_OWN, (self._tenant_id, index_key))) and drop_index_slice(connection, index_key)

        while await self._database.write(write):
            pass


def read_unfinished_indexes(connection: Connection, after: int, limit: int) -> tuple[UnfinishedIndex, ...]:
    """Returns unfinished indexes of all tenants, by their keys."""
    return tuple(map(UnfinishedIndex._make, connection.fetch(_UNFINISHED, (after, limit))))


def _number(row: Sequence[int]) -> int:
    return int(row[0])
