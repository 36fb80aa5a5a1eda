"""The protocol holds nothing to run; this shows that what is built on it has its shape."""

from tests.storage.test_settings import public

from agentvm.storage.definitions import DefinitionStore
from agentvm.storage.sql.definitions import SqliteDefinitionStore


def test_a_repository_offers_what_the_protocol_says_and_nothing_else() -> None:
    assert public(SqliteDefinitionStore) == public(DefinitionStore)
