"""Rows — how resources and their versions are stored, and which of them a tenant may see.

In the queries `r` is a resource, `v` a version, `t` the tenant of the resource and `?1` the tenant that asks.
"""

from typing import Any

import msgspec

from agentvm.model.ids import TenantId
from agentvm.model.resource import SYSTEM, SYSTEM_TENANT, Resource, ResourceUri, ResourceVersion, VersionId
from agentvm.storage.resources import Link
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import rows_as_json
from agentvm.storage.sql.records import Columns

RESERVED_MS = 30 * 24 * 3600 * 1000
"""The name of a resource that was deleted by force is reserved for this long."""

_encoder = msgspec.json.Encoder()
_schema = msgspec.json.Decoder(dict[str, object])
_links = msgspec.json.Decoder(list[tuple[str, str, str, int]])

# The server's own tenant, and that of a server without accounts, need not be in the table.
_RESOURCE = Columns(Resource)
RESOURCE_COLUMNS = _RESOURCE.select(
    "r.",
    owner="coalesce(t.slug, r.tenant_id)",
    latest="(SELECT version FROM resource_versions WHERE version_key = r.latest_key)",
)
_OWNERS = "LEFT JOIN tenants AS t ON t.tenant_id = r.tenant_id"
RESOURCES = f"resources AS r {_OWNERS}"
RESOURCES_OF_VERSIONS = f"resources AS r ON r.resource_key = v.resource_key {_OWNERS}"
RESOURCE_COLUMNS_MAX = len(_RESOURCE.names)

# With what the version is locked to, so that one statement tells all of it.
VERSION_COLUMNS = f"""
v.version_id, r.resource_id, v.version, v.digest, v.size, v.schema, v.created_by, v.created_at, v.yanked_at,
(SELECT {rows_as_json("d.alias, d.uri, target.version_id, d.floating")}
 FROM resource_deps AS d JOIN resource_versions AS target ON target.version_key = d.target_key
 WHERE d.version_key = v.version_key)
"""

IN_VIEW = "r.deleted_at IS NULL AND (r.tenant_id = ?1 OR r.visibility = 'public')"
VERSION_IN_VIEW = "r.deleted_at IS NULL AND (r.tenant_id = ?1 OR r.visibility = 'public' AND v.is_open = 1)"

_TENANT_BY_SLUG = "SELECT tenant_id FROM tenants WHERE slug = ? AND deleted_at IS NULL"
_IS_IN_TABLE = "SELECT 1 FROM tenants WHERE tenant_id = ?"


def encode(value: object) -> bytes:
    return _encoder.encode(value)


decode_resource = _RESOURCE.decode
"""Decodes a row of `RESOURCE_COLUMNS`."""


def decode_version(row: tuple[Any, ...]) -> ResourceVersion:
    version_id, resource_id, version, digest, size, schema, created_by, created_at, yanked_at, links = row
    return ResourceVersion(
        version_id=version_id,
        resource_id=resource_id,
        version=version,
        digest=digest,
        size=size,
        schema=None if schema is None else _schema.decode(schema),
        dependencies={alias: uri for alias, uri, _, _ in _links.decode(links)},
        created_by=created_by,
        created_at=created_at,
        yanked_at=yanked_at,
    )


def decode_links(links: str) -> tuple[Link, ...]:
    return tuple(
        Link(alias=alias, uri=uri, target=VersionId(target), floating=bool(floating))
        for alias, uri, target, floating in _links.decode(links)
    )


def tenant_of(connection: Connection, slug: str) -> TenantId:
    """The tenant that an owner's name means; for an unknown name, a tenant without resources."""
    if slug == SYSTEM:
        return SYSTEM_TENANT
    rows = connection.fetch(_TENANT_BY_SLUG, (slug,))
    if rows:
        return TenantId(rows[0][0])
    # An id is a name only for a tenant that has no other.
    return TenantId("") if connection.fetch(_IS_IN_TABLE, (slug,)) else TenantId(slug)


def uri_of(viewer: TenantId, tenant_id: str, owner: str, kind: Any, name: str, version: str | None = None) -> str:
    """Returns the URI as the viewer writes it: without an owner for the viewer's own resource."""
    return str(ResourceUri(type=kind, name=name, owner=None if tenant_id == viewer else owner, selector=version))
