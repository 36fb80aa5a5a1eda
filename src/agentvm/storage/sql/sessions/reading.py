"""Reading — the messages of a session page by page, and how far each user has read them."""

from typing import Any, NamedTuple

from agentvm.errors import NotFound
from agentvm.model.ids import MessageId, RewindId
from agentvm.model.message import Message, decode_message
from agentvm.storage.sessions import MessagePage, MessageQuery, SessionReader
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, ROWS_MAX
from agentvm.storage.sql.places import read_place, write_place
from agentvm.storage.sql.sessions.index import COUNTED

# Sizes are known without reading the bodies; a body that does not fit is not read.
_PAGE = """
WITH
    page AS MATERIALIZED (
        SELECT position, length(body) AS size FROM {of} AND position {beyond} ? ORDER BY position {order} LIMIT ?
    ),
    summed AS MATERIALIZED (
        SELECT position, sum(size) OVER (ORDER BY position {order} ROWS UNBOUNDED PRECEDING) AS total,
               row_number() OVER (ORDER BY position {order}) AS number
        FROM page
    )
SELECT summed.position, m.body
FROM summed LEFT JOIN all_messages AS m ON m.position = summed.position AND (summed.total <= ? OR summed.number = ?)
ORDER BY summed.number
"""
_AFTER = {"beyond": ">", "order": ""}
_BEFORE = {"beyond": "<", "order": "DESC"}
_PLACE = "SELECT position FROM {of} AND message_id = ?"
_COUNT = "SELECT count(*) FROM {of}"
_IS_SETTLED = "SELECT NOT EXISTS (SELECT 1 FROM rewound_ranges WHERE session_key = ? AND rewind_key = ?)"
_REWIND = "SELECT rewind_key FROM rewinds WHERE session_key = ? AND rewind_id = ?"
_LAST = "SELECT coalesce(max(position), 0) FROM messages WHERE session_key = ?"
_ANSWERS = "SELECT answers FROM sessions WHERE session_key = ?"
_ANSWERS_AFTER = f"""
SELECT count(*)
FROM messages AS m {ORDERED_JOIN} message_facts AS f ON f.position = m.position
WHERE m.session_key = ? AND m.position > ? AND f.kind IN {COUNTED}
"""
# Whoever was quicker or further stays: a mark never goes back.
_MARK = """
INSERT INTO read_marks (session_key, reader, device, position, answers, at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (session_key, reader, device) DO UPDATE
SET position = excluded.position, answers = excluded.answers, at = excluded.at
WHERE excluded.position > read_marks.position
"""
# Devices are named by those who use them.
_DROP_MARKS = f"""
DELETE FROM read_marks WHERE session_key = ?1 AND reader = ?2 AND device IN (
    SELECT device FROM read_marks WHERE session_key = ?1 AND reader = ?2 ORDER BY at DESC, device LIMIT {ROWS_MAX} OFFSET ?3
)
"""
MARKS_MAX = 100
"""Devices of one reader whose marks in a session are kept."""
_POSITION_MAX = 2**62

Row = tuple[int, Message]


class MessageSource(NamedTuple):
    """The messages of a session that stand, or those that a rewind took back."""

    rows: str
    values: tuple[int, ...]

    def fetch(self, connection: Connection, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return connection.fetch(query.replace("{of}", self.rows), (*self.values, *values))


def read_messages(connection: Connection, session_key: int, query: MessageQuery) -> MessagePage:
    of = standing(session_key) if query.rewind is None else _rewound(connection, session_key, query.rewind)
    total: int = of.fetch(connection, _COUNT)[0][0]
    if query.around is not None:
        return _around(connection, of, query, query.around, total)
    newest = query.order == "newest"
    start = _POSITION_MAX if newest else 0
    if query.cursor is not None:
        (start,) = read_place(query.cursor, tuple[int])
    page, more, cut = _read(connection, of, _BEFORE if newest else _AFTER, start, query, query.limit, query.max_bytes)
    return MessagePage(
        messages=tuple(message for _, message in page),
        total=total,
        next=write_place(page[-1][0]) if page and more else None,
        previous=write_place(page[0][0]) if page and query.cursor is not None else None,
        cut=cut,
    )


def mark(
    connection: Connection,
    session_key: int,
    reader: SessionReader,
    now: int,
    *,
    cursor: str | None,
    message_id: MessageId | None,
) -> None:
    last: int = connection.fetch(_LAST, (session_key,))[0][0]
    position = last
    if cursor is not None:
        # No further than there is something to be read.
        position = min(last, read_place(cursor, tuple[int])[0])
    elif message_id is not None:
        position = find(connection, standing(session_key), message_id)
    answers: int = connection.fetch(_ANSWERS, (session_key,))[0][0]
    # Not below: those from before answers were counted are none.
    read = max(0, answers - connection.fetch(_ANSWERS_AFTER, (session_key, position))[0][0])
    for device in dict.fromkeys(("", reader.device)):
        connection.execute(_MARK, (session_key, reader.user, device, position, read, now))
    # The mark of no device in particular is the newest, with that of this one.
    connection.execute(_DROP_MARKS, (session_key, reader.user, MARKS_MAX))


def standing(session_key: int) -> MessageSource:
    return MessageSource("messages WHERE session_key = ?", (session_key,))


def _rewound(connection: Connection, session_key: int, rewind_id: RewindId) -> MessageSource:
    rows = connection.fetch(_REWIND, (session_key, rewind_id))
    if not rows:
        raise NotFound(f"There is no rewind {rewind_id} of this session")
    values = (session_key, rows[0][0])
    # The index knows those that name their rewind.
    table = "all_messages" if connection.fetch(_IS_SETTLED, values)[0][0] else "placed_messages"
    return MessageSource(f"{table} WHERE session_key = ? AND rewind_key = ?", values)


def find(connection: Connection, of: MessageSource, message_id: MessageId) -> int:
    rows = of.fetch(connection, _PLACE, (message_id,))
    if not rows:
        raise NotFound(f"There is no message {message_id} in this session")
    return int(rows[0][0])


def _around(connection: Connection, of: MessageSource, query: MessageQuery, message_id: MessageId, total: int) -> MessagePage:
    place = find(connection, of, message_id)
    half_bytes = query.max_bytes // 2
    before, more_before, cut_before = _read(connection, of, _BEFORE, place, query, query.limit // 2, half_bytes)
    after, more_after, cut_after = _read(connection, of, _AFTER, place - 1, query, query.limit - len(before), half_bytes)
    page = [*reversed(before), *after]
    return MessagePage(
        messages=tuple(message for _, message in page),
        total=total,
        next=write_place(page[-1][0]) if page and more_after else None,
        previous=write_place(page[0][0]) if page and more_before else None,
        cut=cut_before or cut_after,
    )


def _read(
    connection: Connection,
    of: MessageSource,
    direction: dict[str, str],
    start: int,
    page: MessageQuery,
    limit: int,
    max_bytes: int,
) -> tuple[list[Row], bool, bool]:
    """The rows that fit, whether there are more, and whether that is because of their size."""
    query = _PAGE.format(of=of.rows, **direction)
    rows = of.fetch(connection, query, (start, limit + 1, max_bytes, 0 if page.strict else 1))
    fitting = [(position, decode_message(body)) for position, body in rows[:limit] if body is not None]
    return fitting, len(rows) > len(fitting), len(rows[:limit]) > len(fitting)
