"""GrantStore — the secrets of one tenant that tools may use."""

from agentvm.errors import Conflict
from agentvm.model.secret_grant import SecretGrant, SecretUse
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import Columns, TenantScope
from agentvm.storage.sql.rows import refuse_deleted

GRANTS_MAX = 1_000
"""Grants of one tenant: they are listed as a whole."""

_GRANT = Columns(SecretGrant)
_PUT = f"""
INSERT INTO secret_grants (tenant_id, {_GRANT.text}) VALUES (?, {_GRANT.marks})
ON CONFLICT (tenant_id, secret, grantee, use) DO UPDATE
SET tool = excluded.tool, hosts = excluded.hosts, granted_by = excluded.granted_by, granted_at = excluded.granted_at
"""
_COUNT = "SELECT count(*) FROM secret_grants WHERE tenant_id = ?"
_GET = f"SELECT {_GRANT.text} FROM secret_grants WHERE tenant_id = ? AND secret = ? AND grantee = ? AND use = ?"
_LIST = f"SELECT {_GRANT.text} FROM secret_grants WHERE tenant_id = ? ORDER BY secret, tool, use"
_REMOVE = """
DELETE FROM secret_grants
WHERE tenant_id = ?1 AND secret = ?2 AND (tool = ?3 OR grantee = ?4) AND (CAST(?5 AS TEXT) IS NULL OR use = ?5)
"""


class GrantStore(TenantScope):
    """Grants of one tenant. They end with the secret they are about."""

    async def put(self, grant: SecretGrant) -> None:
        """Replaces the one of the same secret, tool and use; `Conflict` when there are too many."""

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            connection.execute(_PUT, (self._tenant_id, *_GRANT.encode(grant)))
            if connection.fetch(_COUNT, (self._tenant_id,))[0][0] > GRANTS_MAX:
                raise Conflict(f"A tenant has at most {GRANTS_MAX:,} grants: revoke some first")

        await self._database.write(write)

    async def get(self, secret: str, grantee: str, use: SecretUse) -> SecretGrant | None:
        return await self._first(_GRANT.decode, _GET, (self._tenant_id, secret, grantee, use))

    async def list(self) -> tuple[SecretGrant, ...]:
        return await self._all(_GRANT.decode, _LIST, (self._tenant_id,))

    async def remove(self, secret: str, tool: str, grantee: str | None, use: SecretUse | None) -> bool:
        """Removes the grants of a tool, by its name or its id; of one use, or of all."""
        return await self._execute(_REMOVE, (self._tenant_id, secret, tool, grantee, use))
