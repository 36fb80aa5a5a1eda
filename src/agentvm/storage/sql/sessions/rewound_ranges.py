"""Rewound ranges — the messages of a large rewind: hidden in one small commit, settled later in slices.

Theory of operation. Between `first` and `last` of a range the session has no current message, and cannot get one, because
positions only increase. Positions of a history need not be in its order, as a message may wait while others are answered; so a
rewind has a range for each run of messages that stood next to each other. The earliest rewind is settled first, because it took
the messages that two ranges share. The ranges themselves are the remaining work, so a crash loses nothing.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from agentvm.model.ids import MessageId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, items_of
from agentvm.storage.sql.sessions.dropping import BYTES_MAX, ROWS_MAX
from agentvm.storage.sql.sessions.index import COUNTED

POSITION_MAX = 2**62

_TAKEN = f"""
SELECT count(*), min(m.position), max(m.position)
FROM ({items_of("?2")}) AS ids {ORDERED_JOIN} messages AS m ON m.session_key = ?1 AND m.message_id = ids.value
"""
_TAKEN_POSITIONS = f"""
SELECT m.position
FROM ({items_of("?2")}) AS ids {ORDERED_JOIN} messages AS m ON m.session_key = ?1 AND m.message_id = ids.value
"""
_COUNT = "SELECT count(*) FROM messages WHERE session_key = ? AND position BETWEEN ? AND ?"
_STANDS_AFTER = "SELECT 1 FROM messages WHERE session_key = ? AND position > ? LIMIT 1"
_POSITIONS = "SELECT position FROM messages WHERE session_key = ? AND position BETWEEN ? AND ? ORDER BY position"
_COUNTED = f"""
SELECT m.position
FROM messages AS m {ORDERED_JOIN} message_facts AS f ON f.position = m.position
WHERE m.session_key = ? AND m.position BETWEEN ? AND ? AND f.kind IN {COUNTED}
ORDER BY m.position
"""
_ADD = "INSERT INTO rewound_ranges (session_key, first, rewind_key, last) VALUES (?, ?, ?, ?)"
_NEXT = "SELECT session_key, first, rewind_key, last FROM rewound_ranges ORDER BY rewind_key, first LIMIT 1"
_SOME = """
SELECT position, length(body) FROM all_messages
WHERE session_key = ? AND rewind_key IS NULL AND position BETWEEN ? AND ?
ORDER BY position LIMIT ?
"""
_TAKE = "UPDATE all_messages SET rewind_key = ? WHERE position = ?"
_DROP = "DELETE FROM rewound_ranges WHERE session_key = ? AND first = ? AND rewind_key = ?"
_LEAVE_SEARCH = (
    "DELETE FROM message_facts WHERE position = ?",
    "DELETE FROM search_pending WHERE position = ?",
)
HIDDEN_HIT = """
EXISTS (SELECT 1 FROM rewound_ranges WHERE session_key > 0) AND EXISTS (
    SELECT 1 FROM rewound_ranges AS r WHERE r.session_key = f.session_key AND f.position BETWEEN r.first AND r.last
)
OR EXISTS (SELECT 1 FROM arriving_messages WHERE session_key > 0) AND EXISTS (
    SELECT 1 FROM arriving_messages AS r JOIN arrivals USING (arrival_key)
    WHERE r.session_key = f.session_key AND f.position BETWEEN r.first AND r.last AND published_at IS NULL
)
"""
"""A condition on the facts `f` of a message: the search index has it, but it was rewound or is still arriving."""


class RewoundRanges(NamedTuple):
    """The rewound messages: the position of the first, the positions of those that count as unread.

    No message stands from `end` on.
    """

    first: int
    counted: Sequence[int]
    end: int


def add_ranges(
    connection: Connection, session_key: int, rewind_key: int, message_ids: Sequence[MessageId]
) -> RewoundRanges | None:
    """Hides the messages that were not rewound before; None if there are none."""
    ids = msgspec.json.encode(message_ids).decode()
    count, first, last = connection.fetch(_TAKEN, (session_key, ids))[0]
    if not count:
        return None
    ranges = [(first, last)]
    if connection.fetch(_COUNT, (session_key, first, last))[0][0] != count:
        removed = {position for (position,) in connection.fetch(_TAKEN_POSITIONS, (session_key, ids))}
        ranges = list(_runs([position for (position,) in connection.fetch(_POSITIONS, (session_key, first, last))], removed))
    counted = [position for run in ranges for (position,) in connection.fetch(_COUNTED, (session_key, *run))]
    is_tail = len(ranges) == 1 and not connection.fetch(_STANDS_AFTER, (session_key, last))
    connection.many(_ADD, ((session_key, low, rewind_key, high) for low, high in ranges))
    return RewoundRanges(first, counted, first if is_tail else POSITION_MAX)


def settle_ranges(connection: Connection) -> bool:
    """Gives some hidden messages their rewind, and takes them out of the search. Whether there may be more."""
    for session_key, first, rewind_key, last in connection.fetch(_NEXT):
        messages = connection.fetch(_SOME, (session_key, first, last, ROWS_MAX))
        size = 0
        for position, weight in messages:
            connection.execute(_TAKE, (rewind_key, position))
            leave_search(connection, position)
            size += weight
            if size >= BYTES_MAX:
                return True
        if len(messages) < ROWS_MAX:
            connection.execute(_DROP, (session_key, first, rewind_key))
        return True
    return False


def leave_search(connection: Connection, position: int) -> None:
    """Takes a message out of the search."""
    connection.search.drop_message(position)
    for leave in _LEAVE_SEARCH:
        connection.execute(leave, (position,))


def _runs(standing: Sequence[int], removed: set[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of taken messages, among those that stand."""
    for is_taken, run in groupby(standing, removed.__contains__):
        if is_taken:
            positions = list(run)
            yield positions[0], positions[-1]
