"""Collect — drops unreferenced versions and binary parts in two steps: one call notes them, a later one drops them."""

from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN
from agentvm.storage.sql.resources.rows import RESERVED_MS

DROPPED_MAX = 40
"""Versions, resources and binary parts that one commit drops, of each kind."""
NOTED_MAX = 1_000
"""Versions and binary parts that one commit notes as unused."""

_IS_UNUSED = """
NOT EXISTS (SELECT 1 FROM image_refs WHERE version_key = v.version_key)
AND NOT EXISTS (SELECT 1 FROM resource_deps WHERE target_key = v.version_key)
"""
_OF_DELETED = f"""
FROM resources AS r {ORDERED_JOIN} resource_versions AS v ON v.resource_key = r.resource_key
WHERE r.deleted_at IS NOT NULL
"""
_UNUSED_VERSIONS = f"SELECT v.version_key {_OF_DELETED} AND {_IS_UNUSED} AND "
_NOTE_VERSIONS = f"""
UPDATE resource_versions SET unused_since = ?
WHERE version_key IN (SELECT v.version_key {_OF_DELETED} AND v.unused_since IS NULL AND {_IS_UNUSED} LIMIT {NOTED_MAX})
"""
_UNNOTE_VERSIONS = f"""
UPDATE resource_versions SET unused_since = NULL
WHERE version_key IN (
    SELECT v.version_key {_OF_DELETED} AND v.unused_since IS NOT NULL AND NOT ({_IS_UNUSED}) LIMIT {NOTED_MAX}
)
"""
_DROP_VERSIONS = f"""
DELETE FROM resource_versions
WHERE version_key IN (SELECT v.version_key {_OF_DELETED} AND v.unused_since <= ? AND {_IS_UNUSED} LIMIT {DROPPED_MAX})
"""
_DROP_RESOURCES = f"""
DELETE FROM resources
WHERE resource_key IN (
    SELECT resource_key FROM resources AS r
    WHERE deleted_at IS NOT NULL AND deleted_at <= ?
      AND NOT EXISTS (SELECT 1 FROM resource_versions AS v WHERE v.resource_key = r.resource_key) LIMIT {DROPPED_MAX}
)
"""
_BLOB_IS_UNUSED = """
NOT EXISTS (SELECT 1 FROM resource_versions WHERE content = resource_blobs.digest)
AND NOT EXISTS (SELECT 1 FROM version_blobs WHERE version_blobs.digest = resource_blobs.digest)
"""
_UNNOTE_BLOBS = f"""
UPDATE resource_blobs SET unused_since = NULL WHERE digest IN (
    SELECT digest FROM resource_blobs WHERE unused_since IS NOT NULL AND NOT ({_BLOB_IS_UNUSED}) LIMIT {NOTED_MAX}
)
"""
_NOTE_BLOBS = f"""
UPDATE resource_blobs SET unused_since = ? WHERE digest IN (
    SELECT digest FROM resource_blobs WHERE unused_since = 0 AND {_BLOB_IS_UNUSED} LIMIT {NOTED_MAX}
)
"""
_DROP_BLOBS = f"""
DELETE FROM resource_blobs WHERE digest IN (
    SELECT digest FROM resource_blobs WHERE unused_since BETWEEN 1 AND ? AND {_BLOB_IS_UNUSED} LIMIT {DROPPED_MAX}
)
"""
_DROP_BLOB = f"DELETE FROM resource_blobs WHERE digest = ? AND {_BLOB_IS_UNUSED}"
_HELD = """
SELECT content FROM resource_versions WHERE version_key = ?1
UNION SELECT digest FROM version_blobs WHERE version_key = ?1
"""


def collect(connection: Connection, now: int, grace: int) -> int:
    """See `Store.collect`. Dropping comes first, so that nothing is noted and dropped by one call."""
    # 0 means that a blob was released and is yet to be looked at.
    now = max(now, 1)
    connection.execute(_UNNOTE_VERSIONS)
    dropped = connection.execute(_DROP_VERSIONS, (now - grace,))
    connection.execute(_NOTE_VERSIONS, (now,))
    connection.execute(_DROP_RESOURCES, (now - RESERVED_MS,))
    connection.execute(_UNNOTE_BLOBS)
    dropped += connection.execute(_DROP_BLOBS, (now - grace,))
    connection.execute(_NOTE_BLOBS, (now,))
    return dropped


def drop_unused_versions(connection: Connection, resource_key: int) -> int:
    """Deletes some versions of a deleted resource that nothing refers to; returns their number. None comes into use again."""
    unused = connection.fetch(unused_versions_of("r.resource_key = ? LIMIT ?"), (resource_key, DROPPED_MAX))
    connection.many("DELETE FROM resource_versions WHERE version_key = ?", unused)
    return len(unused)


def unused_versions_of(resources: str) -> str:
    """The query for the versions of deleted resources that nothing refers to; the condition says which resources."""
    return _UNUSED_VERSIONS + resources


def drop_version(connection: Connection, version_key: int) -> None:
    """With its contents, unless another version has the same: no request can be about to refer to content that only this one
    shows."""
    held = connection.fetch(_HELD, (version_key,))
    connection.execute("DELETE FROM resource_versions WHERE version_key = ?", (version_key,))
    for (digest,) in held:
        connection.execute(_DROP_BLOB, (digest,))
