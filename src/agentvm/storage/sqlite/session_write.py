"""Session writes — what a commit adds to one session, as SQL. Encoded before it is queued: the writer's time is everybody's."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import apsw

from agentvm.errors import SessionNotFound
from agentvm.model.attachment import references
from agentvm.model.message import Message, UserMessage, encode_message
from agentvm.storage.base import SessionWrite
from agentvm.storage.sqlite import rows
from agentvm.storage.sqlite.accounts.ledger import enter
from agentvm.storage.sqlite.attachments import link
from agentvm.storage.sqlite.sessions.index import COUNTED, Entry, entry_of, index, key_of
from agentvm.storage.sqlite.sessions.rewinding import take_back

_TOUCH_SESSION = """
UPDATE sessions SET updated_at = ? WHERE tenant_id = ? AND container_id = ? AND session_id = ? RETURNING session_key, image_id
"""
# What was said last is the latest that is stored, also when the clock was set back.
_SAID = """
UPDATE sessions
SET last_message_at = max(coalesce(last_message_at, 0), ?), preview = coalesce(?, preview), answers = answers + ?
WHERE session_key = ?
"""
_TOUCH_IMAGE = "UPDATE images SET updated_at = ? WHERE tenant_id = ? AND container_id = ? AND image_id = ?"
# In a place that nobody had: what is gone is still named by its place.
_ADD_MESSAGE = """
INSERT INTO all_messages (position, session_key, message_id, body)
SELECT 1 + max(last, coalesce((SELECT max(position) FROM all_messages), 0)), ?, ?, ? FROM message_places WHERE one = 1
ON CONFLICT (session_key, message_id) DO NOTHING
"""
# A turn ends once: what is already finished is left alone. Who sent it is known from the beginning and stays.
_PUT_TURN = """
INSERT INTO turns (session_key, turn_id, message_id, accepted_at, outcome, usage, ended_at, client_key, attempts, user_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_key, turn_id) DO UPDATE
SET outcome = excluded.outcome, usage = excluded.usage, ended_at = excluded.ended_at,
    attempts = max(attempts, excluded.attempts)
WHERE outcome IS NULL
"""
_ADD_CHUNK = "INSERT INTO log (session_key, first_seq, last_seq, made_at, body) VALUES (?, ?, ?, ?, ?)"


def prepare(write: SessionWrite) -> Callable[[apsw.Connection], None]:
    """The write as work for the database; `SessionNotFound` when the session is gone by then."""
    bodies = [_Added(message.id, encode_message(message), entry_of(message), _attached(message)) for message in write.messages]
    turns = [
        (
            turn.turn_id,
            turn.message_id,
            turn.accepted_at,
            turn.outcome,
            rows.encode_usage(turn.usage),
            turn.ended_at,
            turn.client_key,
            turn.attempts,
            turn.user_id,
        )
        for turn in write.turns
    ]
    scope = (write.tenant_id, write.container_id)
    chunk = write.chunk
    bill = enter(write.tenant_id, write.ledger)

    def work(connection: apsw.Connection) -> None:
        touched = rows.fetch(connection, _TOUCH_SESSION, (write.now, *scope, write.session_id))
        if not touched:
            raise SessionNotFound(write.session_id)
        session_key, image_id = touched[0]
        connection.execute(_TOUCH_IMAGE, (write.now, *scope, image_id))
        if write.rewind is not None:
            take_back(connection, session_key, write.rewind)
        if bodies:
            _add_messages(connection, session_key, scope, bodies)
        connection.executemany(_PUT_TURN, ((session_key, *turn) for turn in turns))
        if chunk is not None:
            connection.execute(_ADD_CHUNK, (session_key, chunk.first_seq, chunk.last_seq, chunk.made_at, chunk.body))
        bill(connection)

    return work


class _Added(NamedTuple):
    """A message as it is written; `digests` are of the attachments that it refers to."""

    message_id: str
    body: bytes
    entry: Entry
    digests: tuple[str, ...]


def _attached(message: Message) -> tuple[str, ...]:
    return references(message.content) if isinstance(message, UserMessage) else ()


def _add_messages(connection: apsw.Connection, session_key: Any, scope: rows.Key, bodies: Sequence[_Added]) -> None:
    """With what the search and the lists know of them, and what they refer to. One that is already there counts for nothing."""
    added = []
    container = key_of(*scope)
    for message_id, body, entry, digests in bodies:
        connection.execute(_ADD_MESSAGE, (session_key, message_id, body))
        if connection.changes():
            position = connection.last_insert_rowid()
            index(connection, position, session_key, container, entry)
            link(connection, scope, position, digests)
            added.append(entry)
    if added:
        preview = next((said for entry in reversed(added) if (said := entry.preview) is not None), None)
        answers = sum(entry.kind in COUNTED for entry in added)
        connection.execute(_SAID, (max(entry.at for entry in added), preview, answers, session_key))
