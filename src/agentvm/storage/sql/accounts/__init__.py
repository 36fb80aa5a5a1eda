"""Accounts — tenants, their users, keys, quotas, secrets, grants, connections to MCP servers, channels, audit log and money.

`store.accounts(tenant_id)` sees one tenant and stores everything under it, regardless of the tenant in a record. Only three
questions cross tenants, and only `store.directory` answers them: which tenants there are, whose a key, a cookie, an invitation
or an identity is, and which channels the host has to run. A deleted tenant takes no more users, keys, quotas, secrets and
grants: `NotFound`. Time ranges include `since` and exclude `until`.
"""

from agentvm.model.ids import TenantId
from agentvm.storage.sql.accounts.audit import AuditStore
from agentvm.storage.sql.accounts.browser_sessions import BrowserSessionStore
from agentvm.storage.sql.accounts.channels import ChannelStore
from agentvm.storage.sql.accounts.connections import ConnectionStore
from agentvm.storage.sql.accounts.feedback import FeedbackStore
from agentvm.storage.sql.accounts.grants import GrantStore
from agentvm.storage.sql.accounts.identities import IdentityStore
from agentvm.storage.sql.accounts.invitations import InvitationStore
from agentvm.storage.sql.accounts.keys import KeyStore
from agentvm.storage.sql.accounts.ledger import LedgerStore
from agentvm.storage.sql.accounts.preferences import PreferenceStore
from agentvm.storage.sql.accounts.quota_parts import PartStore
from agentvm.storage.sql.accounts.quotas import QuotaStore
from agentvm.storage.sql.accounts.secrets import SecretStore
from agentvm.storage.sql.accounts.sent_calls import SentCallStore
from agentvm.storage.sql.accounts.shares import ShareStore
from agentvm.storage.sql.accounts.users import UserStore
from agentvm.storage.sql.connection import Database


class Accounts:
    """The stores of one tenant, but for its containers."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self.users = UserStore(database, tenant_id)
        self.keys = KeyStore(database, tenant_id)
        self.browser_sessions = BrowserSessionStore(database, tenant_id)
        self.invitations = InvitationStore(database, tenant_id)
        self.identities = IdentityStore(database, tenant_id)
        self.preferences = PreferenceStore(database, tenant_id)
        self.quotas = QuotaStore(database, tenant_id)
        self.quota_parts = PartStore(database, tenant_id)
        self.secrets = SecretStore(database, tenant_id)
        self.grants = GrantStore(database, tenant_id)
        self.connections = ConnectionStore(database, tenant_id)
        self.channels = ChannelStore(database, tenant_id)
        self.audit = AuditStore(database, tenant_id)
        self.ledger = LedgerStore(database, tenant_id)
        self.asked = SentCallStore(database, tenant_id)
        self.feedback = FeedbackStore(database, tenant_id)
        self.shares = ShareStore(database, tenant_id)
