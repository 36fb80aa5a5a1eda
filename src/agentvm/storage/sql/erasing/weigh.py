"""Weigh — counts the data that would be erased with a container, a user or a tenant."""

from collections.abc import Sequence

import msgspec

from agentvm.model.ids import ContainerId, TenantId, UserId
from agentvm.protocol.records import OwnedRecord
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import items_of, total
from agentvm.storage.sql.erasing.begin import only_member_of
from agentvm.storage.sql.rows import is_present
from agentvm.storage.sql.store_items import SIZE

_OF_TENANT = f"FROM containers WHERE tenant_id = ? AND deleted_at IS NULL AND {is_present('containers')}"
_CONTAINERS = f"SELECT container_id {_OF_TENANT} ORDER BY created_at, position"
_HAS = f"SELECT 1 {_OF_TENANT} AND container_id = ?"
# Each half has an index of its own. `length` and `octet_length` do not read what they measure.
_COUNT_MESSAGES = f"""
WITH own AS (
    SELECT session_key FROM sessions
    WHERE tenant_id = ?1 AND deleted_at IS NULL AND container_id IN ({items_of("?2")})
    UNION ALL
    SELECT session_key FROM sessions
    WHERE deleted_at IS NOT NULL AND tenant_id = ?1 AND container_id IN ({items_of("?2")})
)
SELECT (SELECT count(*) FROM own),
       (SELECT count(*) FROM own JOIN all_messages USING (session_key)),
       (SELECT {total("length(body)")} FROM own JOIN all_messages USING (session_key))
     + (SELECT {total("length(body)")} FROM own JOIN log USING (session_key))
     + (SELECT {total("octet_length(text)")} FROM own JOIN summaries USING (session_key))
     + (SELECT {total("octet_length(text)")} FROM own JOIN drafts USING (session_key))
     + (SELECT {total("size")} FROM blobs WHERE blob_key IN (SELECT blob_key FROM own JOIN file_changes USING (session_key)))
     + (SELECT {total(SIZE)} FROM store_items WHERE tenant_id = ?1 AND container_id IN ({items_of("?2")}))
"""
_FILES = f"""
SELECT count(*), {total("size")} FROM attachments JOIN blobs USING (blob_key)
WHERE tenant_id = ?1 AND container_id IN ({items_of("?2")})
"""
_IS_LOCKED_BY_OTHERS = """
EXISTS (
    SELECT 1 FROM resource_versions AS v
    WHERE v.resource_key = r.resource_key AND (
        EXISTS (
            SELECT 1 FROM resource_deps AS d
            JOIN resource_versions AS dependent ON dependent.version_key = d.version_key
            JOIN resources AS o ON o.resource_key = dependent.resource_key
            WHERE d.target_key = v.version_key AND o.tenant_id <> r.tenant_id
        ) OR EXISTS (
            SELECT 1 FROM image_refs AS i JOIN images USING (position)
            WHERE i.version_key = v.version_key AND images.tenant_id <> r.tenant_id
        )
    )
)
"""
_COUNTS = f"""
SELECT (SELECT count(*) FROM resources WHERE tenant_id = ?1 AND deleted_at IS NULL),
       (SELECT count(*) FROM resources AS r WHERE tenant_id = ?1 AND deleted_at IS NULL AND {_IS_LOCKED_BY_OTHERS}),
       (SELECT count(*) FROM users WHERE tenant_id = ?1 AND deleted_at IS NULL),
       (SELECT count(*) FROM api_keys WHERE tenant_id = ?1),
       (SELECT count(*) FROM secrets WHERE tenant_id = ?1)
"""
_IS_TENANT = "SELECT 1 FROM tenants WHERE tenant_id = ? AND deleted_at IS NULL"
_IS_USER = "SELECT 1 FROM users WHERE tenant_id = ? AND user_id = ? AND deleted_at IS NULL"
_KEYS = "SELECT count(*) FROM api_keys WHERE tenant_id = ? AND user_id = ?"


def weigh_container(connection: Connection, tenant_id: TenantId, container_id: ContainerId) -> OwnedRecord | None:
    rows = connection.fetch(_HAS, (tenant_id, container_id))
    return _weigh(connection, tenant_id, (container_id,)) if rows else None


def weigh_user(connection: Connection, tenant_id: TenantId, user_id: UserId) -> OwnedRecord | None:
    if not connection.fetch(_IS_USER, (tenant_id, user_id)):
        return None
    homes = only_member_of(connection, tenant_id, user_id)
    own = _weigh(connection, tenant_id, [name for name in homes if connection.fetch(_HAS, (tenant_id, name))])
    return msgspec.structs.replace(own, users=1, keys=connection.fetch(_KEYS, (tenant_id, user_id))[0][0])


def weigh_tenant(connection: Connection, tenant_id: TenantId) -> OwnedRecord | None:
    if not connection.fetch(_IS_TENANT, (tenant_id,)):
        return None
    own = _weigh(connection, tenant_id, [name for (name,) in connection.fetch(_CONTAINERS, (tenant_id,))])
    resources, kept_resources, users, keys, secrets = connection.fetch(_COUNTS, (tenant_id,))[0]
    return msgspec.structs.replace(
        own, resources=resources, kept_resources=kept_resources, users=users, keys=keys, secrets=secrets
    )


def _weigh(connection: Connection, tenant_id: TenantId, containers: Sequence[ContainerId]) -> OwnedRecord:
    scope = (tenant_id, msgspec.json.encode(containers).decode())
    sessions, messages, size = connection.fetch(_COUNT_MESSAGES, scope)[0]
    attachments, files = connection.fetch(_FILES, scope)[0]
    return OwnedRecord(
        containers=tuple(containers),
        sessions=sessions,
        messages=messages,
        bytes=size + files,
        attachments=attachments,
        resources=0,
        kept_resources=0,
        users=0,
        keys=0,
        secrets=0,
    )
