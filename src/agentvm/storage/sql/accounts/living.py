"""Living — nothing is added to a tenant that was deleted, because nothing would ever remove it again."""

import apsw

from agentvm.errors import NotFound, shorten
from agentvm.model.ids import TenantId
from agentvm.storage.sql.rows import fetch


def refuse_deleted(connection: apsw.Connection, tenant_id: TenantId) -> None:
    """`NotFound` for a deleted tenant. One that was never added may be: a server without accounts has only its name."""
    if fetch(connection, "SELECT 1 FROM tenants WHERE tenant_id = ? AND deleted_at IS NOT NULL", (tenant_id,)):
        raise NotFound(f"Tenant not found: {shorten(tenant_id)}")
