"""Directory — the tenants of a server, and the owners of keys: the only queries across tenants."""

from collections.abc import Callable

from agentvm.errors import Conflict, shorten
from agentvm.model.account import ApiKey, BrowserSession, Invitation, Tenant
from agentvm.model.channel import ChatChannel
from agentvm.model.ids import KeyId, TenantId, UserId
from agentvm.model.resource import SYSTEM
from agentvm.storage.sql.accounts.browser_sessions import FIND_BROWSER_SESSION, decode_browser_session
from agentvm.storage.sql.accounts.channels import LIST_ENABLED, decode_channel
from agentvm.storage.sql.accounts.identities import FIND_IDENTITY
from agentvm.storage.sql.accounts.invitations import FIND_INVITATION, decode_invitation
from agentvm.storage.sql.accounts.keys import FIND_KEY, HAS_OWNER, decode_found
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.erasing.begin import begin_tenant
from agentvm.storage.sql.erasing.rows import drop_accounts
from agentvm.storage.sql.records import Columns, Scope
from agentvm.storage.sql.resources.delete import bury_some

_TENANT = Columns(Tenant)
_TENANTS = f"SELECT {_TENANT.text} FROM tenants WHERE deleted_at IS NULL"
_BY_ID = f"{_TENANTS} AND tenant_id = ?"
_BY_SLUG = f"{_TENANTS} AND slug = ?"
_AFTER = f"{_TENANTS} AND slug > ? ORDER BY slug LIMIT ?"
_ANY_KEY = f"SELECT 1 FROM api_keys WHERE revoked_at IS NULL AND {HAS_OWNER} LIMIT 1"
_ADD_TENANT = f"INSERT INTO tenants ({_TENANT.text}) VALUES ({_TENANT.marks}) ON CONFLICT DO NOTHING"
_UPDATE_TENANT = """
UPDATE tenants SET slug = ?, name = ?, description = ?, status = ?, plan = ?, updated_at = ?
WHERE tenant_id = ? AND deleted_at IS NULL
"""
_SLUG_OF_ANOTHER = "SELECT 1 FROM tenants WHERE slug = ? AND deleted_at IS NULL AND tenant_id <> ?"
_DELETE_TENANT = "UPDATE tenants SET deleted_at = ?, updated_at = ? WHERE tenant_id = ? AND deleted_at IS NULL"


class Directory(Scope):
    """The tenants of a server."""

    async def add_tenant(self, tenant: Tenant) -> None:
        """`Conflict` when the id or the slug is taken. The id of a deleted tenant stays taken, its slug does not."""

        def write(connection: Connection) -> None:
            _refuse_reserved(tenant)
            if not connection.execute(_ADD_TENANT, _TENANT.encode(tenant)):
                raise _taken(tenant)

        await self._database.write(write)

    async def get_tenant(self, tenant_id: TenantId) -> Tenant | None:
        return await self._first(_TENANT.decode, _BY_ID, (tenant_id,))

    async def channels(self) -> tuple[ChatChannel, ...]:
        """Returns the enabled channels of all tenants."""
        return await self._all(decode_channel, LIST_ENABLED, ())

    async def find_tenant(self, slug: str) -> Tenant | None:
        return await self._first(_TENANT.decode, _BY_SLUG, (slug,))

    async def list_tenants(self, *, after: str | None = None, limit: int = 100) -> tuple[Tenant, ...]:
        """Tenants in the order of their slugs, after the given slug."""
        return await self._all(_TENANT.decode, _AFTER, (after or "", limit))

    async def change_tenant(self, tenant_id: TenantId, modify: Callable[[Tenant], Tenant]) -> tuple[Tenant, Tenant] | None:
        """Changes name, description, status, plan and slug of a tenant as it is at that moment; returns it before and after.

        None when it is gone. `Conflict` when the slug is taken.
        """

        def write(connection: Connection) -> tuple[Tenant, Tenant] | None:
            before = next(map(_TENANT.decode, connection.fetch(_BY_ID, (tenant_id,))), None)
            if before is None:
                return None
            after = modify(before)
            _refuse_reserved(after)
            if connection.fetch(_SLUG_OF_ANOTHER, (after.slug, tenant_id)):
                raise _taken(after)
            about = (after.slug, after.name, after.description, after.status, after.plan, after.updated_at)
            connection.execute(_UPDATE_TENANT, (*about, tenant_id))
            return before, after

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
        return await self._first(decode_found, FIND_KEY, (key_id,))

    async def find_browser_session(self, digest: bytes) -> BrowserSession | None:
        """The session of a cookie, whosever it is."""
        return await self._first(decode_browser_session, FIND_BROWSER_SESSION, (digest,))

    async def find_invitation(self, digest: bytes) -> Invitation | None:
        """The invitation of a link, whosever it is."""
        return await self._first(decode_invitation, FIND_INVITATION, (digest,))

    async def find_identity(self, issuer: str, subject: str) -> tuple[TenantId, UserId] | None:
        """The user that an account at the identity provider belongs to."""
        return await self._first(lambda row: (TenantId(row[0]), UserId(row[1])), FIND_IDENTITY, (issuer, subject))

    async def has_keys(self) -> bool:
        """Whether there is any key that was not revoked: if not, the server prints a first one."""
        return await self._first(bool, _ANY_KEY) is not None


def _refuse_reserved(tenant: Tenant) -> None:
    if SYSTEM in (tenant.slug, tenant.tenant_id):
        raise Conflict(f"{SYSTEM} is the owner of the resources that ship with the server: choose another slug")


def _taken(tenant: Tenant) -> Conflict:
    return Conflict(f"There is already a tenant {shorten(tenant.slug)}, or one with the same id: choose another slug")
