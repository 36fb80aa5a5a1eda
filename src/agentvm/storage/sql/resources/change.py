"""Change — changes of a resource without a new version: its description, its tags, withdrawn versions."""

from agentvm.model.ids import TenantId
from agentvm.model.resource import SYSTEM_TENANT, Resource, ResourceId, ResourceVersion
from agentvm.model.semver import is_version, parse_version
from agentvm.storage.resources import Changes
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.resources.index import find_latest, read_version, reindex, set_tags
from agentvm.storage.sql.resources.publish import PUT_TAG, UPDATE_RESOURCE, open_versions
from agentvm.storage.sql.resources.read import get

_OWN = "SELECT resource_key, visibility FROM resources WHERE resource_id = ? AND tenant_id = ? AND deleted_at IS NULL"
_VERSION = "SELECT version_key FROM resource_versions WHERE resource_key = ? AND rank = ?"
_REMOVE_TAG = "DELETE FROM resource_tags WHERE resource_key = ? AND tag = ?"
_TOUCH = "UPDATE resources SET updated_at = ? WHERE resource_key = ?"
# The first time counts.
_YANK = "UPDATE resource_versions SET yanked_at = coalesce(yanked_at, ?) WHERE version_key = ?"
_BRING_BACK = "UPDATE resource_versions SET yanked_at = NULL WHERE version_key = ?"


def change(connection: Connection, tenant_id: TenantId, resource_id: ResourceId, changes: Changes, now: int) -> Resource | None:
    rows = connection.fetch(_OWN, (resource_id, tenant_id))
    if not rows:
        return None
    resource_key, before = rows[0]
    visibility = None if tenant_id == SYSTEM_TENANT else changes.visibility
    connection.execute(UPDATE_RESOURCE, (changes.description, changes.deprecated, visibility, now, resource_key))
    if changes.tags is not None:
        set_tags(connection, resource_key, changes.tags)
    if visibility == "public" != before:
        open_versions(connection, tenant_id, resource_key, None)
    reindex(connection, resource_key)
    return get(connection, tenant_id, resource_id)


def point(
    connection: Connection, tenant_id: TenantId, resource_id: ResourceId, tag: str, version: str | None, now: int
) -> bool:
    for resource_key, _ in connection.fetch(_OWN, (resource_id, tenant_id)):
        if version is None:
            if not connection.execute(_REMOVE_TAG, (resource_key, tag)):
                return False
        else:
            version_key = _find(connection, resource_key, version)
            if version_key is None:
                return False
            connection.execute(PUT_TAG, (resource_key, tag, version_key))
        connection.execute(_TOUCH, (now, resource_key))
        return True
    return False


def yank(
    connection: Connection, tenant_id: TenantId, resource_id: ResourceId, version: str, at: int | None, now: int
) -> ResourceVersion | None:
    for resource_key, _ in connection.fetch(_OWN, (resource_id, tenant_id)):
        version_key = _find(connection, resource_key, version)
        if version_key is None:
            return None
        if at is None:
            connection.execute(_BRING_BACK, (version_key,))
            # While it was withdrawn the resource may have become public without it.
            open_versions(connection, tenant_id, resource_key, version_key)
        else:
            connection.execute(_YANK, (at, version_key))
        connection.execute(_TOUCH, (now, resource_key))
        find_latest(connection, resource_key)
        reindex(connection, resource_key)
        return read_version(connection, version_key)
    return None


def _find(connection: Connection, resource_key: int, version: str) -> int | None:
    if not is_version(version):
        return None
    rows = connection.fetch(_VERSION, (resource_key, str(parse_version(version))))
    return int(rows[0][0]) if rows else None
