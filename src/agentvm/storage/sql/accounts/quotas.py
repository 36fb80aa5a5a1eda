"""QuotaStore — the limits of one tenant and of its users, and the amounts that only the database can count."""

from agentvm.model.account import Quota
from agentvm.model.ids import UserId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import total
from agentvm.storage.sql.records import Columns, TenantScope
from agentvm.storage.sql.rows import is_present, refuse_deleted
from agentvm.storage.sql.store_items import SIZE

ROW_BYTES = 100
"""Approximate size of a row besides its texts, with its index entries."""

_QUOTA = Columns(Quota)
_QUOTAS = f"SELECT {_QUOTA.text} FROM quotas WHERE tenant_id = ? ORDER BY user_id NULLS FIRST, metric"
# Not =, because the tenant's own quotas have no user.
_REMOVE = "DELETE FROM quotas WHERE tenant_id = ? AND user_id IS NOT DISTINCT FROM ? AND metric = ?"
_ADD = "INSERT INTO quotas (tenant_id, user_id, metric, hard, soft, updated_at) VALUES (?, ?, ?, ?, ?, ?)"
_IMAGE_BYTES = f"""
length(config) + coalesce(length(source), 0) + coalesce(length(lock), 0) + octet_length(name)
+ coalesce(octet_length(description), 0) + {ROW_BYTES}
"""
# What several tenants share (a snapshot, an attachment, a part of a resource) counts for each: none can know of the others.
_STORAGE_BYTES = f"""
SELECT (SELECT {total("length(body)")} FROM sessions JOIN all_messages USING (session_key) WHERE tenant_id = ?1)
     + (SELECT {total("length(body)")} FROM sessions JOIN log USING (session_key) WHERE tenant_id = ?1)
     + (SELECT {total("octet_length(text)")} FROM sessions JOIN summaries USING (session_key) WHERE tenant_id = ?1)
     + (SELECT {total("octet_length(text)")} FROM sessions JOIN drafts USING (session_key) WHERE tenant_id = ?1)
     + (SELECT {total("length(body)")} FROM snapshots WHERE digest IN (SELECT digest FROM images WHERE tenant_id = ?1))
     + (SELECT {total("length(body)")} FROM resource_blobs WHERE digest IN (
            SELECT content FROM resources JOIN resource_versions USING (resource_key)
            WHERE tenant_id = ?1 AND deleted_at IS NULL
            UNION
            SELECT version_blobs.digest
            FROM resources JOIN resource_versions USING (resource_key) JOIN version_blobs USING (version_key)
            WHERE tenant_id = ?1 AND deleted_at IS NULL))
     + (SELECT {total("size")} FROM blobs WHERE blob_key IN (
            SELECT blob_key FROM attachments WHERE tenant_id = ?1
            UNION
            SELECT blob_key FROM collections JOIN collection_documents USING (collection_key) WHERE tenant_id = ?1
            UNION
            SELECT blob_key FROM sessions JOIN file_changes USING (session_key) WHERE tenant_id = ?1))
     + (SELECT {total(f"octet_length(path) + {ROW_BYTES}")}
        FROM sessions JOIN file_changes USING (session_key) WHERE tenant_id = ?1)
     + (SELECT {total(_IMAGE_BYTES)} FROM images WHERE tenant_id = ?1)
     + (SELECT {total(f"coalesce(octet_length(title), 0) + coalesce(octet_length(preview), 0) + {ROW_BYTES}")}
        FROM sessions WHERE tenant_id = ?1)
     + (SELECT {total(f"octet_length(reader) + octet_length(device) + {ROW_BYTES}")}
        FROM sessions JOIN read_marks USING (session_key) WHERE tenant_id = ?1)
     + (SELECT {total(f"octet_length(client_id) + {ROW_BYTES}")} FROM readers WHERE tenant_id = ?1)
     + (SELECT {total(f"length(sealed) + octet_length(name) + {ROW_BYTES}")} FROM secrets WHERE tenant_id = ?1)
     + (SELECT {total(f"octet_length(secret) + octet_length(tool) + length(hosts) + {ROW_BYTES}")}
        FROM secret_grants WHERE tenant_id = ?1)
     + (SELECT {total(f"length(sealed) + octet_length(server) + {ROW_BYTES}")} FROM mcp_connections WHERE tenant_id = ?1)
     + (SELECT {total(f"length(changes) + coalesce(octet_length(note), 0) + {ROW_BYTES}")}
        FROM setting_changes WHERE scope = ?1)
     + (SELECT {total(SIZE)} FROM store_items WHERE tenant_id = ?1)
     + (SELECT {total(f"octet_length(target) + {ROW_BYTES}")} FROM audit WHERE tenant_id = ?1)
"""
_CONTAINERS = f"SELECT count(*) FROM containers WHERE tenant_id = ?1 AND deleted_at IS NULL AND {is_present('containers')}"
_ADD_EXPORTED = """
INSERT INTO exports (tenant_id, day, bytes) VALUES (?, ?, ?)
ON CONFLICT (tenant_id, day) DO UPDATE SET bytes = exports.bytes + excluded.bytes
"""
_EXPORTED = "SELECT bytes FROM exports WHERE tenant_id = ? AND day = ?"


class QuotaStore(TenantScope):
    """The limits of one tenant and of its users."""

    async def put(self, quota: Quota, now: int) -> None:
        """Replaces the one of the same metric and user."""
        place = (self._tenant_id, quota.user_id, quota.metric)

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            connection.execute(_REMOVE, place)
            connection.execute(_ADD, (*place, quota.hard, quota.soft, now))

        await self._database.write(write)

    async def list(self) -> tuple[Quota, ...]:
        """The tenant's own limits first, then those of its users."""
        return await self._all(_QUOTA.decode, _QUOTAS, (self._tenant_id,))

    async def remove(self, metric: str, user_id: UserId | None) -> bool:
        return await self._execute(_REMOVE, (self._tenant_id, user_id, metric))

    async def storage_bytes(self, *, unhurried: bool = True) -> int:
        """The bytes that the tenant has stored. Reads every row of it: worth asking rarely.

        That is messages, attachments, files of sessions, collections, logs, images, sessions, resources, secrets, settings,
        drafts, read marks, audit entries, items of stores. `QueryTimeout` after a while, unless it is `unhurried`.
        """
        return await self._count(_STORAGE_BYTES, heavy=True, unhurried=unhurried)

    async def count_containers(self) -> int:
        return await self._count(_CONTAINERS)

    async def add_exported(self, amount: int, day: int) -> None:
        """Bytes that left by an export; `day` is when a day began."""
        await self._execute(_ADD_EXPORTED, (self._tenant_id, day, amount))

    async def exported(self, day: int) -> int:
        """The bytes exported on that day."""
        return sum(await self._all(lambda row: int(row[0]), _EXPORTED, (self._tenant_id, day)))

    async def _count(self, query: str, *, heavy: bool = False, unhurried: bool = False) -> int:
        def read(connection: Connection) -> int:
            return int(connection.fetch(query, (self._tenant_id,))[0][0])

        return await self._database.read(read, heavy=heavy, unhurried=unhurried)
