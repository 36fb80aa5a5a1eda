"""Tenancy — the parts of a running server that deal with tenants: accounts, keys, quotas, secrets."""

from dataclasses import dataclass

from agentvm.storage.sql.store import Store
from agentvm.tenants.access import Access
from agentvm.tenants.own_keys import OwnKeys
from agentvm.tenants.people import People
from agentvm.tenants.quota import Quotas
from agentvm.tenants.vault import Vault


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """The tenant-related parts of one server."""

    access: Access
    people: People
    quotas: Quotas
    vault: Vault
    own_keys: OwnKeys
    store: Store
    """The store, for callers that only read or write rows."""
