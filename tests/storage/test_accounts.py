"""The protocols hold nothing to run; this shows that what is built on them has their shape."""

import inspect

import pytest

from agentvm.storage import accounts
from agentvm.storage.sql.accounts.audit import SqliteAuditStore
from agentvm.storage.sql.accounts.directory import SqliteDirectory
from agentvm.storage.sql.accounts.keys import SqliteKeyStore
from agentvm.storage.sql.accounts.ledger import SqliteLedgerStore
from agentvm.storage.sql.accounts.quotas import SqliteQuotaStore
from agentvm.storage.sql.accounts.secrets import SqliteSecretStore
from agentvm.storage.sql.accounts.users import SqliteUserStore


def public(of: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(member) for name, member in vars(of).items() if not name.startswith("_")}


@pytest.mark.parametrize(
    ("protocol", "built"),
    [
        (accounts.Directory, SqliteDirectory),
        (accounts.UserStore, SqliteUserStore),
        (accounts.KeyStore, SqliteKeyStore),
        (accounts.QuotaStore, SqliteQuotaStore),
        (accounts.SecretStore, SqliteSecretStore),
        (accounts.AuditStore, SqliteAuditStore),
        (accounts.LedgerStore, SqliteLedgerStore),
    ],
)
def test_a_repository_offers_what_the_protocol_says_and_nothing_else(protocol: type, built: type) -> None:
    assert public(built) == public(protocol)
