"""Delete — deletes resources; versions that others are locked to stay readable for them."""

from agentvm.errors.resource import ResourceInUse
from agentvm.model.ids import TenantId
from agentvm.model.resource import ResourceId
from agentvm.storage.resources import Dependents
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.resources.collect import DROPPED_MAX, drop_unused_versions, drop_version, unused_versions_of
from agentvm.storage.sql.resources.read import read_dependents
from agentvm.storage.sql.resources.rows import encode, uri_of
from agentvm.storage.sql.rows import note_traces

_OWN = "SELECT resource_key FROM resources WHERE resource_id = ? AND tenant_id = ? AND deleted_at IS NULL"
_SOME_OWN = "SELECT resource_key FROM resources WHERE tenant_id = ? AND deleted_at IS NULL LIMIT ?"
_DELETE = """
DELETE FROM resources WHERE resource_key = ?1 AND NOT EXISTS (SELECT 1 FROM resource_versions WHERE resource_key = ?1)
"""
_BURY = "UPDATE resources SET deleted_at = ?1, updated_at = ?1, latest_key = NULL WHERE resource_key = ?2"
_FORGET_WORDS = "DELETE FROM resource_words WHERE resource_key = ?"
_FORGET_TAGS = "DELETE FROM resource_tags WHERE resource_key = ?"
_RELEASE = """
DELETE FROM image_refs WHERE (position, version_key) IN (
    SELECT i.position, i.version_key FROM images JOIN image_refs AS i USING (position) WHERE images.tenant_id = ? LIMIT ?
)
"""
_FORGET_WORDING = "UPDATE resources SET description = NULL, tags = ?, deprecated = NULL WHERE resource_key = ?"
_FORGET_TEXTS = """
UPDATE resource_versions SET words = '' WHERE version_key IN (
    SELECT v.version_key FROM resources AS r JOIN resource_versions AS v USING (resource_key)
    WHERE r.tenant_id = ? AND r.deleted_at IS NOT NULL AND v.words <> '' LIMIT ?
)
"""
_DROP_EMPTY = """
DELETE FROM resources WHERE resource_key IN (
    SELECT r.resource_key FROM resources AS r
    WHERE r.tenant_id = ? AND r.deleted_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM resource_versions AS v WHERE v.resource_key = r.resource_key)
    LIMIT ?
)
"""

BURIED_MAX = 25
"""Resources that one commit takes out of sight: their words leave the search."""
RELEASED_MAX = 500
"""References of images that one commit drops, and versions whose words it forgets."""


def begin(connection: Connection, tenant_id: TenantId, resource_id: ResourceId, *, force: bool, now: int) -> int | None:
    """Hides a resource, but not its locked versions; None if the tenant has no such resource."""
    for (resource_key,) in connection.fetch(_OWN, (resource_id, tenant_id)):
        if not force:
            _refuse_in_use(tenant_id, read_dependents(connection, tenant_id, resource_key))
        _bury(connection, resource_key, now)
        note_traces(connection, tenant_id, resource_id, now)
        return int(resource_key)
    return None


def drop_slice(connection: Connection, resource_key: int, *, force: bool) -> bool:
    """Drops some versions of a deleted resource; returns whether there may be more.

    Without `force` the resource goes in one commit with the last: a crash in between would leave its name reserved.
    """
    dropped = 0
    # Versions that only the dropped ones referred to are unused now.
    while count := drop_unused_versions(connection, resource_key):
        dropped += count
        if dropped >= DROPPED_MAX:
            return True
    if not force:
        connection.execute(_DELETE, (resource_key,))
    return False


def bury_some(connection: Connection, tenant_id: TenantId, now: int) -> bool:
    """Takes some of the resources of a deleted tenant out of sight; whether there was one.

    Its images cannot be reached any more, so they keep no version alive.
    """
    released = connection.execute(_RELEASE, (tenant_id, RELEASED_MAX))
    rows = connection.fetch(_SOME_OWN, (tenant_id, BURIED_MAX))
    for (resource_key,) in rows:
        _bury(connection, resource_key, now)
        connection.execute(_FORGET_WORDING, (encode(()), resource_key))
    forgotten = connection.execute(_FORGET_TEXTS, (tenant_id, RELEASED_MAX))
    return bool(released or rows or forgotten)


def drop_buried(connection: Connection, tenant_id: TenantId, limit: int) -> bool:
    """Drops versions of a deleted tenant without locks, with their contents; whether there was one.

    Versions that others are locked to stay for them. Resources without a version are deleted as well.
    """
    rows = connection.fetch(unused_versions_of("r.tenant_id = ? LIMIT ?"), (tenant_id, limit))
    for (version_key,) in rows:
        drop_version(connection, version_key)
    return bool(rows or connection.execute(_DROP_EMPTY, (tenant_id, limit)))


def _bury(connection: Connection, resource_key: int, now: int) -> None:
    connection.execute(_BURY, (now, resource_key))
    connection.search.put_resource(resource_key, None)
    for statement in (_FORGET_WORDS, _FORGET_TAGS):
        connection.execute(statement, (resource_key,))


def _refuse_in_use(tenant_id: TenantId, dependents: Dependents) -> None:
    if not (dependents.resources or dependents.images or dependents.foreign):
        return
    uris = [
        uri_of(tenant_id, dependent.tenant_id, dependent.owner, dependent.type, dependent.name, version)
        for dependent, version in dependents.resources
    ]
    named = [*uris, *(f"image {image}" for image in dependents.images)]
    if dependents.foreign:
        named.append(f"{dependents.foreign} of other tenants")
    raise ResourceInUse(
        f"The resource is in use by {', '.join(named)}. Delete these first, or delete it by force",
        details={"referrers": [*uris, *dependents.images], "foreign": dependents.foreign},
    )
