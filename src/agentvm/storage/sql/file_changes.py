"""File changes — how commits change the files of sessions, and how bytes go that no file has any more.

See `session_files.py` for the theory.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agentvm.errors import ConstraintFailed
from agentvm.model.ids import MessageId, SessionId
from agentvm.model.session_file import FileChange, FileDelta
from agentvm.storage.sql.attachments import DROPPED_BYTES_MAX, DROPPED_MAX, IS_UNUSED, NOTED_MAX, drop_blob, put_blob
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import items_of
from agentvm.storage.sql.rows import Key

_SESSION = "SELECT session_key FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?"
_FIND_BLOB = "SELECT blob_key FROM blobs WHERE digest = ?"
_UNCLAIM = "DELETE FROM file_claims WHERE session_key = ? AND blob_key = ?"
_POSITION = "SELECT position FROM all_messages WHERE session_key = ? AND message_id = ?"
_LAST_POSITION = "SELECT coalesce(max(position), 0) FROM messages WHERE session_key = ?"
_PUT = """
INSERT INTO file_changes (session_key, path, position, blob_key, is_executable, is_tainted, changed_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_key, path, position) DO UPDATE
SET blob_key = excluded.blob_key, is_executable = excluded.is_executable, is_tainted = excluded.is_tainted,
    changed_at = excluded.changed_at
"""
_DROP = "DELETE FROM file_changes WHERE session_key = ? AND path = ? AND position = ?"
_COPY = f"""
INSERT INTO file_changes (session_key, path, position, blob_key, is_executable, is_tainted, changed_at)
SELECT copy.session_key, f.path, copy.position, f.blob_key, f.is_executable, f.is_tainted, f.changed_at
FROM file_changes AS f
JOIN all_messages AS said ON said.position = f.position
JOIN all_messages AS copy ON copy.session_key = ?2 AND copy.message_id = said.message_id
WHERE f.session_key = ?1 AND f.position > 0 AND said.message_id IN ({items_of("?3")})
"""
_COPY_FIRST = """
INSERT INTO file_changes (session_key, path, position, blob_key, is_executable, is_tainted, changed_at)
SELECT ?2, path, 0, blob_key, is_executable, is_tainted, changed_at FROM file_changes WHERE session_key = ?1 AND position = 0
"""
_DROP_OLDER = """
DELETE FROM file_changes WHERE session_key = ?1 AND position < ?2
  AND path IN (SELECT path FROM file_changes WHERE session_key = ?1 AND position = ?2)
"""
_DROP_DELETED = "DELETE FROM file_changes WHERE session_key = ? AND position = ? AND blob_key IS NULL"
_KEEP = "UPDATE file_changes SET position = 0 WHERE session_key = ? AND position = ?"
_MANY = f"""
SELECT path FROM file_changes WHERE session_key = ?1 AND path IN ({items_of("?2")}) GROUP BY path HAVING count(*) > ?3
"""
_OLDEST = f"""
SELECT f.position, f.position = 0 OR EXISTS (SELECT 1 FROM messages AS m WHERE m.position = f.position)
FROM file_changes AS f
WHERE f.session_key = ?1 AND f.path = ?2 AND f.position <= (
    SELECT position FROM file_changes WHERE session_key = ?1 AND path = ?2 ORDER BY position DESC LIMIT 1 OFFSET ?3
)
ORDER BY f.position LIMIT {DROPPED_MAX}
"""
_DROP_FIRST = "DELETE FROM file_changes WHERE session_key = ? AND path = ? AND position <= ? AND position <> ?"
_KEEP_ONE = "UPDATE file_changes SET position = 0 WHERE session_key = ? AND path = ? AND position = ?"
_DROP_NOTHING = "DELETE FROM file_changes WHERE session_key = ? AND path = ? AND position = 0 AND blob_key IS NULL"
_OLD_CLAIMS = f"SELECT session_key, blob_key FROM file_claims WHERE claimed_at <= ? LIMIT {NOTED_MAX}"
_RELEASED = "SELECT blob_key FROM blobs WHERE is_released = 1 LIMIT ?"
_IS_UNUSED = f"SELECT 1 FROM blobs WHERE blob_key = ?1 AND {IS_UNUSED}"
_KEEP_BLOB = "UPDATE blobs SET is_released = 0 WHERE blob_key = ?"


def write_files(deltas: Sequence[FileDelta]) -> Callable[[Connection, Any], None]:
    """Returns the part of a commit that changes files. `ConstraintFailed` when bytes are gone: their claim has expired."""

    def work(connection: Connection, session_key: Any) -> None:
        for delta in deltas:
            position = _position(connection, session_key, delta.message_id)
            for change in delta.changes:
                _write_change(connection, session_key, position, change, delta.at)

    return work


def write_arriving_change(connection: Connection, session_key: int, delta: FileDelta, chunks: Sequence[bytes]) -> None:
    """Adds a change of an import; the chunks, which must be those of its bytes, are stored only if they are new."""
    (change,) = delta.changes
    # Bytes that have come before are there, or the change is refused.
    if change.digest is not None and (chunks or not change.size):
        put_blob(connection, change.digest, change.size, iter(chunks))
    position = 0 if delta.message_id is None else _position(connection, session_key, delta.message_id)
    _write_change(connection, session_key, position, change, delta.at)


def _position(connection: Connection, session_key: Any, message_id: MessageId | None) -> int:
    if message_id is None:
        return int(connection.fetch(_LAST_POSITION, (session_key,))[0][0])
    rows = connection.fetch(_POSITION, (session_key, message_id))
    if not rows:
        raise ConstraintFailed(f"Files name the message {message_id}, which is not stored")
    return int(rows[0][0])


def _write_change(connection: Connection, session_key: Any, position: int, change: FileChange, at: int) -> None:
    if change.digest is None:
        if position:
            connection.execute(_PUT, (session_key, change.path, position, None, 0, 0, at))
        else:
            connection.execute(_DROP, (session_key, change.path, 0))
        return
    rows = connection.fetch(_FIND_BLOB, (change.digest,))
    if not rows:
        raise ConstraintFailed(f"The bytes of {change.path} are gone")
    blob_key = rows[0][0]
    flags = (int(change.executable), int(change.tainted))
    connection.execute(_PUT, (session_key, change.path, position, blob_key, *flags, at))
    connection.execute(_UNCLAIM, (session_key, blob_key))


def copy_files(connection: Connection, key: Key, origin: SessionId, fork: SessionId, messages: Sequence[MessageId]) -> None:
    """Copies the changes that came with these messages to a fork that has the same ones; without any, those of no message."""
    keys = [connection.fetch(_SESSION, (*key, session_id)) for session_id in (origin, fork)]
    if not all(keys):
        return
    pair = (keys[0][0][0], keys[1][0][0])
    if messages:
        connection.execute(_COPY, (*pair, msgspec.json.encode(messages).decode()))
    else:
        connection.execute(_COPY_FIRST, pair)


def keep_files(connection: Connection, session_key: int, position: int) -> None:
    """The message is about to be dropped because it is old: its changes stay, as those of no message."""
    connection.execute(_DROP_OLDER, (session_key, position))
    connection.execute(_DROP_DELETED, (session_key, position))
    connection.execute(_KEEP, (session_key, position))


def with_many_versions(connection: Connection, session_key: int, paths: Sequence[str], keep: int) -> list[str]:
    """Returns those of the files that have more than `keep` states."""
    rows = connection.fetch(_MANY, (session_key, msgspec.json.encode(paths).decode(), keep))
    return [path for (path,) in rows]


def trim_versions(connection: Connection, session_key: int, paths: Sequence[str], keep: int) -> None:
    """Drops some of the oldest states of files that have more than `keep`.

    The oldest one that is kept stays as a state of no message: a rewind or a fork beyond it has the file as it was then.
    """
    for path in with_many_versions(connection, session_key, paths, keep):
        oldest = connection.fetch(_OLDEST, (session_key, path, keep - 1))
        # One that was rewound must not stand again.
        newest_position = max((position for position, stands in oldest if stands), default=-1)
        connection.execute(_DROP_FIRST, (session_key, path, oldest[-1][0], newest_position))
        connection.execute(_KEEP_ONE, (session_key, path, newest_position))
        connection.execute(_DROP_NOTHING, (session_key, path))


def collect_files(connection: Connection, now: int, grace: int) -> int:
    """Drops claims that nothing came of, and some bytes that no file has any more; how many of these."""
    for claim in connection.fetch(_OLD_CLAIMS, (now - grace,)):
        connection.execute(_UNCLAIM, claim)
    return drop_released(connection)


def drop_released(connection: Connection) -> int:
    """Looks at some bytes that may be unreferenced; returns how many it has looked at."""
    looked = freed = 0
    for (blob_key,) in connection.fetch(_RELEASED, (DROPPED_MAX,)):
        looked += 1
        connection.execute(_KEEP_BLOB, (blob_key,))
        if connection.fetch(_IS_UNUSED, (blob_key,)):
            freed += drop_blob(connection, blob_key)
        if freed >= DROPPED_BYTES_MAX:
            break
    return looked
