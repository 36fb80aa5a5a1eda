"""Directory — the tenants of a server, and whose a key is: all that is asked across tenants."""

from typing import Any

from agentvm.errors import Conflict, shorten
from agentvm.model.account import ApiKey, Tenant
from agentvm.model.ids import KeyId, TenantId
from agentvm.model.resource import SYSTEM
from agentvm.storage.sql.accounts.keys import FIND_KEY, HAS_OWNER, decode_key
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.erasing.begin import begin_tenant
from agentvm.storage.sql.erasing.rows import drop_accounts
from agentvm.storage.sql.resources.delete import bury_some

_TENANTS = """
SELECT tenant_id, slug, name, description, status, plan, created_at, updated_at
FROM tenants
WHERE deleted_at IS NULL
"""
_ANY_KEY = f"SELECT 1 FROM api_keys WHERE revoked_at IS NULL AND {HAS_OWNER} LIMIT 1"
_TENANT = _TENANTS + "AND tenant_id = ?"
_TENANT_BY_SLUG = _TENANTS + "AND slug = ?"
_TENANTS_AFTER = _TENANTS + "AND slug > ? ORDER BY slug LIMIT ?"
_TENANTS_FROM_THE_FIRST = _TENANTS + "ORDER BY slug LIMIT ?"
_ADD_TENANT = """
INSERT INTO tenants (tenant_id, slug, name, description, status, plan, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
_UPDATE_TENANT = """
UPDATE tenants SET slug = ?, name = ?, description = ?, status = ?, plan = ?, updated_at = ?
WHERE tenant_id = ? AND deleted_at IS NULL
"""
_SLUG_OF_ANOTHER = "SELECT 1 FROM tenants WHERE slug = ? AND deleted_at IS NULL AND tenant_id <> ?"
_DELETE_TENANT = "UPDATE tenants SET deleted_at = ?, updated_at = ? WHERE tenant_id = ? AND deleted_at IS NULL"


class Directory:
    """The tenants of a server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_tenant(self, tenant: Tenant) -> None:
        """`Conflict` when the id or the slug is taken. The id of a deleted tenant stays taken, its slug does not."""
        about = (tenant.slug, tenant.name, tenant.description, tenant.status, tenant.plan)

        def write(connection: Connection) -> None:
            _refuse_reserved(tenant)
            if connection.execute(_ADD_TENANT, (tenant.tenant_id, *about, tenant.created_at, tenant.updated_at)) == 0:
                raise _taken(tenant)

        await self._database.write(write)

    async def get_tenant(self, tenant_id: TenantId) -> Tenant | None:
        return await self._one(_TENANT, tenant_id)

    async def find_tenant(self, slug: str) -> Tenant | None:
        return await self._one(_TENANT_BY_SLUG, slug)

    async def list_tenants(self, *, after: str | None = None, limit: int = 100) -> tuple[Tenant, ...]:
        """By slug, those after the given one."""

        def read(connection: Connection) -> tuple[Tenant, ...]:
            if after is None:
                found = connection.fetch(_TENANTS_FROM_THE_FIRST, (limit,))
            else:
                found = connection.fetch(_TENANTS_AFTER, (after, limit))
            return tuple(_decode_tenant(row) for row in found)

        return await self._database.read(read)

    async def update_tenant(self, tenant: Tenant) -> bool:
        """Replaces name, description, status, plan and slug; False when it is gone. `Conflict` when the slug is taken."""
        about = (tenant.slug, tenant.name, tenant.description, tenant.status, tenant.plan, tenant.updated_at)

        def write(connection: Connection) -> bool:
            if not connection.fetch(_TENANT, (tenant.tenant_id,)):
                return False
            _refuse_reserved(tenant)
            if connection.fetch(_SLUG_OF_ANOTHER, (tenant.slug, tenant.tenant_id)):
                raise _taken(tenant)
            connection.execute(_UPDATE_TENANT, (*about, tenant.tenant_id))
            return True

        return await self._database.write(write)

    async def delete_tenant(self, tenant_id: TenantId, now: int) -> bool:
        """Out of reach at once; an erasure of all that is its own is noted, see `agentvm.storage.erasing`.

        Its users, keys, quotas, secrets and resources are gone when this returns; versions of resources that other tenants are
        locked to stay for them. Its ledger and audit log stay.
        """

        def begin(connection: Connection) -> bool:
            if not connection.execute(_DELETE_TENANT, (now, now, tenant_id)):
                return False
            begin_tenant(connection, tenant_id, now)
            return True

        deleted = await self._database.write(begin)
        # In small commits, and before it is answered: afterwards nobody sees anything of it. A crash leaves it to the erasure.
        while deleted and await self._database.write(lambda connection: bury_some(connection, tenant_id, now)):
            pass
        while deleted and await self._database.write(lambda connection: drop_accounts(connection, tenant_id)):
            pass
        return deleted

    async def find_key(self, key_id: KeyId) -> tuple[ApiKey, bytes] | None:
        """A key and its hash, whosever it is: how a caller becomes a tenant."""

        def read(connection: Connection) -> tuple[ApiKey, bytes] | None:
            return next(((decode_key(row[:-1]), bytes(row[-1])) for row in connection.fetch(FIND_KEY, (key_id,))), None)

        return await self._database.read(read)

    async def has_keys(self) -> bool:
        """Whether there is any key that was not revoked: if not, the server prints a first one."""

        def read(connection: Connection) -> bool:
            return bool(connection.fetch(_ANY_KEY))

        return await self._database.read(read)

    async def _one(self, query: str, wanted: str) -> Tenant | None:
        def read(connection: Connection) -> Tenant | None:
            return next((_decode_tenant(row) for row in connection.fetch(query, (wanted,))), None)

        return await self._database.read(read)


def _refuse_reserved(tenant: Tenant) -> None:
    if SYSTEM in (tenant.slug, tenant.tenant_id):
        raise Conflict(f"{SYSTEM} is the owner of the resources that ship with the server: choose another slug")


def _taken(tenant: Tenant) -> Conflict:
    return Conflict(f"There is already a tenant {shorten(tenant.slug)}, or one with the same id: choose another slug")


def _decode_tenant(row: tuple[Any, ...]) -> Tenant:
    tenant_id, slug, name, description, status, plan, created_at, updated_at = row
    return Tenant(
        tenant_id=tenant_id,
        slug=slug,
        name=name,
        description=description,
        status=status,
        plan=plan,
        created_at=created_at,
        updated_at=updated_at,
    )
