"""Principal — who is asking. Comes only from authentication, never from what a client claims."""

from agentvm.model.base import Record
from agentvm.model.ids import TenantId


class Principal(Record):
    tenant_id: TenantId
