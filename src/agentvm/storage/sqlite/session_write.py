"""Session writes — what a commit adds to one session, as SQL. Encoded before it is queued: the writer's time is everybody's."""

from collections.abc import Callable

import apsw

from agentvm.errors import SessionNotFound
from agentvm.model.message import encode_message
from agentvm.storage.base import SessionWrite
from agentvm.storage.sqlite import rows
from agentvm.storage.sqlite.accounts.ledger import enter

_TOUCH_SESSION = """
UPDATE sessions SET updated_at = ? WHERE tenant_id = ? AND container_id = ? AND session_id = ? RETURNING session_key, image_id
"""
_TOUCH_IMAGE = "UPDATE images SET updated_at = ? WHERE tenant_id = ? AND container_id = ? AND image_id = ?"
_ADD_MESSAGE = """
INSERT INTO messages (session_key, message_id, body) VALUES (?, ?, ?) ON CONFLICT (session_key, message_id) DO NOTHING
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
    bodies = [(message.id, encode_message(message)) for message in write.messages]
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
        touched = connection.execute(_TOUCH_SESSION, (write.now, *scope, write.session_id)).fetchall()
        if not touched:
            raise SessionNotFound(write.session_id)
        session_key, image_id = touched[0]
        connection.execute(_TOUCH_IMAGE, (write.now, *scope, image_id))
        connection.executemany(_ADD_MESSAGE, ((session_key, *body) for body in bodies))
        connection.executemany(_PUT_TURN, ((session_key, *turn) for turn in turns))
        if chunk is not None:
            connection.execute(_ADD_CHUNK, (session_key, chunk.first_seq, chunk.last_seq, chunk.made_at, chunk.body))
        bill(connection)

    return work
