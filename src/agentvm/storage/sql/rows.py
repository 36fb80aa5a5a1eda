"""Rows — how records lie in the tables: the columns of each and the way back to a record.

Rows are fetched to the last before the first is decoded: a cursor that a failing decoder left open would hold its
reader at an old state of the database.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from agentvm.errors import not_found
from agentvm.model.container import Container
from agentvm.model.definition import Definition
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TenantId, TurnId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.message import Message, decode_message
from agentvm.model.resource import Locked
from agentvm.model.session import Fork, ParentCall, Session
from agentvm.model.turn import Turn
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, ROWS_MAX, numbers_of
from agentvm.storage.sql.records import Columns

Key = tuple[TenantId, ContainerId]

_encoder = msgspec.json.Encoder()
_definition = msgspec.json.Decoder(Definition)
_config = msgspec.json.Decoder(ImageConfig)
_lock = msgspec.json.Decoder(tuple[Locked, ...])
_CONTAINER, _SESSION = Columns(Container), Columns(Session, without=("forked_from", "parent"))
_PARENT = ("parent_session", "parent_turn", "parent_call", "root_session", "root_turn")
_TURN = Columns(Turn, without=("alongside",))

_IMAGES = """
SELECT image_id, container_id, session_id, name, description, definition_name, digest, body, config, source, lock, created_at,
       updated_at
FROM images JOIN snapshots USING (digest)
WHERE tenant_id = ? AND container_id = ?
"""


def refuse_deleted(connection: Connection, tenant_id: TenantId) -> None:
    """`NotFound` for a deleted tenant: rows added to it would never be removed. A tenant that was never added is none."""
    if connection.fetch("SELECT 1 FROM tenants WHERE tenant_id = ? AND deleted_at IS NOT NULL", (tenant_id,)):
        raise not_found("Tenant", tenant_id)


def note_traces(connection: Connection, tenant_id: TenantId, target: str, now: int) -> None:
    """Lets the eraser remove the words of a deleted document or resource from the files: SQLite only marks them."""
    connection.execute("DELETE FROM erasures WHERE tenant_id = ? AND target = ?", (tenant_id, target))
    connection.execute("INSERT INTO erasures (tenant_id, target, asked_at) VALUES (?, ?, ?)", (tenant_id, target, now))


def is_present(table: str) -> str:
    """The condition that a row does not belong to an arrival that is still hidden."""
    return f"""
({table}.arrival_key IS NULL OR NOT EXISTS (
    SELECT 1 FROM arrivals AS hidden WHERE hidden.arrival_key = {table}.arrival_key AND hidden.published_at IS NULL
))
"""


def is_living(table: str) -> str:
    """The condition that the container of a row is not being erased."""
    return f"""
NOT EXISTS (
    SELECT 1 FROM containers AS c
    WHERE c.tenant_id = {table}.tenant_id AND c.container_id = {table}.container_id AND c.deleted_at IS NOT NULL
)
"""


def is_rooted(table: str) -> str:
    """The condition that the parent session of a sub-agent is not deleted: both are deleted and restored together."""
    return f"""
({table}.root_session IS NULL OR EXISTS (
    SELECT 1 FROM sessions AS top
    WHERE top.tenant_id = {table}.tenant_id AND top.session_id = {table}.root_session AND top.deleted_at IS NULL
))
"""


SHOWN_SESSION = (
    "SELECT container_id FROM sessions WHERE tenant_id = ? AND session_id = ? AND deleted_at IS NULL "
    f"AND {is_living('sessions')} AND {is_present('sessions')} AND {is_rooted('sessions')}"
)


# It goes with its default session, and comes back with it. Whoever knows it by a session of it still finds it.
IS_SHOWN = f"""
EXISTS (
    SELECT 1 FROM sessions AS d
    WHERE d.tenant_id = images.tenant_id AND d.session_id = images.session_id AND d.deleted_at IS NULL
      AND {is_present("d")}
) AND {is_living("images")}
"""
_DROP_SNAPSHOT = "DELETE FROM snapshots WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM images WHERE digest = ?1)"
SESSION_COLUMNS = f"{_SESSION.select('s.')}, s.forked_session, s.forked_message, {', '.join(f's.{name}' for name in _PARENT)}"
IS_LISTED = "s.root_session IS NULL"
"""The condition that a session is not that of a sub-agent."""
TURN_COLUMNS = _TURN.text
"""The columns of a turn, in a query that joins turns and sessions."""
_SESSIONS = f"""
SELECT {SESSION_COLUMNS}
FROM sessions AS s
WHERE tenant_id = ? AND container_id = ? AND deleted_at IS NULL AND {is_present("s")} AND {is_rooted("s")}
"""
# In the order of the index of these few: by number alone, a start would look at all sessions.
QUARANTINED = f"""
SELECT {SESSION_COLUMNS}, tenant_id FROM sessions AS s WHERE quarantine IS NOT NULL ORDER BY tenant_id, session_key
"""
CONTAINER = f"""
SELECT {_CONTAINER.text} FROM containers
WHERE tenant_id = ? AND container_id = ? AND deleted_at IS NULL AND {is_present("containers")}
"""
IMAGE = f"{_IMAGES} AND image_id = ? AND {is_present('images')}"
IMAGES = f"{_IMAGES} AND {IS_SHOWN} ORDER BY created_at DESC, position DESC"
SESSION = _SESSIONS + "AND session_id = ?"
SESSIONS = f"{_SESSIONS}AND image_id = ? AND {IS_LISTED} ORDER BY created_at, session_key"
_HIDDEN = f"{_SESSIONS}AND {{of}} ORDER BY created_at, session_key"
_TURNS = f"""
SELECT {TURN_COLUMNS}
FROM sessions JOIN turns USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND {is_present("turns")}
"""
TURNS = _TURNS + "ORDER BY accepted_at, position"
TURN_BY_KEY = _TURNS + "AND client_key = ?"
PARKED_TURN = _TURNS + "AND parked_at IS NOT NULL ORDER BY position LIMIT 1"
TURN = f"""
SELECT {TURN_COLUMNS}
FROM turns {ORDERED_JOIN} sessions USING (session_key)
WHERE turn_id = ? AND tenant_id = ? AND deleted_at IS NULL AND {is_present("sessions")} AND {is_present("turns")}
  AND {is_rooted("sessions")}
"""
UNFINISHED = f"""
SELECT {TURN_COLUMNS}, alongside, tenant_id
FROM turns JOIN sessions USING (session_key)
WHERE outcome IS NULL AND parked_at IS NULL{{only}}
ORDER BY position
"""
MESSAGES = """
SELECT body
FROM sessions JOIN messages USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ?
ORDER BY position LIMIT ?
"""
# One statement, so that both answers are of one state. It walks from the newest message back and looks at sizes only, which
# SQLite knows without reading the bodies: the cost is that of the messages that are returned, however long the session is.
RECENT_MESSAGES = f"""
WITH RECURSIVE
    home AS MATERIALIZED (SELECT session_key FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?),
    newest AS MATERIALIZED (
        SELECT max(position) AS position FROM messages WHERE session_key = (SELECT session_key FROM home)
    ),
    recent (position, total, number) AS (
        SELECT position, length(body), 1 FROM messages
        WHERE position = (SELECT position FROM newest) AND length(body) <= ?
        UNION ALL
        SELECT older.position, recent.total + length(older.body), recent.number + 1
        FROM recent {ORDERED_JOIN} messages AS older ON older.position = (
            SELECT max(position) FROM messages
            WHERE session_key = (SELECT session_key FROM home) AND position < recent.position
        )
        WHERE recent.total + length(older.body) <= ? AND recent.number < ?
    )
SELECT position, body, NULL FROM recent JOIN messages USING (position)
UNION ALL
SELECT 0, NULL, EXISTS (
    SELECT 1 FROM messages
    WHERE session_key = (SELECT session_key FROM home)
    AND position < coalesce((SELECT min(position) FROM recent), (SELECT position + 1 FROM newest))
)
ORDER BY position
"""

_SIZE_MAX = 2**62


def encode_build(image: Image) -> tuple[bytes, bytes | None, bytes | None]:
    """The config, source and lock of an image as columns; None for a source or a lock that it does not have."""
    source = None if image.source is None else _encoder.encode(image.source)
    return _encoder.encode(image.config), source, _encoder.encode(image.lock) if image.lock else None


def read_container(connection: Connection, key: Key) -> Container | None:
    return next(map(_CONTAINER.decode, connection.fetch(CONTAINER, key)), None)


def read_images(connection: Connection, key: Key) -> tuple[Image, ...]:
    return tuple(_decode_images(connection.fetch(IMAGES, key)))


def read_image(connection: Connection, key: Key, image_id: ImageId) -> Image | None:
    return next(_decode_images(connection.fetch(IMAGE, (*key, image_id))), None)


def drop_snapshot(connection: Connection, digest: str) -> None:
    """Drops a snapshot, unless an image still has it."""
    connection.execute(_DROP_SNAPSHOT, (digest,))


def read_sessions(connection: Connection, key: Key, image_id: ImageId) -> tuple[Session, ...]:
    return tuple(map(decode_session, connection.fetch(SESSIONS, (*key, image_id))))


def read_hidden_sessions(connection: Connection, key: Key, of: str, value: str) -> tuple[Session, ...]:
    """The sessions of sub-agents: those below a session, for `root_session`, or called by a turn, for `parent_turn`."""
    return tuple(map(decode_session, connection.fetch(_HIDDEN.format(of=f"s.{of} = ?"), (*key, value))))


def read_session(connection: Connection, key: Key, session_id: SessionId) -> Session | None:
    return next(map(decode_session, connection.fetch(SESSION, (*key, session_id))), None)


def read_quarantined(connection: Connection) -> tuple[tuple[TenantId, Session], ...]:
    return tuple((TenantId(tenant_id), decode_session(row)) for *row, tenant_id in connection.fetch(QUARANTINED))


def read_messages(connection: Connection, key: Key, session_id: SessionId, limit: int = ROWS_MAX) -> tuple[Message, ...]:
    return tuple(decode_message(body) for (body,) in connection.fetch(MESSAGES, (*key, session_id, limit)))


def read_recent_messages(
    connection: Connection, key: Key, session_id: SessionId, max_bytes: int, *, limit: int | None, strict: bool
) -> tuple[tuple[Message, ...], bool]:
    bounds = (max_bytes if strict else _SIZE_MAX, max_bytes, _SIZE_MAX if limit is None else limit)
    (_, _, truncated), *rows = connection.fetch(RECENT_MESSAGES, (*key, session_id, *bounds))
    return tuple(decode_message(body) for _, body, _ in rows), bool(truncated)


def read_homes(connection: Connection, turns: Iterable[tuple[TenantId, Turn]]) -> tuple[tuple[Image | None, bool], ...]:
    """The image of each turn, and whether its session can be found."""
    return tuple(
        (
            read_image(connection, (tenant_id, turn.container_id), turn.image_id),
            bool(connection.fetch(SHOWN_SESSION, (tenant_id, turn.session_id))),
        )
        for tenant_id, turn in turns
    )


def read_unfinished(connection: Connection, sessions: Sequence[int] | None = None) -> tuple[tuple[TenantId, Turn], ...]:
    """The turns without an end of all sessions, or of those with these keys."""
    if sessions is None:
        rows = connection.fetch(UNFINISHED.format(only=""))
    else:
        only = f" AND session_key IN ({numbers_of('?')})"
        rows = connection.fetch(UNFINISHED.format(only=only), (msgspec.json.encode(sessions).decode(),))
    return tuple(
        (TenantId(tenant_id), msgspec.structs.replace(decode_turn(tuple(row)), alongside=alongside))
        for *row, alongside, tenant_id in rows
    )


decode_turn = _TURN.decode
"""Decodes a row of `TURN_COLUMNS`."""


def _decode_images(rows: Iterable[tuple[Any, ...]]) -> Iterator[Image]:
    # Many images of a container are builds of one definition: decode it once.
    definitions: dict[str, Definition] = {}
    for image_id, container_id, session_id, name, description, definition_name, digest, body, config, *build in rows:
        source, lock, created, updated = build
        if digest not in definitions:
            definitions[digest] = _definition.decode(body)
        yield Image(
            image_id=image_id,
            container_id=container_id,
            session_id=session_id,
            name=name,
            description=description,
            definition_name=definition_name,
            digest=digest,
            definition=definitions[digest],
            config=_config.decode(config),
            source=None if source is None else _definition.decode(source),
            lock=() if lock is None else _lock.decode(lock),
            created_at=created,
            updated_at=updated,
        )


def decode_session(row: Sequence[Any]) -> Session:
    """Decodes a row of `SESSION_COLUMNS`."""
    *about, forked_session, forked_message, parent, turn, call, root, root_turn = row
    session = _SESSION.decode(about)
    if parent is not None:
        caller = ParentCall(
            session_id=parent, turn_id=TurnId(turn), call_id=call, root_session=root, root_turn=TurnId(root_turn)
        )
        session = msgspec.structs.replace(session, parent=caller)
    if forked_session is None:
        return session
    fork = Fork(session_id=SessionId(forked_session), message_id=MessageId(forked_message))
    return msgspec.structs.replace(session, forked_from=fork)
