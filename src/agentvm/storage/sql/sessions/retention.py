"""RetentionStore — deletes the expired data of one tenant.

Theory of operation. A session is deleted in two steps: it is marked, which is one row, and then purged like any deleted one;
its mark is so old that it cannot be restored. Turns go whole. Their events, and all earlier ones of the log, are deleted in
the same commit. The newest chunk of a log stays, emptied, because it contains the last event number; a request for a deleted
event gets `resync_required`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.retention import RetentionCutoffs
from agentvm.model.session import STATELESS, UNSTORED, Session
from agentvm.storage.retention import NOTHING, Expiring, ExpiringPage, OldTurn, SessionAddress, SessionAddressPage, Weight
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, items_of, total
from agentvm.storage.sql.file_changes import keep_files
from agentvm.storage.sql.records import TenantScope
from agentvm.storage.sql.rows import IS_LISTED, SESSION_COLUMNS, decode_session, is_present
from agentvm.storage.sql.sessions.dropping import BYTES_MAX, FOR_GOOD_MS, ROWS_MAX, drop_light
from agentvm.storage.sql.sessions.index import COUNTED
from agentvm.storage.sql.sessions.old_turns import find_old_turns
from agentvm.storage.sql.sessions.rewinding import settle
from agentvm.storage.sql.sessions.summaries import drop_summaries

_encode = msgspec.json.Encoder().encode

_ENDED = "NOT EXISTS (SELECT 1 FROM turns AS t WHERE t.session_key = s.session_key AND t.outcome IS NULL)"
_OF = f"s.tenant_id = :tenant AND s.deleted_at IS NULL AND {is_present('s')} AND {_ENDED}"
_CUT = "CASE WHEN archived_at IS NULL THEN CAST(:sessions AS BIGINT) ELSE CAST(:archived AS BIGINT) END"
# Nothing is less than NULL.
_IDLE = f"""
{_OF} AND {IS_LISTED} AND s.is_pinned = 0 AND s.active_at < CAST(:latest AS BIGINT) AND s.active_at < {_CUT}
"""
# By their names: few tenants have such sessions, and nobody else's are looked at for them.
_IDLE_STATELESS = f"""
{_OF} AND {IS_LISTED} AND s.is_pinned = 0 AND s.archived_at IS NOT NULL AND s.active_at < CAST(:stateless AS BIGINT)
AND s.session_key IN (SELECT a.session_key FROM aliases AS a WHERE a.tenant_id = :tenant AND a.gateway = '{STATELESS}')
"""
_IS_DEFAULT = """
EXISTS (
    SELECT 1 FROM images AS i WHERE i.tenant_id = s.tenant_id AND i.image_id = s.image_id AND i.session_id = s.session_id
)
"""
_COUNT_MESSAGES = f"SELECT count(*), {total('length(m.body)')} FROM all_messages AS m WHERE m.session_key = ?"
_EXPIRING_OF = f"""
SELECT s.session_key, {_IS_DEFAULT}, {SESSION_COLUMNS}
FROM sessions AS s
WHERE {{idle}} AND s.session_key > :after
  AND (NOT {_IS_DEFAULT} OR EXISTS (SELECT 1 FROM all_messages AS m WHERE m.session_key = s.session_key))
ORDER BY s.session_key LIMIT :limit
"""
_EXPIRING, _EXPIRING_STATELESS = _EXPIRING_OF.format(idle=_IDLE), _EXPIRING_OF.format(idle=_IDLE_STATELESS)
_EXPIRE = f"""
UPDATE sessions AS s SET deleted_at = {FOR_GOOD_MS}
WHERE (({_IDLE}) OR ({_IDLE_STATELESS})) AND NOT {_IS_DEFAULT} AND s.session_id IN ({items_of(":wanted")})
RETURNING {SESSION_COLUMNS.replace("s.", "")}
"""
_EXPIRE_UNSTORED = f"""
UPDATE sessions AS s SET deleted_at = {FOR_GOOD_MS}
WHERE {_OF} AND NOT {_IS_DEFAULT} AND s.session_id IN (
    SELECT u.session_id FROM aliases AS a JOIN sessions AS u USING (session_key)
    WHERE a.tenant_id = :tenant AND a.gateway = '{UNSTORED}' AND u.deleted_at IS NULL
      AND (SELECT max(t.ended_at) FROM turns AS t WHERE t.session_key = u.session_key) < :before
    LIMIT :limit
)
RETURNING {SESSION_COLUMNS.replace("s.", "")}
"""
_REVIVE = f"""
UPDATE sessions SET deleted_at = NULL
WHERE tenant_id = ? AND deleted_at = {FOR_GOOD_MS} AND session_id IN ({items_of("?")})
"""
# Sub-agents go with the turn that has called them.
_EXPIRE_CALLED = f"""
UPDATE sessions SET deleted_at = {FOR_GOOD_MS} WHERE root_turn = ?2
  AND tenant_id = (SELECT parent.tenant_id FROM sessions AS parent WHERE parent.session_key = ?1)
"""
_WEIGH_REWOUND = f"""
SELECT count(*), {total("length(m.body)")}
FROM rewinds AS r
JOIN sessions AS s ON s.session_key = r.session_key
JOIN all_messages AS m ON m.session_key = r.session_key AND m.rewind_key = r.rewind_key
WHERE r.at < :rewound AND {_OF} AND ({_IDLE}) IS NOT TRUE
"""
_WITH_REWOUND = f"""
SELECT DISTINCT s.session_key, s.container_id, s.session_id
FROM rewinds AS w {ORDERED_JOIN} sessions AS s ON s.session_key = w.session_key
WHERE w.at < :before AND w.session_key > :after AND {_OF}
ORDER BY s.session_key LIMIT :limit
"""
# One whose messages do not name it yet waits for the next time.
_REWINDS = """
SELECT rewind_key, at FROM rewinds AS w
WHERE session_key = ? AND at < ? AND NOT EXISTS (
    SELECT 1 FROM rewound_ranges AS r WHERE r.session_key = w.session_key AND r.rewind_key = w.rewind_key
)
ORDER BY rewind_key
"""
_DROP_REWOUND = """
DELETE FROM all_messages
WHERE position IN (
    SELECT position FROM all_messages WHERE session_key = ? AND rewind_key = ? ORDER BY position DESC LIMIT ?
)
RETURNING length(body)
"""
_DROP_REWIND = "DELETE FROM rewinds WHERE rewind_key = ?"
_WITH_OLD = f"""
SELECT s.session_key, s.container_id, s.session_id
FROM sessions AS s
WHERE {_OF} AND s.session_key > :after AND coalesce((
    SELECT f.at < :before FROM message_facts AS f
    WHERE f.position = (SELECT m.position FROM messages AS m WHERE m.session_key = s.session_key ORDER BY m.position LIMIT 1)
), EXISTS (SELECT 1 FROM messages AS m WHERE m.session_key = s.session_key))
ORDER BY s.session_key LIMIT :limit
"""
_KEY = f"SELECT s.session_key FROM sessions AS s WHERE {_OF} AND s.container_id = :container AND s.session_id = :session"
_MESSAGE = """
SELECT m.position, length(m.body), f.kind
FROM messages AS m LEFT JOIN message_facts AS f ON f.position = m.position
WHERE m.session_key = ? AND m.message_id = ?
"""
_DROP_MESSAGE = "DELETE FROM all_messages WHERE position = ?"
_DROP_TURN = "DELETE FROM turns WHERE session_key = ? AND turn_id = ? AND outcome IS NOT NULL RETURNING ended_at"
# The chunk in which it was told is the first that was made since.
_LAST_SEQ_AT = """
SELECT coalesce(min(last_seq), (SELECT max(last_seq) FROM log WHERE session_key = ?1))
FROM log WHERE session_key = ?1 AND made_at >= ?2
"""
_LAST_SEQ = "SELECT max(last_seq) FROM log WHERE session_key = ?"
_DROP_CHUNKS = "DELETE FROM log WHERE session_key = ? AND last_seq <= ? AND last_seq < ?"
_SOME_CHUNKS = """
SELECT position, length(body) FROM log WHERE session_key = ? AND last_seq < ? ORDER BY last_seq LIMIT ?
"""
_DROP_CHUNK = "DELETE FROM log WHERE position = ?"
_SOME_MESSAGES = "SELECT position, length(body) FROM all_messages WHERE session_key = ? LIMIT ?"
_REWOUND_LAST = "SELECT max(at) FROM rewinds WHERE session_key = ? AND at < ?"
_ENDED_LAST = f"SELECT max(ended_at) FROM turns WHERE session_key = ? AND turn_id IN ({items_of('?')})"
_EMPTY_CHUNK = "UPDATE log SET first_seq = last_seq + 1, body = ? WHERE session_key = ? AND last_seq = ? AND last_seq <= ?"
_CLEAR = f"""
SELECT s.session_key FROM sessions AS s WHERE {_IDLE} AND {_IS_DEFAULT} AND s.session_id = :session
"""
_CLEARED = """
UPDATE sessions SET title = NULL, preview = NULL, last_message_at = NULL, answers = 0, updated_at = ? WHERE session_key = ?
"""
# What somebody writes now is theirs to send.
_CLEAR_DRAFTS = f"""
DELETE FROM drafts WHERE session_key = :key
  AND updated_at < (SELECT {_CUT} FROM sessions WHERE session_key = :key)
"""
_CLEARED_TABLES = ("rewinds", "rewound_ranges", "summaries", "turns", "read_marks")
_READ = f"SELECT {SESSION_COLUMNS} FROM sessions AS s WHERE s.session_key = ?"


class RetentionStore(TenantScope):
    """The retention of one tenant."""

    async def expiring(self, cut: RetentionCutoffs, after: int = 0, *, limit: int = 100) -> ExpiringPage:
        """Sessions that go, or are emptied; only if their turns have ended."""
        return await self._some(_EXPIRING, {**self._cut(cut), "after": after, "limit": limit})

    async def expiring_stateless(self, cut: RetentionCutoffs, after: int = 0, *, limit: int = 100) -> ExpiringPage:
        """The same of archived sessions whose client sends the whole history each time."""
        values = {"tenant": self._tenant_id, "stateless": cut.stateless, "after": after, "limit": limit}
        return await self._some(_EXPIRING_STATELESS, values)

    async def _some(self, statement: str, values: dict[str, object]) -> ExpiringPage:
        def read(connection: Connection) -> ExpiringPage:
            rows = connection.fetch(statement, values)
            items = tuple(
                Expiring(decode_session(row), bool(is_default), Weight(*connection.fetch(_COUNT_MESSAGES, (key,))[0]))
                for key, is_default, *row in rows
            )
            return ExpiringPage(items, rows[-1][0] if len(rows) == values["limit"] else None)

        return await self._database.read(read, unhurried=True)

    async def expire(self, session_ids: Sequence[SessionId], cut: RetentionCutoffs) -> tuple[Session, ...]:
        """Permanently hides the sessions that are still expired: the next `purge_sessions` drops them."""
        values = {**self._cut(cut), "stateless": cut.stateless, "wanted": _encode(session_ids).decode()}

        def work(connection: Connection) -> tuple[Session, ...]:
            return tuple(decode_session(row) for row in connection.fetch(_EXPIRE, values))

        return await self._database.write(work)

    async def expire_unstored(self, before: int, *, limit: int = 100) -> tuple[Session, ...]:
        """Marks for deletion sessions that are not to be stored, and whose turns ended before then."""
        values = {"tenant": self._tenant_id, "before": before, "limit": limit}

        def work(connection: Connection) -> tuple[Session, ...]:
            return tuple(decode_session(row) for row in connection.fetch(_EXPIRE_UNSTORED, values))

        return await self._database.write(work)

    async def revive(self, session_ids: Sequence[SessionId]) -> None:
        """Shows expired sessions again, before they are purged."""
        values = (self._tenant_id, _encode(session_ids).decode())
        await self._database.write(lambda connection: connection.fetch(_REVIVE, values))

    async def rewound(self, cut: RetentionCutoffs) -> Weight:
        """The weight of rewound messages that expire in sessions that stay."""
        values = {**self._cut(cut), "rewound": cut.rewound}
        return await self._database.read(
            lambda connection: Weight(*connection.fetch(_WEIGH_REWOUND, values)[0]), unhurried=True
        )

    async def with_rewound(self, before: int, after: int = 0, *, limit: int = 100) -> SessionAddressPage:
        """Sessions with messages that were rewound before then."""
        return await self._places(_WITH_REWOUND, before, after, limit)

    async def drop_rewound(self, place: SessionAddress, before: int, *, limit: int = 500) -> Weight:
        """Drops that, at most so many messages, of each rewind the last first; less than `limit` when nothing is left."""
        await self._forget_delivered(place, _REWOUND_LAST, before)

        def work(connection: Connection) -> Weight:
            key = self._find(connection, place)
            return NOTHING if key is None else _drop_rewound(connection, key, before, limit)

        return await self._database.write(work)

    async def with_old_turns(self, before: int, after: int = 0, *, limit: int = 100) -> SessionAddressPage:
        """Sessions that may have turns which ended before then."""
        return await self._places(_WITH_OLD, before, after, limit)

    async def old_turns(self, place: SessionAddress, before: int | None) -> tuple[OldTurn, ...]:
        """The turns of a session that ended before then, the oldest first; for None all that have ended."""

        def read(connection: Connection) -> tuple[OldTurn, ...]:
            key = self._find(connection, place)
            return () if key is None else find_old_turns(connection, key, before)

        return await self._database.read(read)

    async def drop_turns(self, place: SessionAddress, turns: Sequence[OldTurn]) -> Weight:
        """Deletes turns with their messages and their part of the log. Nothing if a turn has begun in the meantime."""
        await self._forget_delivered(place, _ENDED_LAST, _encode([turn.turn_id for turn in turns]).decode())

        def work(connection: Connection) -> Weight:
            key = self._find(connection, place)
            return NOTHING if key is None else _drop(connection, key, turns)

        return await self._database.write(work)

    async def clear(self, session_id: SessionId, cut: RetentionCutoffs, now: int) -> Session | None:
        """Resets a default session whose turns were deleted; None if it has new messages."""
        values = {**self._cut(cut), "session": session_id}

        def some(connection: Connection) -> bool:
            return any(_clear_slice(connection, key) for (key,) in connection.fetch(_CLEAR, values))

        while await self._database.write(some):
            pass

        def work(connection: Connection) -> Session | None:
            for (key,) in connection.fetch(_CLEAR, values):
                connection.execute(_CLEAR_DRAFTS, {**values, "key": key})
                _forget_delivered(connection, key, None)
                connection.execute(_CLEARED, (now, key))
                return decode_session(connection.fetch(_READ, (key,))[0])
            return None

        return await self._database.write(work)

    async def _forget_delivered(self, place: SessionAddress, query: str, value: str | int) -> None:
        """Deletes the log up to the time that the query finds, a slice in each commit."""

        def some(connection: Connection) -> bool:
            key = self._find(connection, place)
            until = None if key is None else connection.fetch(query, (key, value))[0][0]
            return key is not None and until is not None and _forget_slice(connection, key, until)

        while await self._database.write(some):
            pass

    async def _places(self, query: str, before: int, after: int, limit: int) -> SessionAddressPage:
        values = {"tenant": self._tenant_id, "before": before, "after": after, "limit": limit}

        def read(connection: Connection) -> SessionAddressPage:
            rows = connection.fetch(query, values)
            items = tuple(
                SessionAddress(ContainerId(container_id), SessionId(session_id)) for _, container_id, session_id in rows
            )
            return SessionAddressPage(items, rows[-1][0] if len(rows) == limit else None)

        return await self._database.read(read, unhurried=True)

    def _cut(self, cut: RetentionCutoffs) -> dict[str, Any]:
        # With the later of both moments an index leads to the idle sessions: those in use are not looked at.
        latest = max((at for at in (cut.sessions, cut.archived) if at is not None), default=None)
        return {"tenant": self._tenant_id, "sessions": cut.sessions, "archived": cut.archived, "latest": latest}

    def _find(self, connection: Connection, place: SessionAddress) -> int | None:
        """None for one that is gone, or in which a turn has no end."""
        values = {"tenant": self._tenant_id, "container": place.container_id, "session": place.session_id}
        rows = connection.fetch(_KEY, values)
        return int(rows[0][0]) if rows else None


def _drop_rewound(connection: Connection, session_key: int, before: int, limit: int) -> Weight:
    dropped: list[int] = []
    for rewind_key, at in connection.fetch(_REWINDS, (session_key, before)):
        room = limit - len(dropped)
        if room <= 0:
            break
        gone = [size for (size,) in connection.fetch(_DROP_REWOUND, (session_key, rewind_key, room))]
        dropped += gone
        _forget_delivered(connection, session_key, at)
        if len(gone) < room:
            connection.execute(_DROP_REWIND, (rewind_key,))
    return Weight(len(dropped), sum(dropped))


def _drop(connection: Connection, session_key: int, turns: Sequence[OldTurn]) -> Weight:
    weight, counted, session_rows = NOTHING, list[int](), list[int]()
    if turns:
        # Whatever they sum up begins with what goes.
        drop_summaries(connection, session_key, 0)
    for turn in turns:
        for message_id in turn.message_ids:
            for position, size, kind in connection.fetch(_MESSAGE, (session_key, message_id)):
                keep_files(connection, session_key, position)
                connection.execute(_DROP_MESSAGE, (position,))
                weight += Weight(1, size)
                if kind in COUNTED:
                    counted.append(position)
        if turn.turn_id is not None:
            session_rows += [ended_at for (ended_at,) in connection.fetch(_DROP_TURN, (session_key, turn.turn_id))]
            connection.execute(_EXPIRE_CALLED, (session_key, turn.turn_id))
    settle(connection, session_key, counted)
    if session_rows:
        _forget_delivered(connection, session_key, max(session_rows))
    return weight


def _forget_delivered(connection: Connection, session_key: int, until: int | None) -> None:
    """Deletes the log up to the events of that time, or all of it. Later events can be sent as before."""
    for last, newest in _seq_range(connection, session_key, until):
        connection.execute(_DROP_CHUNKS, (session_key, last, newest))
        connection.execute(_EMPTY_CHUNK, (b"", session_key, newest, last))


def _seq_range(connection: Connection, session_key: int, until: int | None) -> Iterator[tuple[int, int]]:
    """The last seq that was told then, and the last of all; nothing for an empty log."""
    newest: int | None = connection.fetch(_LAST_SEQ, (session_key,))[0][0]
    if newest is not None:
        last: int = newest if until is None else connection.fetch(_LAST_SEQ_AT, (session_key, until))[0][0]
        yield last, newest


def _forget_slice(connection: Connection, session_key: int, until: int | None) -> bool:
    """Drops some chunks that `_forget_delivered` would drop, but not the last, by which they are found. Returns whether others
    are left."""
    for last, _ in _seq_range(connection, session_key, until):
        return _drop_rows(connection, _DROP_CHUNK, connection.fetch(_SOME_CHUNKS, (session_key, last, ROWS_MAX)))
    return False


def _clear_slice(connection: Connection, session_key: int) -> bool:
    """Drops some of the files, the rewound messages, the log and the other data of a session; whether there may be more."""
    if any(drop_light(connection, session_key, table) for table in ("file_changes", "file_claims")):
        return True
    if _drop_rows(connection, _DROP_MESSAGE, connection.fetch(_SOME_MESSAGES, (session_key, ROWS_MAX))):
        return True
    if _forget_slice(connection, session_key, None):
        return True
    return any(drop_light(connection, session_key, table) for table in _CLEARED_TABLES)


def _drop_rows(connection: Connection, drop: str, rows: Sequence[tuple[int, int]]) -> bool:
    """Drops as many rows, each a position and a size, as one commit may; whether so many that others may be left."""
    size = 0
    for position, weight in rows:
        connection.execute(drop, (position,))
        size += weight
        if size >= BYTES_MAX:
            return True
    return len(rows) == ROWS_MAX
