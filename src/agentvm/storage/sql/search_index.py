"""Search index — the words of messages and resources, in SQLite's FTS5. Another engine replaces this file.

The index holds words and places, not texts; who may find them is asked of the tables again.
"""

from collections.abc import Iterable, Sequence

from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, rows_as_json

MESSAGES, RESOURCES = "message_fts", "resource_fts"

_ADD_MESSAGE = "INSERT INTO message_fts (rowid, text) VALUES (?, ?)"
_DROP_MESSAGE = "DELETE FROM message_fts WHERE rowid = ?"
_ADD_RESOURCE = "INSERT INTO resource_fts (rowid, scope, name, tags, description, text) VALUES (?, ?, ?, ?, ?, ?)"
_DROP_RESOURCE = "DELETE FROM resource_fts WHERE rowid = ?"
_TOTAL_CHANGES = "SELECT total_changes()"

MESSAGE_HITS = f"""
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

RESOURCE_HITS = f"""
WITH hits AS MATERIALIZED (
    SELECT bm25(resource_fts, {{weights}}) AS weight, r.resource_id
    FROM resource_fts {ORDERED_JOIN} resources AS r ON r.resource_key = resource_fts.rowid
    WHERE resource_fts MATCH :query AND {{where}}
)
SELECT total, resource_id
FROM (SELECT count(*) AS total FROM hits) AS counted
LEFT JOIN (SELECT * FROM hits WHERE {{beyond}} ORDER BY weight, resource_id LIMIT :limit OFFSET {{skip}}) AS page
ORDER BY weight, resource_id
"""
AFTER_RESOURCE = "(weight, resource_id) > (coalesce((SELECT weight FROM hits WHERE resource_id = :id), -9e999), :id)"
SKIP_RESOURCES = "iif((SELECT count(*) FROM hits WHERE resource_id = :id), 0, :before - 1)"
"""How many hits a page skips whose predecessor ended with a resource that is gone: as many as came before it."""


def add_messages(connection: Connection, messages: Iterable[tuple[int, str]]) -> None:
    """Adds messages, each with its position and its words."""
    connection.many(_ADD_MESSAGE, messages)


def drop_message(connection: Connection, position: int) -> None:
    connection.execute(_DROP_MESSAGE, (position,))


def put_resource(connection: Connection, resource_key: int, columns: Sequence[str] | None) -> None:
    """Replaces the words of a resource: those of its scope, name, tags, description and text. None removes them."""
    connection.execute(_DROP_RESOURCE, (resource_key,))
    if columns is not None:
        connection.execute(_ADD_RESOURCE, (resource_key, *columns))


def merge(connection: Connection, index: str, pages: int) -> bool:
    """Merges some pages of an index, for a negative number of all its segments. Returns whether there may be more to do."""
    before = connection.fetch(_TOTAL_CHANGES)[0][0]
    connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (pages,))
    # As SQLite's documentation says: below two there was nothing left to do.
    return bool(connection.fetch(_TOTAL_CHANGES)[0][0] - before >= 2)
