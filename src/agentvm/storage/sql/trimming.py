"""Trimming — deletes expired and excess log chunks, a slice in each commit. A session's newest chunk always stays.

Readers find the chunks, page by page, and the writer only deletes: a log of many gigabytes delays no other work.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial

from agentvm.storage.sql.connection import Connection, Database

PAGE_ROWS_MAX = 2_000
"""Chunks that one read looks at."""
SLICE_ROWS_MAX = 100
"""Chunks that one commit deletes."""
SLICE_BYTES_MAX = 1024 * 1024
"""Bytes that one commit deletes, unless one chunk has more."""

# The newest chunk of a session says how far the session has counted.
_IS_OLD = "last_seq < (SELECT max(last_seq) FROM log AS own WHERE own.session_key = log.session_key)"
_NEWEST_FIRST = """
SELECT made_at, position, length(body) FROM log WHERE (made_at, position) < (?, ?)
ORDER BY made_at DESC, position DESC LIMIT ?
"""
_OLDEST_FIRST = f"""
SELECT made_at, position, length(body), {_IS_OLD} FROM log
WHERE (made_at, position) > (?, ?) AND (made_at, position) <= (?, ?)
ORDER BY made_at, position LIMIT ?
"""
_DROP = f"DELETE FROM log WHERE position = ? AND {_IS_OLD}"
_DROP_READERS = """
DELETE FROM readers WHERE (tenant_id, client_id, session_key) IN (
    SELECT tenant_id, client_id, session_key FROM readers WHERE saved_at < ? LIMIT ?
)
"""
_POSITION_MAX = 2**62

Place = tuple[int, int]
"""A chunk in the order of age: when it was made, and its position."""


async def trim_log(database: Database, made_before: int, max_bytes: int) -> int:
    """See `Store.trim_log`."""
    while await database.write(partial(_drop_readers, before=made_before)):
        pass
    dropped = await _drop_until(database, (made_before, -1))
    surplus = await _find_surplus(database, max_bytes)
    return dropped if surplus is None else dropped + await _drop_until(database, surplus)


async def _find_surplus(database: Database, max_bytes: int) -> Place | None:
    """The newest chunk that does not fit into this many bytes together with the newer ones."""
    place, total = (_POSITION_MAX, _POSITION_MAX), 0
    while page := await database.read(partial(_read, query=_NEWEST_FIRST, values=(*place, PAGE_ROWS_MAX))):
        for made_at, position, size in page:
            total += size
            place = (made_at, position)
            if total > max_bytes:
                return place
    return None


async def _drop_until(database: Database, last: Place) -> int:
    dropped = 0
    async with aclosing(_slices(database, last)) as slices:
        async for positions in slices:
            dropped += await database.write(partial(_drop, positions=positions))
    return dropped


async def _slices(database: Database, last: Place) -> AsyncGenerator[list[int]]:
    place = (-_POSITION_MAX, -1)
    positions: list[int] = []
    total = 0
    while page := await database.read(partial(_read, query=_OLDEST_FIRST, values=(*place, *last, PAGE_ROWS_MAX))):
        for made_at, position, size, is_old in page:
            place = (made_at, position)
            if not is_old:
                continue
            if positions and (len(positions) >= SLICE_ROWS_MAX or total + size > SLICE_BYTES_MAX):
                yield positions
                positions, total = [], 0
            positions.append(position)
            total += size
    if positions:
        yield positions


def _read(connection: Connection, query: str, values: tuple[int, ...]) -> list[tuple[int, ...]]:
    return connection.fetch(query, values)


def _drop(connection: Connection, positions: Sequence[int]) -> int:
    dropped = 0
    for position in positions:
        dropped += connection.execute(_DROP, (position,))
    return dropped


def _drop_readers(connection: Connection, before: int) -> bool:
    return connection.execute(_DROP_READERS, (before, SLICE_ROWS_MAX)) == SLICE_ROWS_MAX
