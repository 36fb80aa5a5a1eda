"""The protocol holds nothing to run; this shows that what is built on it has its shape."""

import inspect

from agentvm.storage.erasing import Erasing, Owned
from agentvm.storage.sql.erasing import SqliteErasing


def public(of: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(member) for name, member in vars(of).items() if not name.startswith("_")}


def test_a_repository_offers_what_the_protocol_says_and_nothing_else() -> None:
    assert public(SqliteErasing) == public(Erasing)


def test_what_has_nothing_owns_nothing() -> None:
    assert (Owned().containers, Owned().messages, Owned().bytes) == ((), 0, 0)
