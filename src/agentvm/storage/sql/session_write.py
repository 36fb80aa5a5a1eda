"""Session writes — the rows that a commit adds to one session. Encoded before they are queued: all tenants share the writer."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from agentvm.errors import ConstraintFailed, SessionNotFound, WritesRefused
from agentvm.errors.cluster import SessionsMoved
from agentvm.log import get_logger
from agentvm.model.attachment import references_of
from agentvm.model.ids import SessionId, TenantId
from agentvm.model.message import Message, encode_message
from agentvm.model.turn import Turn
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql import rows
from agentvm.storage.sql.accounts.ledger import enter
from agentvm.storage.sql.accounts.sent_calls import ask
from agentvm.storage.sql.attachments import link
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import greater, items_of
from agentvm.storage.sql.file_changes import write_files
from agentvm.storage.sql.journal_entries import add_entry
from agentvm.storage.sql.placed_calls import write_placed_calls
from agentvm.storage.sql.programs import write_programs
from agentvm.storage.sql.records import Columns
from agentvm.storage.sql.schedules import write_run
from agentvm.storage.sql.sessions.index import COUNTED, Entry, entry_of, index, preview_of, words_of
from agentvm.storage.sql.sessions.rewinding import rewind_messages
from agentvm.storage.sql.waits import write_waits
from agentvm.storage.sql.webhooks import add_deliveries, body_of

logger = get_logger(__name__)

TURN = Columns(Turn, without=("container_id", "image_id", "session_id"))
"""The columns of a turn but those of its session."""

_TOUCH_SESSION = """
UPDATE sessions SET updated_at = ? WHERE tenant_id = ? AND container_id = ? AND session_id = ?
RETURNING session_key, image_id, deleted_at IS NOT NULL
"""
_SESSION = "SELECT 1 FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?"
_SESSIONS = f"SELECT container_id, session_id FROM sessions WHERE tenant_id = ? AND session_id IN ({items_of('?')})"
# What was said last is the latest that is stored, also when the clock was set back.
_SUMMARY_COLUMNS = f"""
    last_message_at = {greater("coalesce(last_message_at, 0)", "?1")}, preview = coalesce(?2, preview), answers = answers + ?3
"""
_SET_SUMMARY = f"""
UPDATE sessions
SET {_SUMMARY_COLUMNS} WHERE session_key = ?4
"""
# Both in one statement: each of them writes the row and its place in the lists anew.
_TOUCH_AND_SUMMARY = f"""
UPDATE sessions SET updated_at = ?4, {_SUMMARY_COLUMNS} WHERE tenant_id = ?5 AND container_id = ?6 AND session_id = ?7
RETURNING session_key, image_id, deleted_at IS NOT NULL
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
INSERT INTO turns (session_key, {TURN.text}) VALUES (?, {TURN.marks})
ON CONFLICT (session_key, turn_id) DO UPDATE
SET outcome = excluded.outcome, usage = excluded.usage, ended_at = excluded.ended_at,
    attempts = {greater("turns.attempts", "excluded.attempts")},
    alongside = coalesce(excluded.alongside, turns.alongside), parked_at = excluded.parked_at,
    active_ms = {greater("turns.active_ms", "excluded.active_ms")}
WHERE turns.outcome IS NULL
"""
# Nearly every turn that ends was stored when it began.
_END_TURN = """
UPDATE turns SET outcome = ?, usage = ?, ended_at = ?, parked_at = NULL
WHERE session_key = ? AND turn_id = ? AND outcome IS NULL
"""
_ADD_CHUNK = "INSERT INTO log (session_key, first_seq, last_seq, made_at, body) VALUES (?, ?, ?, ?, ?)"


_CONTRADICTIONS = (ConstraintFailed, OverflowError, ValueError, TypeError)
"""Errors caused by one session's write; a full or broken disk is not one of them."""

PIECE_BYTES = 128 * 1024
"""Bytes that one commit adds of a long history; their search words cost more than they do."""
PIECE_MESSAGES = 64
"""Messages that one commit adds of a long history."""


def cut(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """The messages in pieces of one commit each."""
    pieces: list[tuple[Message, ...]] = []
    piece: list[Message] = []
    size = 0
    for message in messages:
        weight = len(encode_message(message))
        if piece and (size + weight > PIECE_BYTES or len(piece) >= PIECE_MESSAGES):
            pieces.append(tuple(piece))
            piece, size = [], 0
        piece.append(message)
        size += weight
    return [*pieces, tuple(piece)] if piece else pieces


class RepeatedMessage(Exception):
    """A message of the write is stored already."""


def prepare(write: SessionWrite, *, words: str | None = None, node_id: int = 0) -> "PreparedWrite":
    """The write as work for the database; `SessionNotFound` when the session is gone by then.

    The words of its messages are indexed later (`pending`), or in this commit, behind the key `words`. To cut those takes a
    while, so that is not to be done on the event loop.
    """
    return PreparedWrite(write, words, node_id)


class PreparedWrite:
    """A write, encoded.

    In a deleted session running turns are ended and none is started, because its result would be billed but not visible.
    """

    __slots__ = (
        "_ask",
        "_files",
        "_node_id",
        "_notices",
        "_placed",
        "_programs",
        "_waits",
        "bill",
        "bodies",
        "touches_image",
        "turns",
        "write",
    )  # fmt: skip

    def __init__(self, write: SessionWrite, words: str | None, node_id: int) -> None:
        self.write = write
        self._node_id = node_id
        self.bodies = [prepare_message(message, words) for message in write.messages]
        self.turns = [(turn, TURN.encode(turn)) for turn in write.turns]
        self.bill = enter(write.tenant_id, write.ledger, node_id, write.answered)
        self._ask = ask(write.tenant_id, write.asked, node_id)
        self._waits = write_waits(write.waits) if write.waits else None
        self._files = write_files(write.files) if write.files else None
        self._programs = write_programs(write.programs) if write.programs else None
        self._placed = write_placed_calls(write.placed) if write.placed else None
        self._notices = [(notice, body_of(notice)) for notice in write.notices]
        # An image is as new as the last turn that began with it.
        self.touches_image = not write.turns or any(turn.outcome is None for turn in write.turns)

    @property
    def is_plain(self) -> bool:
        """Whether it has nothing but messages without attachments, turns, a chunk, bills and calls, each key of a call once."""
        write = self.write
        keys = [*write.answered, *(call.key for call in write.asked)]
        return (
            write.rewind is None
            and not (write.waits or write.files or write.programs or write.placed or write.runs or self._notices)
            and not any(body.digests or body.words is not None for body in self.bodies)
            and len(keys) == len(set(keys))
        )

    def __call__(self, connection: Connection) -> None:
        """Adds the rows that do not exist yet."""
        if not self.write.changes_no_session:
            self._add(connection, self._touch(connection, _TOUCH_SESSION, (self.write.now,)), certain=False)
        elif not is_there(connection, self.write):
            raise SessionNotFound(self.write.session_id)
        self._settle(connection)

    def add_new(self, connection: Connection) -> None:
        """The same with fewer statements, for messages that are not there; `RepeatedMessage` if one is."""
        if not self.bodies or self.write.rewind is not None:
            self(connection)
            return
        summary = (*summary_of([body.entry for body in self.bodies]), self.write.now)
        self._add(connection, self._touch(connection, _TOUCH_AND_SUMMARY, summary), certain=True)
        self._settle(connection)

    def _settle(self, connection: Connection) -> None:
        self.bill(connection)
        self._ask(connection)
        if self._notices:
            add_deliveries(connection, self.write.tenant_id, self._notices)

    def _touch(self, connection: Connection, statement: str, values: tuple[object, ...]) -> Any:
        """Returns the session's key."""
        write = self.write
        touched = connection.fetch(statement, (*values, write.tenant_id, write.container_id, write.session_id))
        if not touched:
            raise SessionNotFound(write.session_id)
        session_key, image_id, deleted = touched[0]
        if deleted and any(turn.outcome is None and turn.attempts == 0 for turn in write.turns):
            raise SessionNotFound(write.session_id)
        if self.touches_image:
            connection.execute(_TOUCH_IMAGE, (write.now, write.tenant_id, write.container_id, image_id))
        return session_key

    def _add(self, connection: Connection, session_key: Any, *, certain: bool) -> None:
        write = self.write
        if write.rewind is not None:
            rewind_messages(connection, session_key, write.rewind)
        if self.bodies:
            scope = (write.tenant_id, write.container_id)
            entries = [entry for _, entry in add_messages(connection, session_key, scope, self.bodies)]
            if not certain and entries:
                connection.execute(_SET_SUMMARY, (*summary_of(entries), session_key))
            elif certain and len(entries) < len(self.bodies):
                raise RepeatedMessage
        for turn, row in self.turns:
            if not _put_turn(connection, session_key, turn, row) and self._node_id:
                # It had waited for somebody, and another node has ended it since this one has read it.
                raise SessionsMoved({write.session_id: None})
        if (chunk := write.chunk) is not None:
            connection.execute(_ADD_CHUNK, (session_key, chunk.first_seq, chunk.last_seq, chunk.made_at, chunk.body))
        if self._waits is not None:
            self._waits(connection, session_key)
        if self._files is not None:
            self._files(connection, session_key)
        if self._programs is not None:
            self._programs(connection, session_key)
        if self._placed is not None:
            self._placed(connection, session_key)
        for run in write.runs:
            write_run(connection, (write.tenant_id, write.container_id), run)


class AddedTogether(NamedTuple):
    """A part of a commit: the number of its journal entry, the sessions that are gone, and the writes that are left."""

    entry: int
    gone: set[SessionId]
    left: Sequence[PreparedWrite]


def add_together(
    connection: Connection,
    carried: Sequence[SessionWrite],
    prepared: Sequence[PreparedWrite],
    entry: tuple[bytes | None, int],
    again: Callable[[Connection], None],
) -> AddedTogether:
    """Adds the entry of a node, and as many of the writes as the engine can add at once.

    `carried` is only checked for deleted sessions. `again` repeats the earlier part of the work: an engine that has tried to
    add them at once, and could not, has taken that back.
    """
    body, node_id = entry
    if (added := connection.add_together(carried, prepared, body, node_id, again)) is not None:
        return added
    gone = find_deleted(connection, carried) if carried else set()
    number = 0 if body is None else add_entry(connection, body, node_id)
    return AddedTogether(number, gone, prepared)


def add_at_once(connection: Connection, prepared: Sequence[PreparedWrite]) -> set[SessionId]:
    """Adds the writes; `WritesRefused` without sessions when one of the writes cannot be added: see `add_each`."""
    try:
        for add in prepared:
            add.add_new(connection)
    except (SessionNotFound, RepeatedMessage, *_CONTRADICTIONS) as error:
        raise WritesRefused(frozenset()) from error
    return set()


def add_each(connection: Connection, prepared: Sequence[PreparedWrite]) -> set[SessionId]:
    """Adds the writes, each in a savepoint; returns the sessions that are gone. `WritesRefused` names the others' faults."""
    gone: set[SessionId] = set()
    refused: set[SessionId] = set()
    for add in prepared:
        write = add.write
        connection.execute("SAVEPOINT session")
        try:
            add(connection)
        except SessionNotFound:
            gone.add(write.session_id)
            connection.execute("ROLLBACK TO session")
            add.bill(connection)
        except _CONTRADICTIONS as error:
            logger.error("write_refused", session_id=write.session_id, error=str(error))
            refused.add(write.session_id)
            connection.execute("ROLLBACK TO session")
        connection.execute("RELEASE session")
    if refused:
        raise WritesRefused(frozenset(refused))
    return gone


def _put_turn(connection: Connection, session_key: Any, turn: Turn, row: tuple[object, ...]) -> bool:
    """Returns False for a turn that has ended before."""
    if turn.outcome is not None and turn.attempts == 0 and turn.alongside is None:
        if connection.execute(_END_TURN, (row[3], row[4], row[5], session_key, turn.turn_id)):
            return True
    return connection.execute(_PUT_TURN, (session_key, *row)) > 0


def is_there(connection: Connection, write: SessionWrite) -> bool:
    """Whether the session of the write is stored."""
    return bool(connection.fetch(_SESSION, (write.tenant_id, write.container_id, write.session_id)))


def find_deleted(connection: Connection, writes: Sequence[SessionWrite]) -> set[SessionId]:
    """The sessions of these writes that are not stored; one query for all of a tenant's."""
    by_tenant: dict[TenantId, list[SessionWrite]] = {}
    for write in writes:
        by_tenant.setdefault(write.tenant_id, []).append(write)
    gone: set[SessionId] = set()
    for tenant_id, piece in by_tenant.items():
        named = msgspec.json.encode([write.session_id for write in piece]).decode()
        there = set(connection.fetch(_SESSIONS, (tenant_id, named)))
        gone.update(write.session_id for write in piece if (write.container_id, write.session_id) not in there)
    return gone


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
    return PreparedMessage(message.id, encode_message(message), entry, references_of(message), cut)


def add_messages(
    connection: Connection, session_key: Any, scope: rows.Key, messages: Sequence[PreparedMessage]
) -> list[tuple[int, Entry]]:
    """Adds messages with their index entries and links; returns the position of each that was not there already."""
    added = []
    for message_id, body, entry, digests, words in messages:
        for (position,) in connection.fetch(_ADD_MESSAGE, (session_key, message_id, body)):
            index(connection, scope[0], position, session_key, entry, words)
            if digests:
                link(connection, scope, position, digests)
            added.append((position, entry))
    return added


def summary_of(entries: Sequence[Entry]) -> tuple[int, str | None, int]:
    """Facts of messages for lists: when the last was said, its beginning, and how many are answers."""
    return max(entry.at for entry in entries), preview_of(entries), sum(entry.kind in COUNTED for entry in entries)
