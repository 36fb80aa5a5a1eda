"""The protocol holds nothing to run; this shows that what is built on it has its shape."""

from tests.storage.test_base import public

from agentvm.storage.resources import ResourceStore
from agentvm.storage.sql.resources import SqliteResourceStore


def test_resources_offer_what_the_protocol_says_and_nothing_else() -> None:
    assert public(SqliteResourceStore) == public(ResourceStore)
