"""Summaries — what sessions came to, and what of them a summary does not cover.

Theory of operation. A summary stands for whole exchanges from the beginning on. What is not covered has a position from `next`
on; what of it belongs to turns that are covered is left out by their names. So a model is given a session by one look at its
newest summary and at what was said since, however long it is. Rewinds take messages back by number: a summary is dropped with
the first that it may have covered, in the same transaction, and none is stored of what was taken back since it was read.
"""

from collections.abc import Callable
from typing import Any

import apsw
import msgspec

from agentvm.model.exchange import Extent
from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId
from agentvm.model.message import decode_message
from agentvm.model.session import Summary
from agentvm.storage.base import Recalled
from agentvm.storage.sqlite.rows import fetch

MOST_LISTED = 200

Scope = tuple[TenantId, ContainerId, SessionId]

_COLUMNS = "summary_id, message_id, text, tokens, model, made_at, user_id"
_SESSION = """
SELECT session_key, deleted_at IS NOT NULL FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?
"""
_NEWEST = f"""
SELECT {_COLUMNS}, next, beyond, last FROM summaries WHERE session_key = ? ORDER BY summary_key DESC LIMIT 1
"""
_LIST = f"SELECT {_COLUMNS} FROM summaries WHERE session_key = ? ORDER BY summary_key DESC LIMIT ?"
_SINCE = "SELECT body FROM messages WHERE session_key = ? AND position >= ? ORDER BY position"
_RUNNING = "SELECT turn_id FROM turns WHERE session_key = ? AND outcome IS NULL"
_AS_OF = "SELECT coalesce(max(rewind_key), 0) FROM rewinds WHERE session_key = ?"
_PLACE = "SELECT position FROM all_messages WHERE session_key = ? AND message_id = ?"
_TAKEN = "SELECT 1 FROM all_messages WHERE session_key = ? AND rewind_key > ? AND position <= ? LIMIT 1"
_ADD = f"""
INSERT INTO summaries (session_key, last, next, beyond, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_DROP = "DELETE FROM summaries WHERE session_key = ? AND last >= ?"

_turns = msgspec.json.Decoder(tuple[TurnId, ...])


def recall(connection: apsw.Connection, scope: Scope) -> Recalled:
    # One state for all: a rewind that comes between would leave neither a summary nor what it covered.
    with connection:
        found = fetch(connection, _SESSION, scope)
        if not found:
            return Recalled()
        key: int = found[0][0]
        newest = fetch(connection, _NEWEST, (key,))
        bodies = fetch(connection, _SINCE, (key, newest[0][7] if newest else 0))
        running = fetch(connection, _RUNNING, (key,))
        as_of: int = fetch(connection, _AS_OF, (key,))[0][0]
    beyond = frozenset(_turns.decode(newest[0][8])) if newest else frozenset[TurnId]()
    messages = (decode_message(body) for (body,) in bodies)
    return Recalled(
        summary=_decode(newest[0][:7]) if newest else None,
        messages=tuple(message for message in messages if message.turn_id not in beyond),
        running=frozenset(TurnId(turn_id) for (turn_id,) in running),
        as_of=as_of,
    )


def list_summaries(connection: apsw.Connection, session_key: int) -> tuple[Summary, ...]:
    """The newest first."""
    return tuple(_decode(row) for row in fetch(connection, _LIST, (session_key, MOST_LISTED)))


def store_summary(scope: Scope, summary: Summary, covered: Extent, recalled: Recalled) -> Callable[[apsw.Connection], bool]:
    """Stores it if what it covers still stands; whether it did."""
    about = (
        summary.summary_id,
        summary.message_id,
        summary.text,
        summary.tokens,
        summary.model,
        summary.made_at,
        summary.user_id,
    )
    seen = None if recalled.summary is None else recalled.summary.summary_id

    def work(connection: apsw.Connection) -> bool:
        found = fetch(connection, _SESSION, scope)
        if not found or found[0][1]:
            return False
        key: int = found[0][0]
        newest = fetch(connection, _NEWEST, (key,))
        if (newest[0][0] if newest else None) != seen:
            return False
        last, following = _place(connection, key, covered.last), _place(connection, key, covered.next)
        if last is None or following is None or fetch(connection, _TAKEN, (key, recalled.as_of, last)):
            return False
        beyond = covered.beyond
        if newest and newest[0][9] >= following:
            # What the summary before it left out here is left out still.
            beyond, last = (*_turns.decode(newest[0][8]), *beyond), max(last, newest[0][9])
        connection.execute(_ADD, (key, last, following, msgspec.json.encode(beyond).decode(), *about))
        return True

    return work


def drop_summaries(connection: apsw.Connection, session_key: int, position: int) -> None:
    """Those that cover something from there on: it does not stand any more."""
    connection.execute(_DROP, (session_key, position))


def _place(connection: apsw.Connection, session_key: int, message_id: str) -> int | None:
    found = fetch(connection, _PLACE, (session_key, message_id))
    return int(found[0][0]) if found else None


def _decode(row: tuple[Any, ...]) -> Summary:
    summary_id, message_id, text, tokens, model, made_at, user_id = row
    return Summary(
        summary_id=summary_id,
        message_id=message_id,
        text=text,
        tokens=tokens,
        model=model,
        made_at=made_at,
        user_id=user_id,
    )
