"""Session writes — what a commit adds to one session, as SQL. Encoded before it is queued: the writer's time is everybody's."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agentvm.errors import SessionNotFound
from agentvm.model.attachment import references
from agentvm.model.message import Message, UserMessage, encode_message
from agentvm.model.turn import Turn
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql import rows
from agentvm.storage.sql.accounts.asked import ask
from agentvm.storage.sql.accounts.ledger import enter
from agentvm.storage.sql.attachments import link
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import greater
from agentvm.storage.sql.sessions.index import COUNTED, Entry, entry_of, index, preview_of, words_of
from agentvm.storage.sql.sessions.rewinding import take_back

_TOUCH_SESSION = """
UPDATE sessions SET updated_at = ? WHERE tenant_id = ? AND container_id = ? AND session_id = ?
RETURNING session_key, image_id, deleted_at IS NOT NULL
"""
_SESSION = "SELECT 1 FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?"
# What was said last is the latest that is stored, also when the clock was set back.
_SAID = f"""
UPDATE sessions
SET last_message_at = {greater("coalesce(last_message_at, 0)", "?1")}, preview = coalesce(?2, preview),
    answers = answers + ?3
WHERE session_key = ?4
"""
_TOUCH_IMAGE = "UPDATE images SET updated_at = ? WHERE tenant_id = ? AND container_id = ? AND image_id = ?"
# The position is an identity column: the database numbers messages in the order they are stored, and gives no number twice.
_ADD_MESSAGE = """
INSERT INTO all_messages (session_key, message_id, body) VALUES (?, ?, ?)
ON CONFLICT (session_key, message_id) DO NOTHING
RETURNING position
"""
# A turn ends once: what is already finished is left alone. Who sent it is known from the beginning and stays.
_PUT_TURN = f"""
INSERT INTO turns (session_key, turn_id, message_id, accepted_at, outcome, usage, ended_at, client_key, attempts, user_id,
                   alongside)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_key, turn_id) DO UPDATE
SET outcome = excluded.outcome, usage = excluded.usage, ended_at = excluded.ended_at,
    attempts = {greater("turns.attempts", "excluded.attempts")},
    alongside = coalesce(excluded.alongside, turns.alongside)
WHERE turns.outcome IS NULL
"""
_ADD_CHUNK = "INSERT INTO log (session_key, first_seq, last_seq, made_at, body) VALUES (?, ?, ?, ?, ?)"

PIECE_BYTES = 256 * 1024
"""Bytes that the writer takes at a time; what is searched of them costs it a few hundredths of a second."""
PIECE_MESSAGES = 128
"""Messages that it takes at a time."""


def cut(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """In pieces that the writer can take at a time."""
    pieces: list[tuple[Message, ...]] = []
    some: list[Message] = []
    size = 0
    for message in messages:
        weight = len(encode_message(message))
        if some and (size + weight > PIECE_BYTES or len(some) >= PIECE_MESSAGES):
            pieces.append(tuple(some))
            some, size = [], 0
        some.append(message)
        size += weight
    return [*pieces, tuple(some)] if some else pieces


def turn_row(turn: Turn) -> tuple[object, ...]:
    """The columns of a turn but its session."""
    return (
        turn.turn_id,
        turn.message_id,
        turn.accepted_at,
        turn.outcome,
        rows.encode_usage(turn.usage),
        turn.ended_at,
        turn.client_key,
        turn.attempts,
        turn.user_id,
        turn.alongside,
    )


def prepare(write: SessionWrite, *, words: str | None = None) -> Callable[[Connection], None]:
    """The write as work for the database; `SessionNotFound` when the session is gone by then.

    The words of its messages come into the search later (`pending`), or in this commit, behind the key `words`. To cut those
    takes a while, so that is not to be done on the event loop.

    In a session that is deleted turns that run are ended, and none begins: nobody would see it, and somebody would pay for it.
    """
    bodies = [prepare_message(message, words) for message in write.messages]
    turns = [turn_row(turn) for turn in write.turns]
    scope = (write.tenant_id, write.container_id)
    chunk = write.chunk
    begins = any(turn.outcome is None and turn.attempts == 0 for turn in write.turns)
    bill, ask_for = enter(write.tenant_id, write.ledger, write.answered), ask(write.tenant_id, write.asked)

    if write.changes_no_session:
        return _add_calls(write, ask_for, bill)

    def work(connection: Connection) -> None:
        touched = connection.fetch(_TOUCH_SESSION, (write.now, *scope, write.session_id))
        if not touched:
            raise SessionNotFound(write.session_id)
        session_key, image_id, deleted = touched[0]
        if deleted and begins:
            raise SessionNotFound(write.session_id)
        connection.execute(_TOUCH_IMAGE, (write.now, *scope, image_id))
        if write.rewind is not None:
            take_back(connection, session_key, write.rewind)
        if bodies:
            said = [entry for _, entry in add_messages(connection, session_key, scope, bodies)]
            if said:
                answers = sum(entry.kind in COUNTED for entry in said)
                connection.execute(_SAID, (max(entry.at for entry in said), preview_of(said), answers, session_key))
        connection.many(_PUT_TURN, ((session_key, *turn) for turn in turns))
        if chunk is not None:
            connection.execute(_ADD_CHUNK, (session_key, chunk.first_seq, chunk.last_seq, chunk.made_at, chunk.body))
        bill(connection)
        ask_for(connection)

    return work


def is_there(connection: Connection, write: SessionWrite) -> bool:
    """Whether the session of the write is stored."""
    return bool(connection.fetch(_SESSION, (write.tenant_id, write.container_id, write.session_id)))


def _add_calls(
    write: SessionWrite, ask_for: Callable[[Connection], None], bill: Callable[[Connection], int]
) -> Callable[[Connection], None]:
    """Before each model call, so it does no more than it must: nothing was said yet that would make the session newer."""

    def work(connection: Connection) -> None:
        if not is_there(connection, write):
            raise SessionNotFound(write.session_id)
        bill(connection)
        ask_for(connection)

    return work


class PreparedMessage(NamedTuple):
    """A message as it is written; `digests` are of the attachments that it refers to, `words` are None if they follow."""

    message_id: str
    body: bytes
    entry: Entry
    digests: tuple[str, ...]
    words: str | None


def prepare_message(message: Message, words: str | None) -> PreparedMessage:
    """Encodes a message; `words` is the key of its container, None if they follow."""
    entry = entry_of(message)
    cut = None if words is None else words_of(words, entry.text)
    return PreparedMessage(message.id, encode_message(message), entry, _attached(message), cut)


def _attached(message: Message) -> tuple[str, ...]:
    return references(message.content) if isinstance(message, UserMessage) else ()


def add_messages(
    connection: Connection, session_key: Any, scope: rows.Key, messages: Sequence[PreparedMessage]
) -> list[tuple[int, Entry]]:
    """Adds messages with their index entries and links; returns the position of each that was not there already."""
    added = []
    for message_id, body, entry, digests, words in messages:
        for (position,) in connection.fetch(_ADD_MESSAGE, (session_key, message_id, body)):
            index(connection, scope[0], position, session_key, entry, words)
            link(connection, scope, position, digests)
            added.append((position, entry))
    return added
