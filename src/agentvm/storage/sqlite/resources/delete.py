"""Delete — takes resources away, but from nobody what they are locked to."""

import apsw

from agentvm.errors import Conflict
from agentvm.errors.resource import ResourceInUse
from agentvm.model.ids import TenantId
from agentvm.model.resource import ResourceId
from agentvm.storage.resources import Dependents
from agentvm.storage.sqlite.resources.collect import drop_unused_versions
from agentvm.storage.sqlite.resources.read import FOREIGN, read_dependents
from agentvm.storage.sqlite.resources.rows import uri_of
from agentvm.storage.sqlite.rows import fetch

_OWN = "SELECT resource_key FROM resources WHERE resource_id = ? AND tenant_id = ? AND deleted_at IS NULL"
_ALL_OWN = """
SELECT resource_key, r.tenant_id, coalesce(t.slug, r.tenant_id), r.type, r.name, r.visibility
FROM resources AS r LEFT JOIN tenants AS t ON t.tenant_id = r.tenant_id
WHERE r.tenant_id = ? AND r.deleted_at IS NULL
"""
_DELETE = "DELETE FROM resources WHERE resource_key = ?"
_BURY = "UPDATE resources SET deleted_at = ?1, updated_at = ?1, latest_key = NULL WHERE resource_key = ?2"
_FORGET = "DELETE FROM resource_fts WHERE rowid = ?"
_FORGET_WORDS = "DELETE FROM resource_words WHERE resource_key = ?"
_FORGET_TAGS = "DELETE FROM resource_tags WHERE resource_key = ?"
_RELEASE = "DELETE FROM image_refs WHERE position IN (SELECT position FROM images WHERE tenant_id = ?)"


def delete(connection: apsw.Connection, tenant_id: TenantId, resource_id: ResourceId, *, force: bool, now: int) -> bool:
    for (resource_key,) in fetch(connection, _OWN, (resource_id, tenant_id)):
        if force:
            _bury(connection, resource_key, now)
            drop_unused_versions(connection, resource_key)
        else:
            _refuse_in_use(tenant_id, read_dependents(connection, tenant_id, resource_key))
            connection.execute(_FORGET, (resource_key,))
            connection.execute(_DELETE, (resource_key,))
        return True
    return False


def retire(connection: apsw.Connection, tenant_id: TenantId, now: int) -> None:
    """Everything of a tenant that goes. `Conflict` names what is public and others are locked to.

    What others were locked to before it was made private stays for them, until `collect` finds that they are gone as well.
    """
    own = fetch(connection, _ALL_OWN, (tenant_id,))
    needed = [
        uri_of(TenantId(""), owner_id, owner, kind, name)
        for resource_key, owner_id, owner, kind, name, visibility in own
        if visibility == "public" and fetch(connection, FOREIGN, (tenant_id, resource_key))[0][0]
    ]
    if needed:
        raise Conflict(
            f"Others depend on public resources of the tenant: {', '.join(needed)}. Delete these by force first",
            details={"resources": needed},
        )
    # Nobody can reach its images any more, so they hold nothing.
    connection.execute(_RELEASE, (tenant_id,))
    for resource_key, *_ in own:
        _bury(connection, resource_key, now)
    # One may be needed by another, and go only after it.
    while sum(drop_unused_versions(connection, resource_key) for resource_key, *_ in own):
        continue


def _bury(connection: apsw.Connection, resource_key: int, now: int) -> None:
    connection.execute(_BURY, (now, resource_key))
    for statement in (_FORGET, _FORGET_WORDS, _FORGET_TAGS):
        connection.execute(statement, (resource_key,))


def _refuse_in_use(tenant_id: TenantId, found: Dependents) -> None:
    if not (found.resources or found.images or found.foreign):
        return
    uris = [uri_of(tenant_id, each.tenant_id, each.owner, each.type, each.name, version) for each, version in found.resources]
    named = [*uris, *(f"image {image}" for image in found.images)]
    if found.foreign:
        named.append(f"{found.foreign} of other tenants")
    raise ResourceInUse(
        f"The resource is in use by {', '.join(named)}. Delete these first, or delete it by force",
        details={"referrers": [*uris, *found.images], "foreign": found.foreign},
    )
