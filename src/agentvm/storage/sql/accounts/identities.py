"""IdentityStore — which accounts at the identity provider belong to the users of one tenant."""

from agentvm.errors import Conflict
from agentvm.model.ids import UserId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import TenantScope
from agentvm.storage.sql.rows import refuse_deleted

# Over all tenants: the provider does not know of tenants, and the row names the tenant.
FIND_IDENTITY = """
SELECT i.tenant_id, i.user_id FROM identities AS i JOIN users AS u ON u.tenant_id = i.tenant_id AND u.user_id = i.user_id
WHERE i.issuer = ? AND i.subject = ? AND u.deleted_at IS NULL
"""
_DROP_DELETED = """
DELETE FROM identities WHERE issuer = ?1 AND subject = ?2 AND NOT EXISTS (
    SELECT 1 FROM users AS u WHERE u.tenant_id = identities.tenant_id AND u.user_id = identities.user_id
    AND u.deleted_at IS NULL
)
"""
_ADD = "INSERT INTO identities (tenant_id, user_id, issuer, subject) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"


class IdentityStore(TenantScope):
    """The identities of one tenant. An account at the provider belongs to one user of the server."""

    async def add(self, user_id: UserId, issuer: str, subject: str) -> None:
        """`Conflict` when the account belongs to a user already."""

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            connection.execute(_DROP_DELETED, (issuer, subject))
            if not connection.execute(_ADD, (self._tenant_id, user_id, issuer, subject)):
                raise Conflict("This account at the identity provider belongs to a user already: sign in with it")

        await self._database.write(write)
