"""Summaries — the summaries of sessions, and the messages that they do not cover.

Theory of operation. A summary stands for whole exchanges from the beginning on. Messages that are not covered have a position
from `next` on; those of turns that are covered are left out by their ids. A prompt therefore takes one read of the newest
summary and the later messages, regardless of the length of the session. Rewinds take messages back by number: a summary is
dropped with the first that it may have covered, in the same transaction, and none is stored of messages that were removed since
they were read.
"""

from collections.abc import Callable, Sequence

import msgspec

from agentvm.model.exchange import Extent, covered_by
from agentvm.model.ids import ContainerId, MessageId, SessionId, TenantId, TurnId
from agentvm.model.message import Message, decode_message
from agentvm.model.session import RefusedPart, Summary
from agentvm.model.turn import Turn
from agentvm.storage.base import WHOLE, ReadingLimits, Recalled
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, items_of, numbers_of
from agentvm.storage.sql.records import Columns

LISTED_MAX = 200

Scope = tuple[TenantId, ContainerId, SessionId]

_SUMMARY = Columns(Summary)
_COLUMNS = _SUMMARY.text
_NULLS_BUT_ONE = ", ".join(["NULL"] * len(_SUMMARY.names))
_NULLS = f"NULL, {_NULLS_BUT_ONE}"
"""Rows of another kind than summaries have as many columns: those of a summary, and `beyond`."""
_SESSION = """
SELECT session_key, deleted_at IS NOT NULL FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?
"""
_NEWEST = f"""
SELECT {_COLUMNS}, next, beyond, last FROM summaries WHERE session_key = ? ORDER BY summary_key DESC LIMIT 1
"""
_LIST = f"SELECT {_COLUMNS} FROM summaries WHERE session_key = ? ORDER BY summary_key DESC LIMIT ?"
# One statement, so that all of it is one state: a rewind between two would leave neither a summary nor what it covered. Not a
# transaction, which would have to be committed, and reading must not depend on whether the disk takes anything. It walks from
# one message to the next and looks at sizes only, which SQLite knows without reading the bodies: however long a session is,
# only what is allowed is read. What waits behind the current turn is none of its business.
_IS_SHOWN = "(CAST(:current AS TEXT) IS NULL OR message_id NOT IN (SELECT message_id FROM waiting))"
_RECALL = f"""
WITH RECURSIVE
    home AS MATERIALIZED (
        SELECT session_key FROM sessions WHERE tenant_id = :tenant AND container_id = :container AND session_id = :session
    ),
    newest AS MATERIALIZED (
        SELECT {_COLUMNS}, next, beyond FROM summaries
        WHERE session_key = (SELECT session_key FROM home) AND :summary = 1
        ORDER BY summary_key DESC LIMIT 1
    ),
    waiting AS MATERIALIZED (
        SELECT message_id FROM turns
        WHERE session_key = (SELECT session_key FROM home) AND outcome IS NULL AND position > (
            SELECT position FROM turns AS own WHERE own.session_key = turns.session_key AND own.message_id = :current
        )
    ),
    bounds (first, current) AS MATERIALIZED (
        SELECT
            coalesce((SELECT next FROM newest), 0),
            coalesce(
                (SELECT position FROM messages WHERE session_key = (SELECT session_key FROM home) AND message_id = :current),
                :beyond
            )
    ),
    taken (position, total) AS (
        SELECT position, length(body) FROM messages
        WHERE position = (
            SELECT {{edge}}(position) FROM messages
            WHERE session_key = (SELECT session_key FROM home) AND position >= (SELECT first FROM bounds)
              AND {_IS_SHOWN}
        ) AND length(body) <= CASE WHEN position >= (SELECT current FROM bounds) THEN :current_bytes ELSE :max_bytes END
        UNION ALL
        SELECT other.position, taken.total + length(other.body)
        FROM taken {ORDERED_JOIN} messages AS other ON other.position = (
            SELECT {{edge}}(position) FROM messages
            WHERE session_key = (SELECT session_key FROM home) AND position >= (SELECT first FROM bounds)
              AND position {{beyond}} taken.position AND {_IS_SHOWN}
        )
        WHERE taken.total + length(other.body)
            <= CASE WHEN other.position >= (SELECT current FROM bounds) THEN :current_bytes ELSE :max_bytes END
    )
SELECT 'message', position, body, {_NULLS} FROM taken {ORDERED_JOIN} messages USING (position)
UNION ALL
SELECT 'summary', 0, NULL, {_COLUMNS}, beyond FROM newest
UNION ALL
SELECT 'running', 0, NULL, turn_id, {_NULLS_BUT_ONE}
FROM turns WHERE session_key = (SELECT session_key FROM home) AND outcome IS NULL
UNION ALL
SELECT 'refused', part, NULL, message_id, {_NULLS_BUT_ONE}
FROM refused_parts WHERE session_key = (SELECT session_key FROM home)
UNION ALL
SELECT 'truncated', 0, NULL, {_NULLS}
WHERE EXISTS (
    SELECT 1 FROM messages
    WHERE session_key = (SELECT session_key FROM home) AND position >= (SELECT first FROM bounds)
      AND {_IS_SHOWN}
      AND ((SELECT count(*) FROM taken) = 0 OR position {{beyond}} (SELECT {{far}}(position) FROM taken))
)
"""
_NEWEST_FIRST = _RECALL.format(edge="max", beyond="<", far="min")
_OLDEST_FIRST = _RECALL.format(edge="min", beyond=">", far="max")
_POSITION_MAX = 2**62
_TURN_SIZES = """
SELECT position, length(body)
FROM sessions JOIN messages USING (session_key)
WHERE tenant_id = ?1 AND container_id = ?2 AND session_id = ?3 AND position >= (
    SELECT position FROM messages AS asked WHERE asked.session_key = sessions.session_key AND asked.message_id = ?4
)
ORDER BY position
"""
_BODIES = f"SELECT body FROM messages WHERE position IN ({numbers_of('?')}) ORDER BY position"
_PLACE = "SELECT position FROM all_messages WHERE session_key = ? AND message_id = ?"
_STANDING = f"SELECT count(*) FROM messages WHERE session_key = ? AND message_id IN ({items_of('?')})"
_ADD = f"""
INSERT INTO summaries (session_key, last, next, beyond, {_COLUMNS}) VALUES (?, ?, ?, ?, {_SUMMARY.marks})
"""
_REFUSE = """
INSERT INTO refused_parts (session_key, message_id, part, provider, refused_at)
SELECT session_key, ?, ?, ?, ? FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?
ON CONFLICT DO NOTHING
"""
_DROP = "DELETE FROM summaries WHERE session_key = ? AND last >= ?"

_turns = msgspec.json.Decoder(tuple[TurnId, ...])


class _Owned(msgspec.Struct, rename="camel"):
    """The turn that a message belongs to; the rest of it is not looked at."""

    turn_id: TurnId | None = None


_owned = msgspec.json.Decoder(_Owned)


def recall(connection: Connection, scope: Scope, reading: ReadingLimits = WHOLE) -> Recalled:
    summary: Summary | None = None
    truncated = False
    beyond = frozenset[TurnId]()
    running: set[TurnId] = set()
    refused: set[RefusedPart] = set()
    bodies: list[tuple[int, bytes]] = []
    values = dict(zip(("tenant", "container", "session"), scope, strict=True)) | {
        "summary": int(reading.summary),
        "current": reading.current,
        "beyond": _POSITION_MAX,
        "max_bytes": reading.max_bytes,
        "current_bytes": max(reading.max_bytes, reading.current_bytes),
    }
    for kind, number, body, *row in connection.fetch(_NEWEST_FIRST if reading.newest else _OLDEST_FIRST, values):
        match kind:
            case "summary":
                summary, beyond = _SUMMARY.decode(row[:-1]), frozenset(_turns.decode(row[-1]))
            case "running":
                running.add(TurnId(row[0]))
            case "refused":
                refused.add(RefusedPart(MessageId(row[0]), None if number < 0 else number))
            case "truncated":
                truncated = True
            case _:
                bodies.append((number, body))
    # They come in this order, but nothing says so.
    messages = (decode_message(body) for _, body in sorted(bodies))
    return Recalled(
        summary=summary,
        messages=tuple(message for message in messages if message.turn_id not in beyond),
        running=frozenset(running),
        truncated=truncated,
        refused=frozenset(refused),
    )


def read_turn(connection: Connection, scope: Scope, turn: Turn, max_bytes: int) -> tuple[tuple[Message, ...], bool]:
    """The messages of one turn, the oldest first, as many as have this many bytes; and whether some were left out."""
    positions: list[int] = []
    total = 0
    sizes = connection.fetch(_TURN_SIZES, (*scope, turn.message_id))
    for position, size in sizes:
        total += size
        if total > max_bytes:
            break
        positions.append(position)
    bodies = connection.fetch(_BODIES, (msgspec.json.encode(positions).decode(),))
    own = tuple(decode_message(body) for (body,) in bodies if _owned.decode(body).turn_id == turn.turn_id)
    return own, len(positions) < len(sizes)


def refuse(connection: Connection, scope: Scope, parts: Sequence[RefusedPart], provider: str, now: int) -> None:
    for message_id, part in parts:
        connection.execute(_REFUSE, (message_id, -1 if part is None else part, provider, now, *scope))


def list_summaries(connection: Connection, session_key: int) -> tuple[Summary, ...]:
    """The newest first."""
    return tuple(map(_SUMMARY.decode, connection.fetch(_LIST, (session_key, LISTED_MAX))))


def store_summary(scope: Scope, summary: Summary, covered: Extent, recalled: Recalled) -> Callable[[Connection], bool]:
    """Stores a summary if its messages were not rewound; whether it did."""
    seen = None if recalled.summary is None else recalled.summary.summary_id
    # All of it: some may have been taken back, or have become too old to be kept, while it was summed up.
    messages = covered_by(recalled.messages, covered)
    named = msgspec.json.encode(messages).decode()

    def work(connection: Connection) -> bool:
        rows = connection.fetch(_SESSION, scope)
        if not rows or rows[0][1]:
            return False
        key: int = rows[0][0]
        newest = connection.fetch(_NEWEST, (key,))
        if (newest[0][0] if newest else None) != seen:
            return False
        last, following = _place(connection, key, covered.last), _place(connection, key, covered.next)
        if last is None or following is None or connection.fetch(_STANDING, (key, named)) != [(len(messages),)]:
            return False
        beyond = covered.beyond
        if newest and newest[0][-1] >= following:
            # What the summary before it left out here is left out still.
            beyond, last = (*_turns.decode(newest[0][-2]), *beyond), max(last, newest[0][-1])
        connection.execute(_ADD, (key, last, following, msgspec.json.encode(beyond).decode(), *_SUMMARY.encode(summary)))
        return True

    return work


def drop_summaries(connection: Connection, session_key: int, position: int) -> None:
    """Deletes the summaries that cover a message from that position on."""
    connection.execute(_DROP, (session_key, position))


def _place(connection: Connection, session_key: int, message_id: str) -> int | None:
    rows = connection.fetch(_PLACE, (session_key, message_id))
    return int(rows[0][0]) if rows else None
