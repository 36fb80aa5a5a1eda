"""KnowledgeStore — the indexes of the knowledge bases of one tenant, also of those that others may search.

An index is made in small commits and serves when it is whole; the one before serves until then. It goes with its version or its
collection: by the references of its tables, and of its words by a trigger.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import count
from operator import mul
from typing import Any

import msgspec

from agentvm.errors import NotAvailable
from agentvm.model.knowledge import DocumentProblem, Passage
from agentvm.model.resource import VersionId
from agentvm.storage.sql.collections import IN_REVISION
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import numbers_of
from agentvm.storage.sql.records import TenantScope
from agentvm.storage.sql.search_index import SearchPiece

SLICE_CHUNKS_MAX = 100
"""Passages that one commit adds, or deletes."""
CANDIDATES_MAX = 200
"""Passages whose vectors are compared with that of a question."""
WIDENING_FACTOR = 8
"""How many times more hits are read while too few of those before are in the revision."""

_OF_VERSION = """
FROM knowledge_indexes AS k JOIN resource_versions AS v USING (version_key) WHERE k.tenant_id = ? AND v.version_id = ?
"""
_NEWEST = "AND k.built_at IS NOT NULL ORDER BY k.index_key DESC LIMIT 1"
_INDEX = f"SELECT k.index_key, k.problems {_OF_VERSION} AND k.form = ? {_NEWEST}"
_ANY = f"SELECT k.index_key, k.problems {_OF_VERSION} {_NEWEST}"
_OTHERS = f"SELECT k.index_key {_OF_VERSION} AND k.index_key <> ?"
_DROP_CHUNKS = """
DELETE FROM knowledge_chunks WHERE chunk_key IN (SELECT chunk_key FROM knowledge_chunks WHERE index_key = ? LIMIT ?)
"""
_DROP = "DELETE FROM knowledge_indexes WHERE index_key = ?"
_BEGIN = """
INSERT INTO knowledge_indexes (tenant_id, version_key, form, problems)
SELECT r.tenant_id, v.version_key, ?, ? FROM resource_versions AS v JOIN resources AS r USING (resource_key)
WHERE r.tenant_id = ? AND v.version_id = ? RETURNING index_key
"""
_ADD = """
INSERT INTO knowledge_chunks (index_key, source_key, document, first, beyond, text, title, heading, page, vector)
SELECT index_key, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM knowledge_indexes WHERE index_key = ? RETURNING chunk_key
"""
_FINISH = "UPDATE knowledge_indexes SET built_at = ?, problems = ? WHERE index_key = ?"
# Passages of documents that the index is done with and that are in the revision; those of a version are always.
_SEEN = f"""
(c.source_key IS NULL OR EXISTS (
    SELECT 1 FROM collection_documents AS d JOIN knowledge_reads AS r USING (document_key)
    WHERE d.document_key = c.source_key AND r.index_key = c.index_key AND r.read_at IS NOT NULL AND d.deleted_at IS NULL
      AND {IN_REVISION}
))
"""
# The sum keeps SQLite from reading all passages of the index to find these few.
_NAMED = f"""
FROM knowledge_chunks AS c JOIN knowledge_indexes AS k ON k.index_key = c.index_key + 0
WHERE k.tenant_id = ?1 AND k.index_key = ?2 AND c.chunk_key IN ({numbers_of("?3")}) AND {_SEEN.format("?4")}
"""
_CHUNKS = f"SELECT c.chunk_key, c.document, c.first, c.beyond, c.text, c.title, c.heading, c.page {_NAMED}"
_VECTORS = f"SELECT c.chunk_key, c.vector {_NAMED} AND length(c.vector) = ?5"
_HAS_VECTORS = "SELECT 1 FROM knowledge_chunks WHERE index_key = ? AND vector IS NOT NULL LIMIT 1"
_OPEN = f"""
SELECT c.first, c.text, c.title, c.page FROM knowledge_chunks AS c JOIN knowledge_indexes AS k USING (index_key)
WHERE k.tenant_id = ?1 AND k.index_key = ?2 AND c.document = ?3 AND c.first < ?4 AND c.beyond > ?5 AND {_SEEN.format("?6")}
ORDER BY c.first
"""

_OTHER_DIMENSIONS = (
    "The embedder returns vectors of another length than when the documents were indexed; give the new model another name in "
    "tools.embedder.model, and they are indexed again"
)

_problems = msgspec.json.Decoder(tuple[DocumentProblem, ...]).decode


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A passage, the words by which it is found, and its vector, if there is an embedder. Its `uri` is not stored."""

    passage: Passage
    terms: Sequence[str]
    vector: bytes | None = None


@dataclass(frozen=True, slots=True)
class CompleteIndex:
    """An index that serves; of a collection the revision that is meant."""

    index_key: int
    problems: tuple[DocumentProblem, ...]
    revision: int = 0


class KnowledgeStore(TenantScope):
    """The indexes of the knowledge bases and collections of one tenant."""

    __slots__ = ()

    async def find(self, version_id: VersionId, form: str) -> CompleteIndex | None:
        """Returns the index of a version that was made in this way, if it is whole."""
        return await self._first(_whole, _INDEX, (self._tenant_id, version_id, form))

    async def find_any(self, version_id: VersionId) -> CompleteIndex | None:
        """Returns an index of a version that is whole, however it was made."""
        return await self._first(_whole, _ANY, (self._tenant_id, version_id))

    async def build(
        self, version_id: VersionId, form: str, chunks: Sequence[IndexedChunk], problems: Sequence[DocumentProblem], now: int
    ) -> CompleteIndex | None:
        """Makes the index of a version, which then takes the place of others; None when the version is gone in the meantime."""
        place = (form, b"[]", self._tenant_id, version_id)
        rows = await self._database.write(lambda connection: connection.fetch(_BEGIN, place))
        if not rows:
            return None
        index_key = int(rows[0][0])
        for start in range(0, len(chunks), SLICE_CHUNKS_MAX):
            piece = chunks[start : start + SLICE_CHUNKS_MAX]
            await self._database.write(partial(add_to_index, index_key=index_key, chunks=piece))
        body = msgspec.json.encode(tuple(problems))
        if not await self._execute(_FINISH, (now, body, index_key)):
            return None
        await self._drop_others(version_id, index_key)
        return CompleteIndex(index_key, tuple(problems))

    async def _drop_others(self, version_id: VersionId, index_key: int) -> None:
        """Deletes the other indexes of a version, a slice in each commit."""

        def write(connection: Connection) -> bool:
            for (other,) in connection.fetch(_OTHERS, (self._tenant_id, version_id, index_key)):
                return drop_index_slice(connection, other)
            return False

        while await self._database.write(write):
            pass

    async def search(self, index: CompleteIndex, pieces: Sequence[SearchPiece], limit: int) -> list[tuple[int, Passage]]:
        """Returns passages with any of the pieces, the best first, each with its key."""
        if not pieces:
            return []

        def read(connection: Connection) -> list[tuple[int, Passage]]:
            for hits_max in _widening(limit):
                hits = connection.search.find_chunks(pieces, [_key(index.index_key)], hits_max)
                passages = self._passages(connection, index, [chunk_key for _, chunk_key in hits])
                if len(passages) >= limit or len(hits) < hits_max:
                    break
            return passages[:limit]

        return await self._database.read(read)

    async def nearest(self, index: CompleteIndex, vector: bytes, limit: int) -> list[tuple[int, Passage]]:
        """Returns the passages whose vectors are nearest to one of length 1, the best first.

        Candidates are those whose bits differ least (`signs_of`); only their vectors are read and compared. `NotAvailable` if
        all vectors of the index have another number of dimensions.
        """

        def read(connection: Connection) -> list[tuple[int, Passage]]:
            for keys_max in _widening(CANDIDATES_MAX):
                keys = connection.search.find_nearest(index.index_key, signs_of(vector), keys_max)
                named = msgspec.json.encode(keys).decode()
                rows = connection.fetch(_VECTORS, (self._tenant_id, index.index_key, named, index.revision, len(vector)))
                if len(rows) >= CANDIDATES_MAX or len(keys) < keys_max:
                    break
            if not keys and connection.fetch(_HAS_VECTORS, (index.index_key,)):
                raise NotAvailable(_OTHER_DIMENSIONS)
            numbers = array("f", vector)
            weighed = [(-sum(map(mul, numbers, array("f", bytes(body)))), key) for key, body in rows]
            return self._passages(connection, index, [key for _, key in nsmallest(limit, weighed)])

        return await self._database.read(read)

    async def open(self, index: CompleteIndex, document: str, start: int, end: int) -> Passage | None:
        """Returns the characters of a document in that range, with the page of the first; None when passages lack some."""

        def read(connection: Connection) -> Passage | None:
            rows = connection.fetch(_OPEN, (self._tenant_id, index.index_key, document, end, start, index.revision))
            text = _joined(rows, start, end)
            return None if text is None else _passage((document, start, end, text, rows[0][2], None, rows[0][3]))

        return await self._database.read(read)

    def _passages(self, connection: Connection, index: CompleteIndex, keys: Sequence[int]) -> list[tuple[int, Passage]]:
        """Returns those of these passages that the tenant has in this index and revision, in their order."""
        named = msgspec.json.encode(keys).decode()
        rows = connection.fetch(_CHUNKS, (self._tenant_id, index.index_key, named, index.revision))
        by_number = {row[0]: _passage(row[1:]) for row in rows}
        return [(key, by_number[key]) for key in keys if key in by_number]


def add_to_index(connection: Connection, index_key: int, chunks: Sequence[IndexedChunk], source_key: int | None = None) -> None:
    """Adds passages with their words."""
    key, words, signs = _key(index_key), list[tuple[int, str]](), list[tuple[int, bytes]]()
    for chunk in chunks:
        passage = chunk.passage
        place = (source_key, passage.document, passage.start, passage.end)
        named = (passage.text, passage.title, passage.heading, passage.page, chunk.vector)
        for (chunk_key,) in connection.fetch(_ADD, (*place, *named, index_key)):
            words.append((chunk_key, " ".join(f"{key}{term}" for term in chunk.terms)))
            if chunk.vector is not None:
                signs.append((chunk_key, signs_of(chunk.vector)))
    connection.search.add_chunks(words)
    connection.search.add_signs(index_key, signs)


def signs_of(vector: bytes) -> bytes:
    """Returns a bit for each number of a vector: whether it is above their mean. Some embedders have positive ones alone."""
    numbers = array("f", vector)
    mean = sum(numbers) / len(numbers)
    bits = "".join("1" if value > mean else "0" for value in numbers)
    return int(bits, 2).to_bytes(-(-len(bits) // 8))


def drop_index_slice(connection: Connection, index_key: int) -> bool:
    """Deletes some passages of an index, or the empty index; always True, because there may be more."""
    if connection.execute(_DROP_CHUNKS, (index_key, SLICE_CHUNKS_MAX)) < SLICE_CHUNKS_MAX:
        connection.execute(_DROP, (index_key,))
    return True


def _widening(limit: int) -> Iterator[int]:
    """Yields how many hits are read: more each time, until they are all that there are."""
    return (limit * WIDENING_FACTOR**step for step in count())


def _key(index_key: int) -> str:
    """Returns the prefix of the words of an index: a search reads no other index."""
    return f"k{index_key}x"


def _whole(row: Sequence[Any]) -> CompleteIndex:
    return CompleteIndex(row[0], _problems(row[1]))


def _joined(rows: Sequence[Sequence[Any]], start: int, end: int) -> str | None:
    """Returns the characters of a range from the passages over it. Between two passages there is nothing but space."""
    if not rows or rows[0][0] > start:
        return None
    joined, place = [], start
    for first, text, *_ in rows:
        joined.append("\n" * (first - place) + text[max(0, place - first) : end - first])
        place = max(place, min(end, first + len(text)))
    return "".join(joined) if place == end else None


def _passage(row: Sequence[Any]) -> Passage:
    document, start, end, text, title, heading, page = row
    return Passage(uri="", document=document, start=start, end=end, text=text, title=title, heading=heading, page=page)
