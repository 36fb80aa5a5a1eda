"""The protocol holds nothing to run; this shows that what is built on it has its shape."""

import inspect

from agentvm.storage.drafts import DraftStore
from agentvm.storage.sql.sessions.drafts import SqliteDraftStore


def public(of: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(member) for name, member in vars(of).items() if not name.startswith("_")}


def test_a_repository_offers_what_the_protocol_says_and_nothing_else() -> None:
    assert public(SqliteDraftStore) == public(DraftStore)
