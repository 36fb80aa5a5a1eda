"""Search — the words of messages and resources in SQLite's FTS5."""

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

import apsw
import msgspec

from agentvm.storage.engines.sqlite.vectors import load_vectors
from agentvm.storage.sql.connection import Connection, Row
from agentvm.storage.sql.dialect import ORDERED_JOIN, rows_as_json
from agentvm.storage.sql.search_index import IndexName, SearchPiece, Weighed

_TABLES: dict[IndexName, str] = {"messages": "message_fts", "resources": "resource_fts", "knowledge": "knowledge_fts"}
WEIGHTS = "0.0, 4.0, 3.0, 2.0, 1.0"
"""The weights of scope, name, tags, description and text."""

_ADD_MESSAGE = "INSERT INTO message_fts (rowid, text) VALUES (?, ?)"
_DROP_MESSAGE = "DELETE FROM message_fts WHERE rowid = ?"
_ADD_RESOURCE = "INSERT INTO resource_fts (rowid, scope, name, tags, description, text) VALUES (?, ?, ?, ?, ?, ?)"
_DROP_RESOURCE = "DELETE FROM resource_fts WHERE rowid = ?"
_ADD_CHUNK = "INSERT INTO knowledge_fts (rowid, text) VALUES (?, ?)"
_CHUNK_HITS = """
SELECT bm25(knowledge_fts), rowid FROM knowledge_fts WHERE knowledge_fts MATCH ? ORDER BY bm25(knowledge_fts), rowid LIMIT ?
"""
_ADD_SIGNS = "INSERT INTO knowledge_signs (index_key, chunk_key, signs) VALUES (?, ?, ?)"
_SIGNS = "SELECT chunk_key, signs FROM knowledge_signs WHERE index_key = ? AND length(signs) = ?"
_NEAREST = """
SELECT chunk_key FROM knowledge_signs WHERE index_key = ?1 AND length(signs) = length(?2)
ORDER BY vec_distance_hamming(vec_bit(signs), vec_bit(?2)), chunk_key LIMIT ?3
"""
_TOTAL_CHANGES = "SELECT total_changes()"

_MESSAGE_HITS = f"""
SELECT {rows_as_json("bm25 * (1 + 1 / (1 + max(:now - at, 0) / :month)), -position")}
FROM (
    SELECT message_fts.rowid AS position, bm25(message_fts) AS bm25, f.at
    FROM message_fts
    {ORDERED_JOIN} message_facts AS f ON f.position = message_fts.rowid
    {ORDERED_JOIN} sessions AS s ON s.session_key = f.session_key
    WHERE message_fts MATCH :match AND {{where}}
    ORDER BY message_fts.rowid DESC LIMIT :most
) AS hits
"""
"""The newest messages that match, with their ranks, as one JSON value: a row each would hold up the event loop."""

_RESOURCE_HITS = f"""
WITH hits AS MATERIALIZED (
    SELECT bm25(resource_fts, {WEIGHTS}) AS weight, r.resource_id
    FROM resource_fts {ORDERED_JOIN} resources AS r ON r.resource_key = resource_fts.rowid
    WHERE resource_fts MATCH :match AND {{where}}
)
SELECT total, resource_id
FROM (SELECT count(*) AS total FROM hits) AS counted
LEFT JOIN (SELECT * FROM hits WHERE {{beyond}} ORDER BY weight, resource_id LIMIT :limit OFFSET {{skip}}) AS page
ORDER BY weight, resource_id
"""
_AFTER = "(weight, resource_id) > (coalesce((SELECT weight FROM hits WHERE resource_id = :id), -9e999), :id)"
_SKIP = "iif((SELECT count(*) FROM hits WHERE resource_id = :id), 0, :before - 1)"

_weighed = msgspec.json.Decoder(list[Weighed]).decode


class Fts5Index:
    """Implements `agentvm.storage.sql.search_index.SearchIndex`."""

    def __init__(self, connection: Connection, raw: apsw.Connection) -> None:
        self._connection, self._raw = connection, raw
        self._counts_bits: bool | None = None
        """Whether SQLite can count bits; unknown before the first search by vectors."""

    def add_messages(self, messages: Iterable[tuple[int, str]]) -> None:
        self._connection.many(_ADD_MESSAGE, messages)

    def drop_message(self, position: int) -> None:
        self._connection.execute(_DROP_MESSAGE, (position,))

    def find_messages(
        self, pieces: Sequence[SearchPiece], containers: Sequence[str], where: str, values: dict[str, Any]
    ) -> list[Weighed]:
        match = match_messages(pieces, containers)
        return _weighed(self._connection.fetch(_MESSAGE_HITS.format(where=where), {**values, "match": match})[0][0])

    def put_resource(self, resource_key: int, columns: Sequence[str] | None) -> None:
        self._connection.execute(_DROP_RESOURCE, (resource_key,))
        if columns is not None:
            self._connection.execute(_ADD_RESOURCE, (resource_key, *columns))

    def find_resources(
        self, pieces: Sequence[SearchPiece], scopes: Sequence[str], where: str, values: dict[str, Any]
    ) -> list[Row]:
        match = match_resources(pieces, scopes)
        beyond, skip = (_AFTER, _SKIP) if values["id"] else ("true", "0")
        query = _RESOURCE_HITS.format(where=where, beyond=beyond, skip=skip)
        return self._connection.fetch(query, {**values, "match": match})

    def add_chunks(self, chunks: Iterable[tuple[int, str]]) -> None:
        self._connection.many(_ADD_CHUNK, chunks)

    def find_chunks(self, pieces: Sequence[SearchPiece], indexes: Sequence[str], limit: int) -> list[tuple[float, int]]:
        match = " OR ".join(_phrase(piece, key) for piece in pieces for key in indexes)
        return [(weight, chunk_key) for weight, chunk_key in self._connection.fetch(_CHUNK_HITS, (match, limit))]

    def add_signs(self, index_key: int, signs: Iterable[tuple[int, bytes]]) -> None:
        self._connection.many(_ADD_SIGNS, [(index_key, chunk_key, body) for chunk_key, body in signs])

    def find_nearest(self, index_key: int, signs: bytes, limit: int) -> list[int]:
        if self._counts_bits is None:
            self._counts_bits = load_vectors(self._raw)
        if self._counts_bits:
            return [chunk_key for (chunk_key,) in self._connection.fetch(_NEAREST, (index_key, signs, limit))]
        # SQLite itself has no function that counts bits.
        bits = int.from_bytes(signs)
        rows = self._connection.fetch(_SIGNS, (index_key, len(signs)))
        differing = [((int.from_bytes(body) ^ bits).bit_count(), chunk_key) for chunk_key, body in rows]
        return [chunk_key for _, chunk_key in nsmallest(limit, differing)]

    def merge(self, index: IndexName, pages: int) -> bool:
        table = _TABLES[index]
        before = self._connection.fetch(_TOTAL_CHANGES)[0][0]
        self._connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
        # As SQLite's documentation says: below two there was nothing left to do.
        return bool(self._connection.fetch(_TOTAL_CHANGES)[0][0] - before >= 2)


def match_messages(pieces: Sequence[SearchPiece], containers: Sequence[str]) -> str:
    return " AND ".join(f"({' OR '.join(_phrase(piece, key) for key in containers)})" for piece in pieces)


def match_resources(pieces: Sequence[SearchPiece], scopes: Sequence[str]) -> str:
    scope_terms, word_terms = " OR ".join(f'"{scope}"' for scope in scopes), " AND ".join(map(_phrase, pieces))
    return f"{{scope}} : ({scope_terms}) AND {{name tags description text}} : ({word_terms})"


def _phrase(piece: SearchPiece, key: str = "") -> str:
    # Words have no quotation marks: they are cut at them.
    words = " ".join(key + word for word in piece.words)
    return f'"{words}" *' if piece.open_ended else f'"{words}"'
