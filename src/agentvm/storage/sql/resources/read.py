"""Read — resources, versions and binary parts as one tenant sees them."""

from agentvm.model.ids import TenantId
from agentvm.model.resource import SYSTEM_TENANT, Resource, ResourceId, ResourceType, VersionId
from agentvm.model.semver import parse_version
from agentvm.storage.resources import Dependents, VersionHistory
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN
from agentvm.storage.sql.resources.graph import is_readable
from agentvm.storage.sql.resources.rows import (
    IN_VIEW,
    RESOURCE_COLUMNS,
    RESOURCES,
    RESOURCES_OF_VERSIONS,
    VERSION_COLUMNS,
    VERSION_IN_VIEW,
    decode_resource,
    decode_version,
    tenant_of,
)

_RESOURCE = f"SELECT {RESOURCE_COLUMNS} FROM {RESOURCES} WHERE {IN_VIEW} "
_BY_NAME = _RESOURCE + "AND r.tenant_id = ?2 AND r.type = ?3 AND r.name = ?4"
_BY_ID = _RESOURCE + "AND r.resource_id = ?2"
_VERSIONS = f"""
SELECT {VERSION_COLUMNS}
FROM resources AS r JOIN resource_versions AS v ON v.resource_key = r.resource_key
WHERE {VERSION_IN_VIEW} AND r.resource_id = ?2
"""
_VERSION = _VERSIONS + "AND v.rank = ?3"
_TAGS = f"""
SELECT tag, v.version
FROM resources AS r JOIN resource_tags AS p ON p.resource_key = r.resource_key
JOIN resource_versions AS v ON v.version_key = p.version_key
WHERE {VERSION_IN_VIEW} AND r.resource_id = ?2
"""
_BY_DIGEST = """
SELECT v.version_id
FROM resources AS r JOIN resource_versions AS v ON v.resource_key = r.resource_key
WHERE r.tenant_id = ? AND r.type = ? AND r.name = ? AND r.deleted_at IS {deleted} AND v.digest = ?
ORDER BY v.version_key DESC
"""
_BLOB = """
SELECT body
FROM resource_versions AS v JOIN version_blobs AS p ON p.version_key = v.version_key
JOIN resource_blobs AS b ON b.digest = p.digest
WHERE v.version_id = ? AND p.digest = ?
"""
_GONE = "SELECT tenant_id FROM tenants WHERE slug = ? AND deleted_at IS NOT NULL"
_COUNT = "SELECT count(*) FROM resources WHERE tenant_id = ? AND deleted_at IS NULL"

_DEPENDENT_VERSIONS = f"""
SELECT DISTINCT {RESOURCE_COLUMNS}, v.version, v.version_key
FROM resource_versions AS target
{ORDERED_JOIN} resource_deps AS d ON d.target_key = target.version_key
{ORDERED_JOIN} resource_versions AS v ON v.version_key = d.version_key
{ORDERED_JOIN} {RESOURCES_OF_VERSIONS}
WHERE target.resource_key = ?2 AND r.resource_key <> ?2 AND r.tenant_id = ?1
ORDER BY r.name, r.resource_id, v.version_key
"""
_DEPENDENT_IMAGES = f"""
SELECT DISTINCT images.image_id, images.name, images.position
FROM resource_versions AS target
{ORDERED_JOIN} image_refs ON image_refs.version_key = target.version_key
{ORDERED_JOIN} images ON images.position = image_refs.position
WHERE target.resource_key = ?2 AND images.tenant_id = ?1
ORDER BY images.position
"""
FOREIGN = f"""
SELECT (SELECT count(DISTINCT d.version_key)
        FROM resource_versions AS target
        {ORDERED_JOIN} resource_deps AS d ON d.target_key = target.version_key
        {ORDERED_JOIN} resource_versions AS v ON v.version_key = d.version_key
        {ORDERED_JOIN} resources AS r ON r.resource_key = v.resource_key
        WHERE target.resource_key = ?2 AND r.resource_key <> ?2 AND r.tenant_id <> ?1)
     + (SELECT count(DISTINCT images.position)
        FROM resource_versions AS target
        {ORDERED_JOIN} image_refs ON image_refs.version_key = target.version_key
        {ORDERED_JOIN} images ON images.position = image_refs.position
        WHERE target.resource_key = ?2 AND images.tenant_id <> ?1)
"""
_KEY = f"SELECT r.resource_key FROM resources AS r WHERE {IN_VIEW} AND r.resource_id = ?2"


def find(connection: Connection, tenant_id: TenantId, kind: ResourceType, name: str, owner: str | None) -> Resource | None:
    for owner_id in owners(connection, tenant_id, owner):
        for row in connection.fetch(_BY_NAME, (tenant_id, owner_id, kind, name)):
            return decode_resource(row)
    return None


def get(connection: Connection, tenant_id: TenantId, resource_id: ResourceId) -> Resource | None:
    return next(map(decode_resource, connection.fetch(_BY_ID, (tenant_id, resource_id))), None)


def history(connection: Connection, tenant_id: TenantId, resource_id: ResourceId, only: str | None = None) -> VersionHistory:
    scope: tuple[str, ...] = (tenant_id, resource_id)
    rows = (
        connection.fetch(_VERSIONS, scope) if only is None else connection.fetch(_VERSION, (*scope, str(parse_version(only))))
    )
    versions = [decode_version(row) for row in rows]
    tags = connection.fetch(_TAGS, (tenant_id, resource_id))
    return VersionHistory(versions=tuple(sorted(versions, key=lambda version: parse_version(version.version))), tags=dict(tags))


def find_locked(
    connection: Connection, tenant_id: TenantId, kind: ResourceType, name: str, owner: str | None, digest: str
) -> VersionId | None:
    gone = connection.fetch(_GONE, (owner,)) if owner is not None else []
    for owner_id in (*owners(connection, tenant_id, owner), *(TenantId(former) for (former,) in gone)):
        for deleted in ("NULL", "NOT NULL"):
            for (version_id,) in connection.fetch(_BY_DIGEST.format(deleted=deleted), (owner_id, kind, name, digest)):
                if is_readable(connection, tenant_id, version_id):
                    return VersionId(version_id)
    return None


def blob(connection: Connection, tenant_id: TenantId, version_id: VersionId, digest: str) -> bytes | None:
    rows = connection.fetch(_BLOB, (version_id, digest))
    return bytes(rows[0][0]) if rows and is_readable(connection, tenant_id, version_id) else None


def count(connection: Connection, tenant_id: TenantId) -> int:
    return int(connection.fetch(_COUNT, (tenant_id,))[0][0])


def dependents(connection: Connection, tenant_id: TenantId, resource_id: ResourceId) -> Dependents:
    rows = connection.fetch(_KEY, (tenant_id, resource_id))
    return read_dependents(connection, tenant_id, rows[0][0]) if rows else Dependents(resources=(), images=(), foreign=0)


def read_dependents(connection: Connection, tenant_id: TenantId, resource_key: int) -> Dependents:
    """Without asking whether the resource is in view. A resource does not depend on itself, although its versions may depend on
    each other."""
    scope = (tenant_id, resource_key)
    versions = connection.fetch(_DEPENDENT_VERSIONS, scope)
    images = connection.fetch(_DEPENDENT_IMAGES, scope)
    return Dependents(
        resources=tuple((decode_resource(row), version) for *row, version, _ in versions),
        images=tuple(image_id for image_id, *_ in images),
        image_names=tuple(name for _, name, _ in images),
        foreign=int(connection.fetch(FOREIGN, scope)[0][0]),
    )


def owners(connection: Connection, tenant_id: TenantId, owner: str | None) -> tuple[TenantId, ...]:
    """The tenants whose resources a name can mean."""
    return (tenant_id, SYSTEM_TENANT) if owner is None else (tenant_of(connection, owner),)
