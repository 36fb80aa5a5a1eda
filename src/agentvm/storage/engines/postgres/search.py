"""Search — the words of messages and resources as PostgreSQL's `tsvector`.

Theory of operation. Words are cut by AgentVM, so PostgreSQL only keeps them with their places. A vector knows places up to
16,383 and 256 of each word, so a long text has several parts, which overlap by as many words as a phrase may have. All pieces
of a question must be in one text, not in one part of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from agentvm.storage.sql.connection import Connection, Row
from agentvm.storage.sql.search_index import IndexName, SearchPiece, Weighed
from agentvm.storage.sql.words import split_words

PART_WORDS_MAX = 4_000
OVERLAP_WORDS_MAX = 64
PLACES_MAX = 250
"""Places of one word that are kept in a part."""
WORD_CHARACTERS = 255
"""Characters of a word that count: PostgreSQL takes at most 2,046 bytes."""

_ADD_MESSAGE = "INSERT INTO message_words (position, part, words) VALUES (?, ?, CAST(? AS tsvector))"
_DROP_MESSAGE = "DELETE FROM message_words WHERE position = ?"
_ADD_RESOURCE = "INSERT INTO resource_texts (resource_key, part, scope, words) VALUES (?, ?, ?, CAST(? AS tsvector))"
_DROP_RESOURCE = "DELETE FROM resource_texts WHERE resource_key = ?"

_ADD_CHUNK = "INSERT INTO knowledge_words (chunk_key, words) VALUES (?, CAST(? AS tsvector))"
_CHUNK_HITS = """
SELECT -ts_rank(words, CAST(?1 AS tsquery), 1) AS weight, chunk_key FROM knowledge_words
WHERE words @@ CAST(?1 AS tsquery) ORDER BY weight, chunk_key LIMIT ?2
"""

_ADD_SIGNS = "INSERT INTO knowledge_signs (index_key, chunk_key, signs) VALUES (?, ?, CAST(? AS bit varying))"
_NEAREST = """
SELECT chunk_key FROM knowledge_signs WHERE index_key = ?1 AND length(signs) = length(CAST(?2 AS bit varying))
ORDER BY bit_count(signs # CAST(?2 AS bit varying)), chunk_key LIMIT ?3
"""

_MESSAGE_HITS = """
SELECT coalesce(json_agg(json_build_array(
    -rank * (1 + 1 / (1 + greatest(CAST(:now AS BIGINT) - at, 0) / CAST(:month AS double precision))), -position
)), '[]')
FROM (
    SELECT w.position, max(ts_rank(w.words, CAST(:all AS tsquery), 1)) AS rank, f.at
    FROM message_words AS w
    JOIN message_facts AS f ON f.position = w.position
    JOIN sessions AS s ON s.session_key = f.session_key
    WHERE {matches} AND {where}
    GROUP BY w.position, f.at
    ORDER BY w.position DESC LIMIT :most
) AS hits
"""

_RESOURCE_HITS = """
WITH hits AS MATERIALIZED (
    SELECT -max(ts_rank('{{0.25, 0.5, 0.75, 1}}', w.words, CAST(:all AS tsquery))) AS weight, r.resource_id
    FROM resource_texts AS w JOIN resources AS r ON r.resource_key = w.resource_key
    WHERE {matches} AND w.scope IN (SELECT value FROM avm_items(:scopes)) AND {where}
    GROUP BY r.resource_id
)
SELECT total, resource_id
FROM (SELECT count(*) AS total FROM hits) AS counted
LEFT JOIN (SELECT * FROM hits WHERE {beyond} ORDER BY weight, resource_id LIMIT :limit OFFSET {skip}) AS page ON true
ORDER BY weight, resource_id
"""
_AFTER = "(weight, resource_id) > (coalesce((SELECT weight FROM hits WHERE resource_id = :id), '-infinity'), :id)"
_SKIP = """
CASE WHEN EXISTS (SELECT 1 FROM hits WHERE resource_id = :id) THEN 0 ELSE CAST(:before AS BIGINT) - 1 END
"""

_weighed = msgspec.json.Decoder(list[Weighed]).decode


class TsvectorIndex:
    """Implements `agentvm.storage.sql.search_index.SearchIndex`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_messages(self, messages: Iterable[tuple[int, str]]) -> None:
        self._connection.many(
            _ADD_MESSAGE,
            [
                (position, part, vector)
                for position, words in messages
                for part, vector in enumerate(vectors([(words.split(" "), "")]))
            ],
        )

    def drop_message(self, position: int) -> None:
        self._connection.execute(_DROP_MESSAGE, (position,))

    def find_messages(
        self, pieces: Sequence[SearchPiece], containers: Sequence[str], where: str, values: dict[str, Any]
    ) -> list[Weighed]:
        questions = [" | ".join(_phrase(piece, key) for key in containers) for piece in pieces]
        matches = _matches(questions, values := dict(values), "message_words", "position")
        query = _MESSAGE_HITS.format(matches=matches, where=where)
        return _weighed(self._connection.fetch(query, values)[0][0])

    def put_resource(self, resource_key: int, columns: Sequence[str] | None) -> None:
        self._connection.execute(_DROP_RESOURCE, (resource_key,))
        if columns is None:
            return
        scopes, *texts = columns
        weighted = [(split_words(text), weight) for text, weight in zip(texts, "ABCD", strict=True)]
        rows = [
            (resource_key, part, scope, vector) for scope in scopes.split(" ") for part, vector in enumerate(vectors(weighted))
        ]
        numbered = [(key, number, scope, vector) for number, (key, _, scope, vector) in enumerate(rows)]
        self._connection.many(_ADD_RESOURCE, numbered)

    def find_resources(
        self, pieces: Sequence[SearchPiece], scopes: Sequence[str], where: str, values: dict[str, Any]
    ) -> list[Row]:
        matches = _matches(list(map(_phrase, pieces)), values := dict(values), "resource_texts", "resource_key")
        values["scopes"] = msgspec.json.encode(scopes).decode()
        beyond, skip = (_AFTER, _SKIP) if values["id"] else ("true", "0")
        query = _RESOURCE_HITS.format(matches=matches, where=where, beyond=beyond, skip=skip)
        return self._connection.fetch(query, values)

    def add_chunks(self, chunks: Iterable[tuple[int, str]]) -> None:
        self._connection.many(
            _ADD_CHUNK,
            [(chunk_key, next(vectors([(words.split(" ")[:PART_WORDS_MAX], "")]), "")) for chunk_key, words in chunks],
        )

    def find_chunks(self, pieces: Sequence[SearchPiece], indexes: Sequence[str], limit: int) -> list[tuple[float, int]]:
        question = " | ".join(_phrase(piece, key) for piece in pieces for key in indexes)
        return [(weight, chunk_key) for weight, chunk_key in self._connection.fetch(_CHUNK_HITS, (question, limit))]

    def add_signs(self, index_key: int, signs: Iterable[tuple[int, bytes]]) -> None:
        self._connection.many(_ADD_SIGNS, [(index_key, chunk_key, _bits(body)) for chunk_key, body in signs])

    def find_nearest(self, index_key: int, signs: bytes, limit: int) -> list[int]:
        return [chunk_key for (chunk_key,) in self._connection.fetch(_NEAREST, (index_key, _bits(signs), limit))]

    def merge(self, index: IndexName, pages: int) -> bool:
        """PostgreSQL does this by itself when it vacuums."""
        return False


def _bits(signs: bytes) -> str:
    return "".join(f"{byte:08b}" for byte in signs)


def vectors(texts: Sequence[tuple[Sequence[str], str]]) -> Iterator[str]:
    """The vectors of texts, each with its weight, a letter or nothing. Between two texts is a gap that no phrase bridges."""
    places: dict[str, list[str]] = {}
    place = 0
    for words, weight in texts:
        start = 0
        while start < len(words):
            if place >= PART_WORDS_MAX:
                yield _literal(places)
                places, place = {}, 0
            piece = words[start : start + PART_WORDS_MAX - place]
            for word in piece:
                place += 1
                positions = places.setdefault(word[:WORD_CHARACTERS], [])
                if len(positions) < PLACES_MAX:
                    positions.append(f"{place}{weight}")
            start += len(piece)
            if start < len(words):
                start -= min(OVERLAP_WORDS_MAX, len(piece) - 1)
        place += 2
    if places:
        yield _literal(places)


def _literal(places: dict[str, list[str]]) -> str:
    return " ".join(f"{_quoted(word)}:{','.join(numbers)}" for word, numbers in places.items() if word)


def _quoted(word: str) -> str:
    # Words have no quotation marks. Were that to change, this would still be no syntax.
    return "'" + word[:WORD_CHARACTERS].replace("\\", "\\\\").replace("'", "''") + "'"


def _phrase(piece: SearchPiece, key: str = "") -> str:
    words = [_quoted(key + word) for word in piece.words]
    if piece.open_ended:
        words[-1] += ":*"
    return f"({' <-> '.join(words)})"


def _matches(questions: Sequence[str], values: dict[str, Any], table: str, key: str) -> str:
    """The condition that a text, of which `w` is a part, has an answer to each question; their values are added."""
    values["all"] = " & ".join(f"({question})" for question in questions)
    conditions = []
    for number, question in enumerate(questions):
        values[name := f"match{number}"] = question
        match = f"words @@ CAST(:{name} AS tsquery)"
        other = f"EXISTS (SELECT 1 FROM {table} AS o WHERE o.{key} = w.{key} AND o.{match})"
        conditions.append(f"w.{match}" if number == 0 else f"(w.{match} OR {other})")
    return " AND ".join(conditions)
