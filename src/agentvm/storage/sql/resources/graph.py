"""Graph — the locks between versions: which may be read, whether all are public, whether they lead back."""

from agentvm.errors.resource import ResourceCycle, ResourceVisibilityConflict
from agentvm.model.ids import TenantId
from agentvm.model.resource import VersionId
from agentvm.storage.resources import Node
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN
from agentvm.storage.sql.resources.rows import (
    RESOURCE_COLUMNS,
    RESOURCE_COLUMNS_MAX,
    RESOURCES,
    RESOURCES_OF_VERSIONS,
    VERSION_COLUMNS,
    VERSION_IN_VIEW,
    decode_links,
    decode_resource,
    decode_version,
    uri_of,
)

# From a version to all that are locked to it. Most are in view themselves, and then the first row is enough.
_READABLE = f"""
WITH RECURSIVE up (version_key) AS (
    SELECT version_key FROM {{start}}
    UNION
    SELECT d.version_key FROM up JOIN resource_deps AS d ON d.target_key = up.version_key
)
SELECT 1
FROM up
{ORDERED_JOIN} resource_versions AS v ON v.version_key = up.version_key
{ORDERED_JOIN} resources AS r ON r.resource_key = v.resource_key
WHERE {VERSION_IN_VIEW}
   OR EXISTS (SELECT 1 FROM image_refs JOIN images USING (position) WHERE version_key = v.version_key AND tenant_id = ?1)
LIMIT 1
"""
_VERSION_IS_READABLE = _READABLE.format(start="resource_versions WHERE version_id = ?2")
_BLOB_IS_READABLE = _READABLE.format(start="version_blobs WHERE digest = ?2")

_BLOB_SIZE = "SELECT length(body) FROM resource_blobs WHERE digest = ?"

_CLOSURE = f"""
WITH RECURSIVE down (version_key) AS (
    SELECT version_key FROM resource_versions WHERE version_id = ?1
    UNION
    SELECT d.target_key FROM down JOIN resource_deps AS d ON d.version_key = down.version_key
)
SELECT {RESOURCE_COLUMNS}, {VERSION_COLUMNS}, b.body
FROM (SELECT version_key FROM down LIMIT ?2) AS near
{ORDERED_JOIN} resource_versions AS v ON v.version_key = near.version_key
{ORDERED_JOIN} {RESOURCES_OF_VERSIONS}
{ORDERED_JOIN} resource_blobs AS b ON b.digest = v.content
"""
# Limited before the joins, which may come in any order: the nodes are a walk's first ones, which hang together.

_PRIVATE = f"""
WITH RECURSIVE down (version_key) AS (
    SELECT CAST(?1 AS BIGINT)
    UNION
    SELECT d.target_key FROM down JOIN resource_deps AS d ON d.version_key = down.version_key
)
SELECT DISTINCT r.tenant_id, coalesce(t.slug, r.tenant_id), r.type, r.name, v.version
FROM down
{ORDERED_JOIN} resource_versions AS v ON v.version_key = down.version_key
{ORDERED_JOIN} resources AS r ON r.resource_key = v.resource_key
LEFT JOIN tenants AS t ON t.tenant_id = r.tenant_id
WHERE r.visibility <> 'public'
ORDER BY r.type, r.name, v.version
"""
_FLOATING = """
SELECT DISTINCT target.resource_key
FROM resource_deps AS d JOIN resource_versions AS target ON target.version_key = d.target_key
WHERE d.version_key = ? AND d.floating = 1
"""
_LATEST = "SELECT latest_key FROM resources WHERE resource_key = ? AND latest_key IS NOT NULL"
_NAME = f"SELECT r.tenant_id, coalesce(t.slug, r.tenant_id), r.type, r.name FROM {RESOURCES} WHERE r.resource_key = ?"


def is_readable(connection: Connection, tenant_id: TenantId, version_id: str) -> bool:
    """Whether the tenant may read the version: it is in view, or a version in view, or an own image, is locked to it."""
    return bool(connection.fetch(_VERSION_IS_READABLE, (tenant_id, version_id)))


def readable_blob_size(connection: Connection, tenant_id: TenantId, digest: str) -> int | None:
    """None unless a version that the tenant may read holds it."""
    if not connection.fetch(_BLOB_IS_READABLE, (tenant_id, digest)):
        return None
    return int(connection.fetch(_BLOB_SIZE, (digest,))[0][0])


def read_closure(connection: Connection, tenant_id: TenantId, version_id: VersionId, limit: int) -> dict[VersionId, Node]:
    """The version first, then its dependencies, the nearer the earlier; a tenant that may read the first may read all."""
    nodes: dict[VersionId, Node] = {}
    if not is_readable(connection, tenant_id, version_id):
        return nodes
    for row in connection.fetch(_CLOSURE, (version_id, limit)):
        *about, content = row[RESOURCE_COLUMNS_MAX:]
        node = Node(
            resource=decode_resource(row[:RESOURCE_COLUMNS_MAX]),
            version=decode_version(tuple(about)),
            content=bytes(content),
            links=decode_links(about[-1]),
        )
        nodes[node.version.version_id] = node
    return _by_distance(nodes, version_id)


def _by_distance(nodes: dict[VersionId, Node], start: VersionId) -> dict[VersionId, Node]:
    """The nodes in the order of a walk from the first: no query promises the order of a recursion."""
    ordered: dict[VersionId, Node] = {}
    ahead = [start]
    for version_id in ahead:
        if version_id in nodes and version_id not in ordered:
            ordered[version_id] = nodes[version_id]
            ahead += [link.target for link in nodes[version_id].links]
    return ordered


def check_is_public(connection: Connection, viewer: TenantId, version_key: int) -> None:
    """`ResourceVisibilityConflict` when the version, or anything it is locked to, belongs to a private resource."""
    private = [uri_of(viewer, *row) for row in connection.fetch(_PRIVATE, (version_key,))]
    if private:
        named = ", ".join(private)
        raise ResourceVisibilityConflict(
            f"A public resource cannot depend on private ones: {named}; make them public first, or depend on others",
            details={"private": private},
        )


def check_leads_nowhere_back(connection: Connection, viewer: TenantId, resource_key: int, version_key: int) -> None:
    """`ResourceCycle` when floating references lead from the version, by the latest versions of others, to its resource."""
    came_from: dict[int, int] = {}
    ahead: list[tuple[int, int]] = [(resource_key, version_key)]
    for place, version in ahead:
        for (target,) in connection.fetch(_FLOATING, (version,)):
            if target == resource_key:
                raise ResourceCycle(_path(connection, viewer, came_from, place, resource_key))
            if target not in came_from:
                came_from[target] = place
                ahead += [(target, latest) for (latest,) in connection.fetch(_LATEST, (target,))]


def _path(connection: Connection, viewer: TenantId, came_from: dict[int, int], place: int, start: int) -> list[str]:
    back = [start, place]
    while place != start:
        place = came_from[place]
        back.append(place)
    return [uri_of(viewer, *connection.fetch(_NAME, (key,))[0]) for key in reversed(back)]
