"""Living — nothing is added to a tenant that was deleted, because nothing would ever remove it again."""

from agentvm.errors import NotFound, shorten
from agentvm.model.ids import TenantId
from agentvm.storage.sql.connection import Connection


def refuse_deleted(connection: Connection, tenant_id: TenantId) -> None:
    """`NotFound` for a deleted tenant. One that was never added may be: a server without accounts has only its name."""
    if connection.fetch("SELECT 1 FROM tenants WHERE tenant_id = ? AND deleted_at IS NOT NULL", (tenant_id,)):
        raise NotFound(f"Tenant not found: {shorten(tenant_id)}")
