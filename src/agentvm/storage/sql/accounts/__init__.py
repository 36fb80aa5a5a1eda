"""Accounts — everything of one tenant but its containers, in SQLite.

Every statement carries the tenant of its scope; a tenant id inside a record is not consulted.
"""

from agentvm.model.ids import TenantId
from agentvm.storage.accounts import AskedStore, AuditStore, KeyStore, LedgerStore, QuotaStore, SecretStore, UserStore
from agentvm.storage.sql.accounts.asked import SqliteAskedStore
from agentvm.storage.sql.accounts.audit import SqliteAuditStore
from agentvm.storage.sql.accounts.keys import SqliteKeyStore
from agentvm.storage.sql.accounts.ledger import SqliteLedgerStore
from agentvm.storage.sql.accounts.quotas import SqliteQuotaStore
from agentvm.storage.sql.accounts.secrets import SqliteSecretStore
from agentvm.storage.sql.accounts.users import SqliteUserStore
from agentvm.storage.sql.connection import Database


class SqliteAccounts:
    """See `agentvm.storage.accounts.Accounts`."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self.users: UserStore = SqliteUserStore(database, tenant_id)
        self.keys: KeyStore = SqliteKeyStore(database, tenant_id)
        self.quotas: QuotaStore = SqliteQuotaStore(database, tenant_id)
        self.secrets: SecretStore = SqliteSecretStore(database, tenant_id)
        self.audit: AuditStore = SqliteAuditStore(database, tenant_id)
        self.ledger: LedgerStore = SqliteLedgerStore(database, tenant_id)
        self.asked: AskedStore = SqliteAskedStore(database, tenant_id)
