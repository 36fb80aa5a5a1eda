"""Journal entries — the events of all sessions in one commit of a node, until the log of each session contains them."""

from collections.abc import Iterable, Sequence

from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.erasing.rows import pass_journal

_ADD_ENTRY = "INSERT INTO journal (body, node_id) VALUES (?, ?) RETURNING entry"
_ENTRIES = "SELECT entry, body FROM journal WHERE entry > ? AND entry <= ?{of} ORDER BY entry"
_ENTRY_SIZES = "SELECT entry, length(body) FROM journal WHERE entry > ?{of} ORDER BY entry LIMIT 10000"
_ENTRY_MAX = 2**62
_FORGET_ENTRIES = """
DELETE FROM journal WHERE entry IN (
    SELECT entry FROM journal WHERE {of}entry < ? ORDER BY entry LIMIT ?
)
"""
_LAST_ENTRY = "SELECT coalesce(max(entry), 0) FROM journal WHERE node_id = ?"
_FIRST_ENTRY = "SELECT min(entry) FROM journal"
FORGOTTEN_MAX = 500
"""Entries of the journal that one commit drops: a turn of an hour leaves many thousand."""


def add_entry(connection: Connection, body: bytes, node_id: int) -> int:
    """Returns the number of the entry."""
    number: int = connection.fetch(_ADD_ENTRY, (body, node_id))[0][0]
    return number


def read_entries(
    connection: Connection, after: int, max_bytes: int | None, node_id: int | None
) -> tuple[tuple[int, bytes], ...]:
    """The next entries of a node, or of all; see `Store.read_journal`."""
    of, node = ("", ()) if node_id is None else (" AND node_id = ?", (node_id,))
    last = _ENTRY_MAX
    if max_bytes is not None:
        last = _last_entry(connection.fetch(_ENTRY_SIZES.format(of=of), (after, *node)), after, max_bytes)
    return tuple((entry, body) for entry, body in connection.fetch(_ENTRIES.format(of=of), (after, last, *node)))


def last_entry(connection: Connection, node_id: int) -> int:
    """The number of the last entry of a node; 0 if it has none."""
    number: int = connection.fetch(_LAST_ENTRY, (node_id,))[0][0]
    return number


def forget_entries(connection: Connection, before: int, node_id: int) -> bool:
    """Drops some entries of a node; whether there may be more. A server alone also drops the entries of an earlier cluster."""
    of, node = ("node_id = ? AND ", (node_id,)) if node_id else ("", ())
    if connection.execute(_FORGET_ENTRIES.format(of=of), (*node, before, FORGOTTEN_MAX)) == FORGOTTEN_MAX:
        return True
    # Entries of other nodes may be older.
    first = connection.fetch(_FIRST_ENTRY)[0][0] if node_id else None
    pass_journal(connection, before if first is None else min(first, before))
    return False


def _last_entry(sizes: Iterable[Sequence[int]], after: int, max_bytes: int) -> int:
    last, total = after, 0
    for entry, size in sizes:
        total += size
        if last != after and total > max_bytes:
            break
        last = entry
    return last
