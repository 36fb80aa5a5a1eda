"""The protocol holds nothing to run; this shows that what is built on it has its shape."""

import inspect

from agentvm.storage.retention import NOTHING, RetentionStore, Weight
from agentvm.storage.sql.sessions.retention import SqliteRetentionStore


def public(of: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(member) for name, member in vars(of).items() if not name.startswith("_")}


def test_a_repository_offers_what_the_protocol_says_and_nothing_else() -> None:
    assert public(SqliteRetentionStore) == public(RetentionStore)


def test_weights_are_added_up() -> None:
    assert sum([Weight(1, 10), Weight(2, 5)], NOTHING) == Weight(3, 15)
