"""Tenancy — the parts of a running server that deal with tenants: accounts, keys, quotas, secrets."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentvm.errors import not_found
from agentvm.model.account import Tenant
from agentvm.model.ids import TenantId, UserId
from agentvm.model.principal import Principal
from agentvm.storage.sql.store import Store
from agentvm.tenants.access import Access
from agentvm.tenants.metering import Metering
from agentvm.tenants.own_keys import OwnKeys
from agentvm.tenants.people import People
from agentvm.tenants.quota import Quotas
from agentvm.tenants.vault import Vault

if TYPE_CHECKING:
    from agentvm.tenants.oidc_flow import OidcFlow  # It costs 0.1 s, and few servers need it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """The tenant-related parts of one server."""

    access: Access
    people: People
    quotas: Quotas
    metering: Metering
    vault: Vault
    own_keys: OwnKeys
    oidc: "OidcFlow | None" = None
    """The way to sign in at the identity provider, if one is configured for browsers."""
    store: Store
    """The store, for callers that only read or write rows."""

    async def admit_bytes(self, tenant_id: TenantId, user_id: UserId | None, size: int) -> None:
        """Counts bytes that are about to be stored; `QuotaExceeded` if they are too many."""
        await self.quotas.store(tenant_id, user_id, size, lambda: self.store.accounts(tenant_id).quotas.storage_bytes())

    async def find_tenant(self, principal: Principal, name: str) -> Tenant:
        """Returns a tenant by id or slug. Only the operator finds other tenants than their own; `NotFound` otherwise."""
        directory = self.store.directory
        tenant = await directory.get_tenant(TenantId(name)) or await directory.find_tenant(name)
        if tenant is None or not (principal.may("system:admin") or tenant.tenant_id == principal.tenant_id):
            raise not_found("Tenant", name)
        return tenant
