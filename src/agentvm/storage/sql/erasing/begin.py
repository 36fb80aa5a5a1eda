"""Begin — the short commits by which containers, users and tenants are deleted, and the marks that prevent new writes.

A container that is being erased keeps its row, marked, until its content is deleted: every write to it checks the mark.
"""

import hashlib
from collections.abc import Sequence

from agentvm.errors.erasing import ContainerErasing
from agentvm.model.ids import ContainerId, TenantId, UserId
from agentvm.storage.sql import dialect
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.rows import Key
from agentvm.storage.sql.sessions.dropping import FOR_GOOD_MS, MARKED_MAX, ROWS_MAX

_DELETE = """
UPDATE containers SET deleted_at = ? WHERE tenant_id = ? AND container_id = ? AND deleted_at IS NULL
"""
_IS_ERASING = "SELECT 1 FROM containers WHERE tenant_id = ? AND container_id = ? AND deleted_at IS NOT NULL"
_NOTE = "INSERT INTO erasures (tenant_id, container_id, user_id, asked_at) VALUES (?, ?, ?, ?)"
_MARK = f"""
UPDATE sessions SET deleted_at = {FOR_GOOD_MS}
WHERE session_key IN (
    SELECT session_key FROM sessions WHERE tenant_id = ?1 AND container_id = ?2 AND deleted_at IS NULL LIMIT ?3
)
"""
# Those that could still be restored. The index leads to deleted sessions alone, of whomever: there are few.
_MARK_DELETED = f"""
UPDATE sessions SET deleted_at = {FOR_GOOD_MS}
WHERE session_key IN (
    SELECT session_key FROM sessions
    WHERE deleted_at > {FOR_GOOD_MS} AND tenant_id = ?1 AND container_id = ?2 LIMIT ?3
)
"""
_UNBIND = """
DELETE FROM bindings WHERE position IN (
    SELECT own.position FROM bindings AS own
    WHERE own.tenant_id = ?1 AND own.container_id = ?2 AND EXISTS (
        SELECT 1 FROM bindings AS first
        WHERE first.tenant_id = ?1 AND first.user_id = own.user_id AND first.position < own.position
    )
    LIMIT ?3
)
RETURNING user_id
"""
_ALONE = """
SELECT own.container_id FROM bindings AS own
WHERE own.tenant_id = ?1 AND own.user_id = ?2 AND NOT EXISTS (
    SELECT 1 FROM bindings AS other JOIN users AS u ON u.tenant_id = other.tenant_id AND u.user_id = other.user_id
    WHERE other.tenant_id = ?1 AND other.container_id = own.container_id AND other.user_id <> ?2 AND u.deleted_at IS NULL
)
ORDER BY own.position LIMIT ?3
"""
# Under its own id: another user may have the external id from now on.
_DELETE_USER = """
UPDATE users SET deleted_at = ?1, external_id = user_id, display_name = NULL
WHERE tenant_id = ?2 AND user_id = ?3 AND deleted_at IS NULL
"""
_DROP_BINDING = "DELETE FROM bindings WHERE tenant_id = ? AND user_id = ? AND container_id = ?"
_RETIRE = "INSERT INTO retired_homes (tenant_id, digest) VALUES (?, ?) ON CONFLICT DO NOTHING"
_IS_TAKEN = """
SELECT EXISTS (SELECT 1 FROM containers WHERE tenant_id = ?1 AND container_id = ?2)
    OR EXISTS (SELECT 1 FROM bindings WHERE tenant_id = ?1 AND container_id = ?2)
    OR EXISTS (SELECT 1 FROM retired_homes WHERE tenant_id = ?1 AND digest = ?3)
"""
# A container that was made again, or that somebody was bound to later, is in use.
_IS_RETIRED = """
SELECT EXISTS (SELECT 1 FROM retired_homes WHERE tenant_id = ?1 AND digest = ?3)
    AND NOT EXISTS (SELECT 1 FROM containers WHERE tenant_id = ?1 AND container_id = ?2)
    AND NOT EXISTS (SELECT 1 FROM bindings WHERE tenant_id = ?1 AND container_id = ?2)
"""


def refuse_erasing(connection: Connection, key: Key) -> None:
    """`ContainerErasing` for a container that was deleted and whose rows are still there."""
    if connection.fetch(_IS_ERASING, key):
        raise ContainerErasing(key[1])


def is_retired(connection: Connection, key: Key) -> bool:
    """Whether the container was deleted with its user."""
    tenant_id, container_id = key
    return bool(connection.fetch(_IS_RETIRED, (tenant_id, container_id, _digest(container_id)))[0][0])


def begin_container(connection: Connection, key: Key, now: int) -> bool:
    """Marks a container as deleted and notes its erasure; False without such a container."""
    if not connection.execute(_DELETE, (now, *key)):
        return False
    connection.execute(_NOTE, (*key, None, now))
    return True


def begin_user(connection: Connection, tenant_id: TenantId, user_id: UserId, now: int) -> bool:
    """Marks a user as deleted and notes the erasure; False without such a user."""
    if not connection.execute(_DELETE_USER, (now, tenant_id, user_id)):
        return False
    connection.execute(_NOTE, (tenant_id, None, user_id, now))
    return True


def begin_homes(connection: Connection, tenant_id: TenantId, user_id: UserId, now: int) -> bool:
    """Deletes some containers that a deleted user has alone; whether there were any. Their names are not reused."""
    homes = only_member_of(connection, tenant_id, user_id, limit=ROWS_MAX)
    for container_id in homes:
        connection.execute(_RETIRE, (tenant_id, _digest(container_id)))
        begin_container(connection, (tenant_id, container_id), now)
        connection.execute(_DROP_BINDING, (tenant_id, user_id, container_id))
    return bool(homes)


def begin_tenant(connection: Connection, tenant_id: TenantId, now: int) -> None:
    connection.execute(_NOTE, (tenant_id, None, None, now))


def mark_sessions(connection: Connection, key: Key) -> bool:
    """Takes some sessions of a container out of every list and search, permanently; whether there may be more."""
    for statement in (_MARK, _MARK_DELETED):
        if connection.execute(statement, (*key, MARKED_MAX)):
            return True
    return False


def unbind_others(connection: Connection, key: Key) -> tuple[UserId, ...]:
    """Unbinds users and returns them: all except those whose first container it is."""
    return tuple(UserId(user_id) for (user_id,) in connection.fetch(_UNBIND, (*key, MARKED_MAX)))


def only_member_of(
    connection: Connection, tenant_id: TenantId, user_id: UserId, limit: int = dialect.ROWS_MAX
) -> tuple[ContainerId, ...]:
    """The containers that no other user is bound to, in the order they were bound."""
    return tuple(ContainerId(name) for (name,) in connection.fetch(_ALONE, (tenant_id, user_id, limit)))


def choose_home(connection: Connection, tenant_id: TenantId, homes: Sequence[ContainerId]) -> ContainerId | None:
    """The first name that is and was no user's."""
    for home in homes:
        if not connection.fetch(_IS_TAKEN, (tenant_id, home, _digest(home)))[0][0]:
            return home
    return None


def _digest(container_id: ContainerId) -> bytes:
    return hashlib.sha256(container_id.encode("utf-8", "surrogatepass")).digest()
