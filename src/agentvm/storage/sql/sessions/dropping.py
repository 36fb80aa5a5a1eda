"""Dropping — deletes sessions with all that belongs to them, a slice in each commit, because all tenants share the writer.

Progress is not stored separately, so a crash loses none: the next slice continues with the remaining rows.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN
from agentvm.storage.sql.rows import drop_snapshot

ROWS_MAX = 40
"""Rows that one commit deletes; a message also leaves the search index, which costs more than the row."""
BYTES_MAX = 512 * 1024
"""Bytes that one commit deletes, unless one row has more."""
MARKED_MAX = 500
"""Sessions that one commit hides."""
FOR_GOOD_MS = -(2**62)
"""The `deleted_at` of sessions that cannot be restored."""

COLUMNS = "session_key, tenant_id, container_id, session_id, image_id"
"""The columns of a `SessionRow`."""

_MESSAGES = "all_messages"
_HEAVY = (_MESSAGES, "log", "program_calls")
"""Tables whose rows have a body that may be large."""
_FILES = ("file_changes", "file_claims")
"""Tables of its files: they go first, because a message takes its changes of files along."""
_LIGHT = {
    "file_changes": "path, position",
    "file_claims": "blob_key",
    "turns": "position",
    "rewinds": "rewind_key",
    "summaries": "summary_key",
    "waits": "wait_key",
    "placed_calls": "placed_key",
    "aliases": "alias_key",
    "feedback": "position",
    "shares": "position",
    "drafts": "author, device",
    "read_marks": "reader, device",
    "readers": "tenant_id, client_id",
    "refused_parts": "message_id, part",
    "rewound_ranges": "first, rewind_key",
}
"""Other tables of a session, each with the columns that tell its rows apart."""
_WEIGHED = "SELECT position, length(body) FROM {table} WHERE session_key = ? LIMIT ?"
_DROP_PLACE = "DELETE FROM {table} WHERE position = ?"
_DROP_LIGHT = """
DELETE FROM {table} WHERE session_key = ?1 AND ({key}) IN (SELECT {key} FROM {table} WHERE session_key = ?1 LIMIT ?2)
"""
_DROP_SESSION = "DELETE FROM sessions WHERE session_key = ? AND tenant_id = ? AND container_id = ?"
# Those of a container that is erased go with it, after their turns have ended.
_DELETED = f"""
SELECT {COLUMNS} FROM sessions
WHERE deleted_at <= ? AND NOT EXISTS (
    SELECT 1 FROM containers AS c
    WHERE c.tenant_id = sessions.tenant_id AND c.container_id = sessions.container_id AND c.deleted_at IS NOT NULL
)
ORDER BY deleted_at LIMIT ?
"""
_BELOW = f"SELECT {COLUMNS} FROM sessions WHERE tenant_id = ? AND root_session = ?"
_OF_IMAGE = f"""
SELECT {COLUMNS} FROM sessions
WHERE tenant_id = ? AND container_id = ? AND image_id = ? LIMIT ?
"""
_DROP_IMAGE_KEYS = "DELETE FROM secrets WHERE tenant_id = ? AND name LIKE ?"
_DROP_IMAGE = """
DELETE FROM images
WHERE tenant_id = ?1 AND container_id = ?2 AND image_id = ?3
  AND NOT EXISTS (SELECT 1 FROM sessions WHERE tenant_id = ?1 AND image_id = ?3)
RETURNING digest
"""
# Its default session first: an image is shown as long as that one is.
_HIDE_DEFAULT = f"""
UPDATE sessions SET deleted_at = {FOR_GOOD_MS} WHERE (tenant_id, session_id) IN (
    SELECT tenant_id, session_id FROM images WHERE tenant_id = ? AND container_id = ? AND image_id = ?
)
"""
_HIDE_SOME = f"""
UPDATE sessions SET deleted_at = {FOR_GOOD_MS} WHERE session_key IN (
    SELECT session_key FROM sessions
    WHERE tenant_id = ? AND container_id = ? AND image_id = ? AND deleted_at IS DISTINCT FROM {FOR_GOOD_MS} LIMIT ?
)
"""
# Sessions of images whose deletion a crash has cut short: nothing else hides a default session for good.
_HIDE_LEFT = f"""
UPDATE sessions SET deleted_at = {FOR_GOOD_MS} WHERE session_key IN (
    SELECT other.session_key
    FROM sessions AS hidden
    {ORDERED_JOIN} images ON images.tenant_id = hidden.tenant_id AND images.image_id = hidden.image_id
    {ORDERED_JOIN} sessions AS other ON other.tenant_id = images.tenant_id AND other.image_id = images.image_id
      AND other.container_id = images.container_id
    WHERE hidden.deleted_at = {FOR_GOOD_MS} AND hidden.session_id = images.session_id
      AND other.deleted_at IS DISTINCT FROM {FOR_GOOD_MS} LIMIT ?
)
"""
# The sub-agents of sessions that are about to go: they go first.
_HIDE_BELOW = f"""
UPDATE sessions SET deleted_at = {FOR_GOOD_MS} WHERE session_key IN (
    SELECT session_key FROM sessions
    WHERE tenant_id = ? AND root_session = ? AND deleted_at IS DISTINCT FROM {FOR_GOOD_MS} LIMIT ?
)
"""

ImageKey = tuple[TenantId, ContainerId, ImageId]


class SessionRow(NamedTuple):
    """A session that is to be deleted."""

    session_key: int
    tenant_id: TenantId
    container_id: ContainerId
    session_id: SessionId
    image_id: ImageId


class DroppedSessions(NamedTuple):
    """The sessions that one slice deleted, and the number of messages, also of sessions that are not empty yet."""

    sessions: tuple[SessionRow, ...] = ()
    messages: int = 0


def drop_slice(connection: Connection, sessions: Iterable[SessionRow]) -> DroppedSessions:
    """Deletes as much of these sessions as one commit may."""
    gone: list[SessionRow] = []
    rows = size = messages = 0
    for session in sessions:
        for table, dropped, freed in _empty(connection, session.session_key):
            rows, size = rows + dropped, size + freed
            messages += dropped if table == _MESSAGES else 0
            if rows >= ROWS_MAX or size >= BYTES_MAX:
                return DroppedSessions(tuple(gone), messages)
        connection.execute(_DROP_SESSION, session[:3])
        gone.append(session)
        rows += 1
    return DroppedSessions(tuple(gone), messages)


def purge_slice(connection: Connection, deleted_before: int, limit: int) -> tuple[tuple[SessionRow, ...], bool]:
    """Deletes some of the sessions that were deleted until then; the ones that are gone, and whether there may be more.

    An image that has no session any more goes with its last.
    """
    if connection.execute(_HIDE_LEFT, (MARKED_MAX,)):
        return (), True
    left = [SessionRow(*row) for row in connection.fetch(_DELETED, (deleted_before, min(limit, ROWS_MAX)))]
    if any(connection.execute(_HIDE_BELOW, (session.tenant_id, session.session_id, MARKED_MAX)) for session in left):
        return (), True
    gone = drop_slice(connection, left).sessions
    for key in {(session.tenant_id, session.container_id, session.image_id) for session in gone}:
        drop_empty_image(connection, key)
    return gone, bool(left)


def drop_session_slice(connection: Connection, session: SessionRow) -> bool:
    """Deletes some of a session and of its sub-agents, hidden ones as well; whether there may be more."""
    below = [SessionRow(*row) for row in connection.fetch(_BELOW, (session.tenant_id, session.session_id))]
    return len(drop_slice(connection, (*below, session)).sessions) <= len(below)


def hide_image(connection: Connection, key: ImageKey) -> bool:
    """Hides the image and some of its sessions permanently; whether there may be more to hide."""
    connection.execute(_HIDE_DEFAULT, key)
    return connection.execute(_HIDE_SOME, (*key, MARKED_MAX)) == MARKED_MAX


def drop_image_slice(connection: Connection, key: ImageKey) -> bool:
    """Deletes some of a hidden image, the image itself with its last session; whether there may be more."""
    left = [SessionRow(*row) for row in connection.fetch(_OF_IMAGE, (*key, ROWS_MAX))]
    drop_slice(connection, left)
    return not drop_empty_image(connection, key) and bool(left)


def drop_empty_image(connection: Connection, key: ImageKey) -> bool:
    """Deletes an image that has no session any more; whether it did."""
    dropped = connection.fetch(_DROP_IMAGE, key)
    for (digest,) in dropped:
        drop_snapshot(connection, digest)
        drop_image_keys(connection, key[0], key[2])
    return bool(dropped)


def drop_image_keys(connection: Connection, tenant_id: str, image_id: str) -> None:
    """Deletes the sealed keys that an image had for its model calls."""
    connection.execute(_DROP_IMAGE_KEYS, (tenant_id, f"image.{image_id}.%"))


def _empty(connection: Connection, session_key: int) -> Iterator[tuple[str, int, int]]:
    """Deletes the rows of a session bit by bit; yields the table, the number of rows, and their bytes."""
    for table in _FILES:
        while dropped := drop_light(connection, session_key, table):
            yield table, dropped, 0
    for table in _HEAVY:
        while weighed := connection.fetch(_WEIGHED.format(table=table), (session_key, ROWS_MAX)):
            for position, size in weighed:
                connection.execute(_DROP_PLACE.format(table=table), (position,))
                yield table, 1, size
    for table in _LIGHT:
        while dropped := drop_light(connection, session_key, table):
            yield table, dropped, 0


def drop_light(connection: Connection, session_key: int, table: str) -> int:
    """Deletes some rows of a session in one of the light tables; returns how many."""
    return connection.execute(_DROP_LIGHT.format(table=table, key=_LIGHT[table]), (session_key, ROWS_MAX))
