"""Rows — erases the rows of a container, a user or a tenant, some in each commit.

Theory of operation. A step selects the next remaining rows, in a fixed order, and deletes at most `ROWS_MAX` of them and about
`BYTES_MAX`; progress is not stored separately, so a crash loses none. References to an item are deleted before the item. The
row of a container is deleted last: until then no container of the same name can be created.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agentvm.model.ids import ERASED_NAME, ContainerId, TenantId, UserId, is_erased_name
from agentvm.storage.erasing import Advanced
from agentvm.storage.sql.attachments import drop_abandoned_slice, drop_blob
from agentvm.storage.sql.collections import erase_collections, tidy_slice
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.erasing.begin import begin_homes, mark_sessions, unbind_others
from agentvm.storage.sql.file_changes import drop_released
from agentvm.storage.sql.resources.delete import bury_some, drop_buried
from agentvm.storage.sql.rows import drop_snapshot
from agentvm.storage.sql.sessions.dropping import (
    BYTES_MAX,
    COLUMNS,
    FOR_GOOD_MS,
    ROWS_MAX,
    SessionRow,
    drop_image_keys,
    drop_slice,
)

LEDGER_ROWS_MAX = 1_000
"""Rows of the ledger that one commit looks at."""

MORE = Advanced(more=True)

# Its index leads to the sessions of the container alone: all of them are marked before.
_SESSIONS_OF_CONTAINER = f"""
SELECT {COLUMNS} FROM sessions
WHERE deleted_at = {FOR_GOOD_MS} AND tenant_id = ? AND container_id = ? LIMIT ?
"""
_SESSIONS_OF_TENANT = f"SELECT {COLUMNS} FROM sessions WHERE tenant_id = ? LIMIT ?"
_IMAGES = """
DELETE FROM images WHERE position IN (SELECT position FROM images WHERE {where} LIMIT ?)
RETURNING digest, tenant_id, image_id
"""
_ATTACHMENTS = "SELECT attachment_key, blob_key FROM attachments WHERE {where} LIMIT ?"
_DROP_ATTACHMENT = "DELETE FROM attachments WHERE attachment_key = ?"
_LEDGER = "SELECT position, container_id FROM ledger WHERE tenant_id = ? AND position > ? ORDER BY position LIMIT ?"
_RENAME = "UPDATE ledger SET container_id = ? WHERE position = ?"
_ASKED = "SELECT DISTINCT container_id FROM asked WHERE {where}"
_RENAME_ASKED = "UPDATE asked SET container_id = ? WHERE tenant_id = ? AND container_id = ?"
_SET_LEDGER_PLACE = "UPDATE erasures SET ledger_place = ? WHERE erasure_key = ?"
_DROP_CONTAINERS = "DELETE FROM containers WHERE position IN (SELECT position FROM containers WHERE {where} LIMIT ?)"
_DROP_DELIVERIES = """
DELETE FROM webhook_deliveries WHERE delivery_key IN (
    SELECT delivery_key FROM webhook_deliveries WHERE {where} LIMIT ?
)
"""
_CHANNEL_MESSAGES = """
DELETE FROM channel_messages WHERE position IN (SELECT position FROM channel_messages WHERE {where} LIMIT ?)
"""
_MEMORIES = "DELETE FROM memories WHERE position IN (SELECT position FROM memories WHERE {where} LIMIT ?)"
_STORE_ITEMS = "DELETE FROM store_items WHERE position IN (SELECT position FROM store_items WHERE {where} LIMIT ?)"
_SCHEDULED = tuple(
    f"DELETE FROM {table} WHERE position IN (SELECT position FROM {table} WHERE {{where}} LIMIT ?)"
    for table in ("schedules", "triggers", "runs")
)
_DROP_MARKS = """
DELETE FROM read_marks WHERE reader = ?1 AND (session_key, device) IN (
    SELECT m.session_key, m.device FROM read_marks AS m JOIN sessions AS s USING (session_key)
    WHERE m.reader = ?1 AND s.tenant_id = ?2 LIMIT ?3
)
"""
_DROP_READERS = """
DELETE FROM readers WHERE tenant_id = ?1 AND (client_id, session_key) IN (
    SELECT client_id, session_key FROM readers WHERE tenant_id = ?1 AND client_id >= ?2 AND client_id < ?3 LIMIT ?4
)
"""
_TABLES_OF_USERS = (
    "bindings", "quotas", "api_keys", "browser_sessions", "mcp_connections", "invitations", "identities", "preferences",
    "schedules", "triggers",
)  # fmt: skip
_OF_DELETED_USER = (
    # Before the schedules and triggers: these lead to them.
    *(
        f"""
        DELETE FROM runs WHERE position IN (
            SELECT r.position FROM runs AS r JOIN {table} AS s ON s.{key} = r.source_id
            WHERE s.tenant_id = ?1 AND s.user_id = ?2 LIMIT ?3
        )
        """
        for table, key in (("schedules", "schedule_id"), ("triggers", "trigger_id"))
    ),
    *(
        f"DELETE FROM {table} WHERE position IN (SELECT position FROM {table} WHERE tenant_id = ?1 AND user_id = ?2 LIMIT ?3)"
        for table in _TABLES_OF_USERS
    ),
    """
    DELETE FROM drafts WHERE (session_key, author, device) IN (
        SELECT d.session_key, d.author, d.device FROM drafts AS d JOIN sessions AS s USING (session_key)
        WHERE s.tenant_id = ?1 AND d.author = ?2 LIMIT ?3
    )
    """,
    """
    DELETE FROM quota_parts WHERE tenant_id = ?1 AND user_id = ?2 AND (metric, begins, node_id) IN (
        SELECT metric, begins, node_id FROM quota_parts WHERE tenant_id = ?1 AND user_id = ?2 LIMIT ?3
    )
    """,
    "DELETE FROM users WHERE position IN ("
    "SELECT position FROM users WHERE tenant_id = ?1 AND user_id = ?2 AND deleted_at IS NOT NULL LIMIT ?3)",
)
_OF_TENANT = tuple(
    f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {tenant} = ?1 LIMIT ?2) AND {tenant} = ?1"
    for table, key, tenant in (
        ("bindings", "position", "tenant_id"),
        ("users", "position", "tenant_id"),
        ("api_keys", "position", "tenant_id"),
        ("browser_sessions", "position", "tenant_id"),
        ("invitations", "position", "tenant_id"),
        ("identities", "position", "tenant_id"),
        ("preferences", "position", "tenant_id"),
        ("quotas", "position", "tenant_id"),
        ("quota_parts", "metric", "tenant_id"),
        ("secret_grants", "position", "tenant_id"),
        ("webhook_deliveries", "delivery_key", "tenant_id"),
        ("webhooks", "webhook_key", "tenant_id"),
        ("mcp_connections", "position", "tenant_id"),
        ("channels", "position", "tenant_id"),
        ("secrets", "name", "tenant_id"),
        ("definitions", "name", "tenant_id"),
        ("exports", "day", "tenant_id"),
        ("retired_homes", "digest", "tenant_id"),
        ("setting_changes", "revision", "scope"),
    )
)
# Others may be locked to what was its own, and know it by the slug.
_FORGET_NAMES = """
UPDATE tenants SET name = tenant_id, description = NULL, plan = NULL, slug = CASE
    WHEN EXISTS (SELECT 1 FROM resources AS r WHERE r.tenant_id = tenants.tenant_id) THEN slug ELSE tenant_id
END
WHERE tenant_id = ? AND deleted_at IS NOT NULL
"""
_EMPTIED = """
UPDATE erasures SET journal_entry = (SELECT coalesce(max(entry), 0) FROM journal) WHERE erasure_key = ?
"""
_ERASURE = """
SELECT erasure_key, tenant_id, container_id, user_id, target, asked_at, salt, ledger_place FROM erasures
WHERE erasure_key = ? AND journal_entry IS NULL
"""


class ErasureJob(NamedTuple):
    """A row of `erasures` of which rows are left."""

    erasure_key: int
    tenant_id: TenantId
    container_id: ContainerId | None
    user_id: UserId | None
    target: str | None
    asked_at: int
    salt: bytes
    ledger_place: int

    @property
    def where(self) -> str:
        return "tenant_id = ?" if self.container_id is None else "tenant_id = ? AND container_id = ?"

    @property
    def scope(self) -> tuple[str, ...]:
        return (self.tenant_id,) if self.container_id is None else (self.tenant_id, self.container_id)


def pass_journal(connection: Connection, before: int) -> None:
    """Entries of the journal before that one are gone. Counted when they are deleted, because their numbers are reused."""
    connection.execute("UPDATE erasures SET journal_entry = 0 WHERE journal_entry < ?", (before,))


Step = Callable[[Connection, ErasureJob], Advanced | None]
"""None when there is nothing of its kind left."""


def advance(connection: Connection, erasure_key: int) -> Advanced:
    """The next step of an erasure; the last one notes that no rows are left."""
    for row in connection.fetch(_ERASURE, (erasure_key,)):
        job = ErasureJob(*row)
        for step in _steps_of(job):
            done = step(connection, job)
            if done is not None:
                return done
        connection.execute(_EMPTIED, (erasure_key,))
    return Advanced(more=False)


def _steps_of(job: ErasureJob) -> tuple[Step, ...]:
    if job.target is not None:
        return _OF_TARGET
    return _OF_USER if job.user_id is not None else _OF_CONTAINER if job.container_id is not None else _OF_ALL


def _mark(connection: Connection, job: ErasureJob) -> Advanced | None:
    if job.container_id is None:
        return None
    return MORE if mark_sessions(connection, (job.tenant_id, job.container_id)) else None


def _unbind(connection: Connection, job: ErasureJob) -> Advanced | None:
    return MORE if job.container_id is not None and unbind_others(connection, (job.tenant_id, job.container_id)) else None


def _drop_sessions(connection: Connection, job: ErasureJob) -> Advanced | None:
    query = _SESSIONS_OF_TENANT if job.container_id is None else _SESSIONS_OF_CONTAINER
    left = [SessionRow(*row) for row in connection.fetch(query, (*job.scope, ROWS_MAX))]
    if not left:
        return None
    dropped = drop_slice(connection, left)
    return Advanced(more=True, gone=tuple(session.session_id for session in dropped.sessions), messages=dropped.messages)


def _drop_images(connection: Connection, job: ErasureJob) -> Advanced | None:
    dropped = connection.fetch(_IMAGES.format(where=job.where), (*job.scope, ROWS_MAX))
    for digest in {digest for digest, *_ in dropped}:
        drop_snapshot(connection, digest)
    for _, tenant_id, image_id in dropped:
        drop_image_keys(connection, tenant_id, image_id)
    return MORE if dropped else None


def _drop_deliveries(connection: Connection, job: ErasureJob) -> Advanced | None:
    """Deletes the notices of webhooks about a container, sent or not."""
    return MORE if connection.execute(_DROP_DELIVERIES.format(where=job.where), (*job.scope, ROWS_MAX)) else None


def _drop_attachments(connection: Connection, job: ErasureJob) -> Advanced | None:
    dropped = freed = 0
    for attachment_key, blob_key in connection.fetch(_ATTACHMENTS.format(where=job.where), (*job.scope, ROWS_MAX)):
        connection.execute(_DROP_ATTACHMENT, (attachment_key,))
        dropped += 1
        freed += drop_blob(connection, blob_key)
        if freed >= BYTES_MAX:
            break
    return MORE if dropped else None


def _drop_schedules(connection: Connection, job: ErasureJob) -> Advanced | None:
    """Deletes schedules and triggers of a container with their runs."""
    dropped = sum(connection.execute(statement.format(where=job.where), (*job.scope, ROWS_MAX)) for statement in _SCHEDULED)
    return MORE if dropped else None


def _drop_channel_messages(connection: Connection, job: ErasureJob) -> Advanced | None:
    return MORE if connection.execute(_CHANNEL_MESSAGES.format(where=job.where), (*job.scope, ROWS_MAX)) else None


def _drop_memories(connection: Connection, job: ErasureJob) -> Advanced | None:
    return MORE if connection.execute(_MEMORIES.format(where=job.where), (*job.scope, ROWS_MAX)) else None


def _drop_store_items(connection: Connection, job: ErasureJob) -> Advanced | None:
    return MORE if connection.execute(_STORE_ITEMS.format(where=job.where), (*job.scope, ROWS_MAX)) else None


def _drop_collections(connection: Connection, job: ErasureJob) -> Advanced | None:
    """Deletes the collections of a tenant with their documents and indexes."""
    return MORE if erase_collections(connection, job.tenant_id) or tidy_slice(connection) else None


def _tidy_collections(connection: Connection, job: ErasureJob) -> Advanced | None:
    """Deletes the rest of deleted documents, if a crash has left any."""
    return MORE if tidy_slice(connection) else None


def _drop_released(connection: Connection, job: ErasureJob) -> Advanced | None:
    """Deletes bytes of files that went with their sessions."""
    return MORE if drop_released(connection) else None


def _drop_large_blobs(connection: Connection, job: ErasureJob) -> Advanced | None:
    """Deletes bytes that were set aside by any erasure or upload: no row refers to them."""
    return MORE if drop_abandoned_slice(connection) else None


def _bury_resources(connection: Connection, job: ErasureJob) -> Advanced | None:
    return MORE if bury_some(connection, job.tenant_id, job.asked_at) else None


def _drop_resources(connection: Connection, job: ErasureJob) -> Advanced | None:
    return MORE if drop_buried(connection, job.tenant_id, ROWS_MAX) else None


def drop_accounts(connection: Connection, tenant_id: TenantId) -> bool:
    """Drops some of the users, keys, limits, secrets and settings of a deleted tenant; whether there were any."""
    for statement in _OF_TENANT:
        if connection.execute(statement, (tenant_id, ROWS_MAX)):
            return True
    return False


def drop_user_slice(connection: Connection, tenant_id: TenantId, user_id: UserId, now: int) -> bool:
    """Drops some rows of a deleted user, the user's own row last; whether there were any."""
    if begin_homes(connection, tenant_id, user_id, now):
        return True
    return any(connection.execute(statement, (tenant_id, user_id, ROWS_MAX)) for statement in _OF_DELETED_USER)


def _drop_user(connection: Connection, job: ErasureJob) -> Advanced | None:
    user_id = job.user_id
    return MORE if user_id and drop_user_slice(connection, job.tenant_id, user_id, job.asked_at) else None


def _drop_accounts(connection: Connection, job: ErasureJob) -> Advanced | None:
    return MORE if drop_accounts(connection, job.tenant_id) else None


def _rename_in_ledger(connection: Connection, job: ErasureJob) -> Advanced | None:
    entries = connection.fetch(_LEDGER, (job.tenant_id, job.ledger_place, LEDGER_ROWS_MAX))
    if not entries:
        _rename_sent_calls(connection, job)
        return None
    for position, container_id in entries:
        if _is_to_rename(job, container_id):
            connection.execute(_RENAME, (pseudonym(job.salt, container_id), position))
    connection.execute(_SET_LEDGER_PLACE, (entries[-1][0], job.erasure_key))
    return MORE


def _rename_sent_calls(connection: Connection, job: ErasureJob) -> None:
    """Calls that a process asked for before it died are entered in the ledger later, under the name that is here."""
    for (container_id,) in connection.fetch(_ASKED.format(where=job.where), job.scope):
        if _is_to_rename(job, container_id):
            connection.execute(_RENAME_ASKED, (pseudonym(job.salt, container_id), job.tenant_id, container_id))


def _is_to_rename(job: ErasureJob, container_id: str) -> bool:
    """A tenant's erasure leaves the names that erasures of its containers gave: their entries stay together."""
    return not is_erased_name(container_id) if job.container_id is None else container_id == job.container_id


def pseudonym(salt: bytes, container_id: str) -> str:
    """The same name for all entries of one container, which cannot be identified once the salt is deleted."""
    return ERASED_NAME + hashlib.sha256(salt + container_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _drop_containers(connection: Connection, job: ErasureJob) -> Advanced | None:
    return MORE if connection.execute(_DROP_CONTAINERS.format(where=job.where), (*job.scope, ROWS_MAX)) else None


def _forget_names(connection: Connection, job: ErasureJob) -> Advanced | None:
    connection.execute(_FORGET_NAMES, (job.tenant_id,))
    return None


def _drop_marks(connection: Connection, job: ErasureJob) -> Advanced | None:
    # What a client of theirs is called begins with their id: see `agentvm.tenants.scoped_store`.
    first, beyond = f"{job.user_id}:", f"{job.user_id};"
    jobs: Sequence[tuple[str, tuple[Any, ...]]] = (
        (_DROP_MARKS, (job.user_id, job.tenant_id, ROWS_MAX)),
        (_DROP_READERS, (job.tenant_id, first, beyond, ROWS_MAX)),
    )
    for statement, values in jobs:
        if connection.execute(statement, values):
            return MORE
    return None


_CONTENTS: tuple[Step, ...] = (
    _mark, _drop_sessions, _drop_deliveries, _drop_schedules, _drop_images, _drop_attachments, _drop_channel_messages,
    _drop_memories, _drop_store_items, _drop_released, _drop_large_blobs,
)  # fmt: skip
_OF_TARGET: tuple[Step, ...] = (_tidy_collections, _drop_large_blobs)
_OF_USER: tuple[Step, ...] = (_drop_user, _drop_marks)
_OF_CONTAINER: tuple[Step, ...] = (_unbind, *_CONTENTS, _rename_in_ledger, _drop_containers)
_OF_ALL: tuple[Step, ...] = (
    _bury_resources, _drop_collections, *_CONTENTS, _drop_resources, _drop_accounts, _rename_in_ledger, _drop_containers,
    _forget_names,
)  # fmt: skip
