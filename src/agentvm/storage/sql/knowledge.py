"""KnowledgeStore — the indexes of knowledge bases. Callers have found the version through what their tenant may see.

An index is made in small commits and serves when it is whole. It goes with its version: by the references of its tables, and of
its words by a trigger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from agentvm.model.knowledge import DocumentProblem, Passage
from agentvm.model.resource import VersionId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import numbers_of
from agentvm.storage.sql.records import Scope
from agentvm.storage.sql.search_index import SearchPiece

SLICE_CHUNKS_MAX = 100
"""Passages that one commit adds, or deletes."""

_INDEX = """
SELECT index_key, problems FROM knowledge_indexes AS k JOIN resource_versions AS v USING (version_key)
WHERE v.version_id = ? AND k.chunker = ? AND k.built_at IS NOT NULL
"""
_OLD = "SELECT index_key FROM knowledge_indexes AS k JOIN resource_versions AS v USING (version_key) WHERE v.version_id = ?"
_DROP_CHUNKS = """
DELETE FROM knowledge_chunks WHERE chunk_key IN (SELECT chunk_key FROM knowledge_chunks WHERE index_key = ? LIMIT ?)
"""
_DROP = "DELETE FROM knowledge_indexes WHERE index_key = ?"
_BEGIN = """
INSERT INTO knowledge_indexes (version_key, chunker, problems) SELECT version_key, ?, ? FROM resource_versions
WHERE version_id = ? RETURNING index_key
"""
_ADD = """
INSERT INTO knowledge_chunks (index_key, document, first, beyond, text, title, heading, page)
SELECT index_key, ?, ?, ?, ?, ?, ?, ? FROM knowledge_indexes WHERE index_key = ? RETURNING chunk_key
"""
_FINISH = "UPDATE knowledge_indexes SET built_at = ?, problems = ? WHERE index_key = ?"
_CHUNKS = f"""
SELECT c.chunk_key, v.version_id, c.document, c.first, c.beyond, c.text, c.title, c.heading, c.page
FROM knowledge_chunks AS c JOIN knowledge_indexes AS k USING (index_key) JOIN resource_versions AS v USING (version_key)
WHERE c.chunk_key IN ({numbers_of("?")})
"""
_OPEN = """
SELECT c.first, c.text FROM knowledge_chunks AS c JOIN knowledge_indexes AS k USING (index_key)
JOIN resource_versions AS v USING (version_key)
WHERE v.version_id = ? AND c.document = ? AND c.first <= ? AND c.beyond >= ? AND k.built_at IS NOT NULL
ORDER BY c.first LIMIT 1
"""

_problems = msgspec.json.Decoder(tuple[DocumentProblem, ...]).decode


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A passage and the words by which it is found. Its `uri` is not stored."""

    passage: Passage
    terms: Sequence[str]


@dataclass(frozen=True, slots=True)
class WholeIndex:
    """An index that serves."""

    index_key: int
    problems: tuple[DocumentProblem, ...]


class KnowledgeStore(Scope):
    """The indexes of all knowledge bases."""

    async def find(self, version_id: VersionId, chunker: int) -> WholeIndex | None:
        """Returns the index of a version that was made in this way, if it is whole."""

        def read(connection: Connection) -> WholeIndex | None:
            for index_key, problems in connection.fetch(_INDEX, (version_id, chunker)):
                return WholeIndex(index_key, _problems(problems))
            return None

        return await self._database.read(read)

    async def build(
        self,
        version_id: VersionId,
        chunker: int,
        chunks: Sequence[IndexedChunk],
        problems: Sequence[DocumentProblem],
        now: int,
    ) -> WholeIndex | None:
        """Makes the index of a version anew; None when the version is gone meanwhile."""
        await self.drop(version_id)
        rows = await self._database.write(lambda connection: connection.fetch(_BEGIN, (chunker, b"[]", version_id)))
        if not rows:
            return None
        index_key = int(rows[0][0])
        for start in range(0, len(chunks), SLICE_CHUNKS_MAX):
            piece = chunks[start : start + SLICE_CHUNKS_MAX]
            await self._database.write(partial(_add, index_key=index_key, chunks=piece))
        body = msgspec.json.encode(tuple(problems))
        if not await self._execute(_FINISH, (now, body, index_key)):
            return None
        return WholeIndex(index_key, tuple(problems))

    async def drop(self, version_id: VersionId) -> None:
        """Deletes the index of a version, a slice in each commit."""

        def write(connection: Connection) -> bool:
            for (index_key,) in connection.fetch(_OLD, (version_id,)):
                if connection.execute(_DROP_CHUNKS, (index_key, SLICE_CHUNKS_MAX)) == SLICE_CHUNKS_MAX:
                    return True
                connection.execute(_DROP, (index_key,))
            return False

        while await self._database.write(write):
            pass

    async def search(
        self, indexes: Sequence[int], pieces: Sequence[SearchPiece], limit: int
    ) -> list[tuple[VersionId, Passage]]:
        """Returns passages with any of the pieces, the best first."""
        if not indexes or not pieces:
            return []

        def read(connection: Connection) -> list[tuple[VersionId, Passage]]:
            found = connection.search.find_chunks(pieces, [_key(index_key) for index_key in indexes], limit)
            keys = [chunk_key for _, chunk_key in found]
            rows = connection.fetch(_CHUNKS, (msgspec.json.encode(keys).decode(),))
            passages = {row[0]: (VersionId(row[1]), _passage(row[2:])) for row in rows}
            return [passages[key] for key in keys if key in passages]

        return await self._database.read(read)

    async def open(self, version_id: VersionId, document: str, start: int, end: int) -> str | None:
        """Returns the characters of a document in that range; None when no passage holds all of it."""

        def read(connection: Connection) -> str | None:
            for first, text in connection.fetch(_OPEN, (version_id, document, start, end)):
                return str(text[start - first : end - first])
            return None

        return await self._database.read(read)


def _add(connection: Connection, index_key: int, chunks: Sequence[IndexedChunk]) -> None:
    key, words = _key(index_key), list[tuple[int, str]]()
    for chunk in chunks:
        passage = chunk.passage
        named = (passage.title, passage.heading, passage.page)
        row = (passage.document, passage.start, passage.end, passage.text, *named, index_key)
        for (chunk_key,) in connection.fetch(_ADD, row):
            words.append((chunk_key, " ".join(f"{key}{term}" for term in chunk.terms)))
    connection.search.add_chunks(words)


def _key(index_key: int) -> str:
    """Returns what the words of an index begin with: a search reads no other index."""
    return f"k{index_key}x"


def _passage(row: Sequence[Any]) -> Passage:
    document, start, end, text, title, heading, page = row
    return Passage(uri="", document=document, start=start, end=end, text=text, title=title, heading=heading, page=page)
