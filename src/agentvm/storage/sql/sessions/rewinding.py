"""Rewinding — removes messages from the history, the lists and the search, and keeps them.

Theory of operation. A message that was taken back names the rewind that did it, and `messages` shows those that name none.
Rewinds are numbered in order, so the history before one of them consists of the current messages and those removed by that
rewind or a later one, up to the time of that rewind.

A rewind of many messages stores only the ranges of positions that it took, which `messages` leaves out from that commit on.
Its messages get their rewind later, a slice in each commit (`rewound_ranges`). `placed_messages` shows either the same way.
"""

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from agentvm.errors.bounds import HistoryTooLarge
from agentvm.model.ids import MessageId
from agentvm.model.message import Message, decode_message
from agentvm.model.session import Rewind
from agentvm.storage.base import Rewinding
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, greater, lesser, numbers_of
from agentvm.storage.sql.memories import remove_rewound_memories
from agentvm.storage.sql.sessions.index import COUNTED, entry_of
from agentvm.storage.sql.sessions.rewound_ranges import POSITION_MAX, add_ranges, leave_search
from agentvm.storage.sql.sessions.summaries import drop_summaries

LISTED_MAX = 200
TAKEN_MAX = 200
"""Messages that get their rewind in the commit of the rewind itself."""

_LAST = "SELECT coalesce(max(position), 0) FROM all_messages WHERE session_key = ?"
_ADD = "INSERT INTO rewinds (session_key, rewind_id, at, last) VALUES (?, ?, ?, ?) RETURNING rewind_key"
_TAKE = """
UPDATE all_messages SET rewind_key = ?
WHERE position = (SELECT position FROM messages WHERE session_key = ? AND message_id = ?)
RETURNING position
"""
_KIND = "SELECT kind FROM message_facts WHERE position = ?"
_LAST_MESSAGE = f"""
SELECT m.body
FROM messages AS m {ORDERED_JOIN} message_facts AS f ON f.position = m.position
WHERE m.session_key = ? AND m.position < ? AND f.kind IN ('user', 'assistant')
ORDER BY m.position DESC LIMIT 1
"""
_SET_SUMMARY = f"""
UPDATE sessions SET preview = ?1, answers = {greater("answers - ?2", "0")} WHERE session_key = ?3
"""
_STANDS_LAST = "SELECT coalesce(max(position), 0) FROM messages WHERE session_key = ? AND position < ?"
_MARKS = "SELECT reader, device, position FROM read_marks WHERE session_key = ?"
_LOWER_MARK = f"""
UPDATE read_marks SET answers = {greater("answers - ?1", "0")}, position = {lesser("position", "?2")}
WHERE session_key = ?3 AND reader = ?4 AND device = ?5
"""
_REWINDS = """
WITH taken AS MATERIALIZED (
    SELECT rewind_key, count(*) AS messages FROM placed_messages WHERE session_key = ?1 GROUP BY rewind_key
)
SELECT rewind_id, at, coalesce(messages, 0)
FROM rewinds LEFT JOIN taken USING (rewind_key)
WHERE session_key = ?1
ORDER BY rewind_key DESC LIMIT ?2
"""
_REWIND_OF = "SELECT rewind_key, position FROM placed_messages WHERE session_key = ? AND message_id = ?"
_STANDING = "SELECT position, length(body) FROM messages WHERE session_key = ?1 ORDER BY position"
_AS_IT_STOOD = """
SELECT position, length(body) FROM placed_messages
WHERE session_key = ?1 AND (rewind_key IS NULL OR rewind_key >= ?2)
  AND position <= (SELECT last FROM rewinds WHERE rewind_key = ?2)
ORDER BY position
"""
_BODIES = f"SELECT body FROM all_messages WHERE position IN ({numbers_of('?')}) ORDER BY position"


def rewind_messages(connection: Connection, session_key: int, rewinding: Rewinding) -> None:
    """Rewinds the messages that stand. To be done before the new ones are added."""
    last = connection.fetch(_LAST, (session_key,))[0][0]
    rewind_key = connection.fetch(_ADD, (session_key, rewinding.rewind_id, rewinding.at, last))[0][0]
    remove_rewound_memories(connection, session_key, rewinding.message_ids)
    if len(rewinding.message_ids) > TAKEN_MAX:
        ranges = add_ranges(connection, session_key, rewind_key, rewinding.message_ids)
        if ranges is not None:
            drop_summaries(connection, session_key, ranges.first)
            settle(connection, session_key, ranges.counted, ranges.end)
        return
    counted: list[int] = []
    first: int | None = None
    for message_id in rewinding.message_ids:
        for (position,) in connection.fetch(_TAKE, (rewind_key, session_key, message_id)):
            first = position if first is None else min(first, position)
            counted += [position for (kind,) in connection.fetch(_KIND, (position,)) if kind in COUNTED]
            leave_search(connection, position)
    if first is not None:
        drop_summaries(connection, session_key, first)
    settle(connection, session_key, counted)


def settle(connection: Connection, session_key: int, counted: Sequence[int], end: int = POSITION_MAX) -> None:
    """Updates previews and unread counts after messages were removed; `counted` are the positions of answers and errors.

    No message stands from `end` on.
    """
    last_said = connection.fetch(_LAST_MESSAGE, (session_key, end))
    connection.execute(_SET_SUMMARY, (_preview(last_said[0][0]) if last_said else None, len(counted), session_key))
    _lower_marks(connection, session_key, sorted(counted), end)


def _preview(body: bytes) -> str | None:
    try:
        return entry_of(decode_message(body)).preview
    except msgspec.DecodeError:
        # Nobody can read it; what is before it can go all the same.
        return None


def list_rewinds(connection: Connection, session_key: int) -> tuple[Rewind, ...]:
    """The latest first."""
    return tuple(
        Rewind(rewind_id=rewind_id, rewound_at=at, messages=count)
        for rewind_id, at, count in connection.fetch(_REWINDS, (session_key, LISTED_MAX))
    )


def read_as_it_stood(
    connection: Connection, session_key: int, message_id: MessageId, max_bytes: int
) -> tuple[Message, ...] | None:
    """The history when that message was last a part of it, as far as this many bytes reach; None without such a message."""
    rows = connection.fetch(_REWIND_OF, (session_key, message_id))
    if not rows:
        return None
    rewind_key, place = rows[0]
    if rewind_key is None:
        sizes = connection.fetch(_STANDING, (session_key,))
    else:
        sizes = connection.fetch(_AS_IT_STOOD, (session_key, rewind_key))
    positions: list[int] = []
    total = 0
    for position, size in sizes:
        total += size
        if total > max_bytes:
            break
        positions.append(position)
    if not positions or positions[-1] < place:
        raise HistoryTooLarge(
            f"The messages up to {message_id} have more than {max_bytes:,} bytes; choose an earlier message, "
            "or export the session"
        )
    return tuple(decode_message(body) for (body,) in connection.fetch(_BODIES, (msgspec.json.encode(positions).decode(),)))


def _lower_marks(connection: Connection, session_key: int, counted: Sequence[int], end: int) -> None:
    """Lowers the read marks of readers who had read the removed messages."""
    last: int = connection.fetch(_STANDS_LAST, (session_key, end))[0][0]
    for reader, device, place in connection.fetch(_MARKS, (session_key,)):
        lost = bisect_right(counted, place)
        connection.execute(_LOWER_MARK, (lost, last, session_key, reader, device))
