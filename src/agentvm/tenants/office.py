"""Office — everything about tenants that a running server has: who they are, what they may use, and their secrets."""

from dataclasses import dataclass

from agentvm.storage.base import Store
from agentvm.tenants.access import Access
from agentvm.tenants.own_keys import OwnKeys
from agentvm.tenants.people import People
from agentvm.tenants.quota import Quotas
from agentvm.tenants.vault import Vault


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """One per server."""

    access: Access
    people: People
    quotas: Quotas
    vault: Vault
    own_keys: OwnKeys
    store: Store
    """For what needs no more than to be read or written."""
