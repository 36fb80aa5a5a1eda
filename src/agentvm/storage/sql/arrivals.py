"""Arrivals — rows that are added over several commits and become visible all at once, or never.

Theory of operation. All tenants share the writer, and an import may have hundreds of megabytes. So its rows are written in
small commits, with other people's commits in between. Each row names its arrival, and readers leave out rows of arrivals that
are not published (`rows.is_here`). To publish an arrival is to update its one row, however much has come. Messages that
continue a session which is here already are hidden by their range of positions, like those of a large rewind; the time and the
preview of such sessions are updated in the commits that follow. The rest after a crash is finished at the next start: an
arrival that was published is settled, any other is deleted, a slice in each commit.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from agentvm.storage.sql.attachments import drop_arriving_attachments, drop_released
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import greater
from agentvm.storage.sql.rows import drop_snapshot
from agentvm.storage.sql.sessions.dropping import COLUMNS, ROWS_MAX, SessionRow, drop_slice

SETTLED_MAX = 100
"""Continued sessions that one commit updates."""

_BEGIN = "INSERT INTO arrivals (published_at, node_id) VALUES (NULL, ?) RETURNING arrival_key"
_PUBLISH = "UPDATE arrivals SET published_at = ? WHERE arrival_key = ?"
_LEFT = "SELECT arrival_key, published_at IS NOT NULL FROM arrivals WHERE {which} ORDER BY arrival_key"
_ALL, _OF_ENDED = "1 = 1", "node_id NOT IN (SELECT node_id FROM nodes WHERE state = 'up')"
_END = "DELETE FROM arrivals WHERE arrival_key = ?"
_CONTINUED = """
SELECT updated_at, last_message_at, preview, session_key FROM arriving_messages WHERE arrival_key = ? LIMIT ?
"""
_CONTINUE = f"""
UPDATE sessions
SET updated_at = {greater("updated_at", "?1")},
    last_message_at = coalesce({greater("coalesce(last_message_at, 0)", "?2")}, last_message_at),
    preview = coalesce(?3, preview)
WHERE session_key = ?4
"""
_DROP_RANGE = "DELETE FROM arriving_messages WHERE session_key = ? AND arrival_key = ?"
_SESSIONS = f"SELECT {COLUMNS} FROM sessions WHERE arrival_key = ? LIMIT ?"
_RANGES = "SELECT session_key, first, last FROM arriving_messages WHERE arrival_key = ? LIMIT 1"
_DROP_MESSAGES = """
DELETE FROM all_messages WHERE position IN (
    SELECT position FROM all_messages WHERE session_key = ? AND position BETWEEN ? AND ? LIMIT ?
)
"""
_DROP_TURNS = "DELETE FROM turns WHERE position IN (SELECT position FROM turns WHERE arrival_key = ? LIMIT ?)"
_DROP_IMAGES = """
DELETE FROM images WHERE position IN (SELECT position FROM images WHERE arrival_key = ? LIMIT ?) RETURNING digest
"""
_DROP_ITEMS = tuple(
    f"DELETE FROM {table} WHERE position IN (SELECT position FROM {table} WHERE arrival_key = ? LIMIT ?)"
    for table in ("memories", "schedules", "triggers")
)
_DROP_CONTAINERS = "DELETE FROM containers WHERE position IN (SELECT position FROM containers WHERE arrival_key = ? LIMIT ?)"


class Arrival:
    """Rows that are written under `arrival_key` and hidden until `publish`."""

    def __init__(self, database: Database, arrival_key: int) -> None:
        self._database = database
        self.arrival_key = arrival_key
        self.is_published = False

    async def publish(self, now: int, check: Callable[[Connection], None] = lambda connection: None) -> None:
        """Shows all rows by one short commit, unless the check raises."""

        def work(connection: Connection) -> bool:
            check(connection)
            connection.execute(_PUBLISH, (now, self.arrival_key))
            return settle_slice(connection, self.arrival_key)

        more = await self._database.write(work)
        self.is_published = True
        if more:
            await _repeat(self._database, settle_slice, self.arrival_key)


@asynccontextmanager
async def open_arrival(database: Database) -> AsyncGenerator[Arrival]:
    """An arrival of which nothing is left unless the block publishes it."""
    rows = await database.write(lambda connection: connection.fetch(_BEGIN, (database.node_id,)))
    arrival = Arrival(database, rows[0][0])
    try:
        yield arrival
    finally:
        if not arrival.is_published:
            with anyio.CancelScope(shield=True):
                await _give_up(database, arrival.arrival_key)


async def finish_arrivals(database: Database) -> None:
    """Settles the arrivals that a previous process had published, and deletes those that it had not.

    In a cluster those of nodes that have ended: others are still coming in.
    """
    query = _LEFT.format(which=_OF_ENDED if database.node_id else _ALL)
    for arrival_key, is_published in await database.read(lambda connection: connection.fetch(query)):
        if is_published:
            await _repeat(database, settle_slice, arrival_key)
        else:
            await _give_up(database, arrival_key)


async def _give_up(database: Database, arrival_key: int) -> None:
    await _repeat(database, drop_arrival_slice, arrival_key)
    await drop_released(database)


async def _repeat(database: Database, work: Callable[[Connection, int], bool], arrival_key: int) -> None:
    while await database.write(lambda connection: work(connection, arrival_key)):
        pass


def settle_slice(connection: Connection, arrival_key: int) -> bool:
    """Updates some continued sessions of a published arrival; whether there may be more. The last one ends the arrival."""
    continued = connection.fetch(_CONTINUED, (arrival_key, SETTLED_MAX))
    for *about, session_key in continued:
        connection.execute(_CONTINUE, (*about, session_key))
        connection.execute(_DROP_RANGE, (session_key, arrival_key))
    if len(continued) == SETTLED_MAX:
        return True
    connection.execute(_END, (arrival_key,))
    return False


def drop_arrival_slice(connection: Connection, arrival_key: int) -> bool:
    """Deletes some rows of an arrival that is given up; whether there may be more. References to a row are deleted before
    it."""
    slice_args = (arrival_key, ROWS_MAX)
    if sessions := [SessionRow(*row) for row in connection.fetch(_SESSIONS, slice_args)]:
        drop_slice(connection, sessions)
        return True
    for session_key, first, last in connection.fetch(_RANGES, (arrival_key,)):
        if connection.execute(_DROP_MESSAGES, (session_key, first, last, ROWS_MAX)) < ROWS_MAX:
            connection.execute(_DROP_RANGE, (session_key, arrival_key))
        return True
    if any(connection.execute(statement, slice_args) for statement in (_DROP_TURNS, *_DROP_ITEMS)):
        return True
    if images := connection.fetch(_DROP_IMAGES, slice_args):
        for (digest,) in images:
            drop_snapshot(connection, digest)
        return True
    if drop_arriving_attachments(connection, arrival_key) or connection.execute(_DROP_CONTAINERS, slice_args):
        return True
    connection.execute(_END, (arrival_key,))
    return False
