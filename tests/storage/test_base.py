"""The protocols hold nothing to run; this shows that what is built on them has their shape."""

import inspect

import pytest

from agentvm.storage import base
from agentvm.storage.sql.container import SqliteContainerStore
from agentvm.storage.sql.log import SqliteLogStore
from agentvm.storage.sql.store import SqliteStore, SqliteTenantStore


def public(of: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(member) for name, member in vars(of).items() if not name.startswith("_")}


@pytest.mark.parametrize(
    ("protocol", "built"),
    [
        (base.ContainerStore, SqliteContainerStore),
        (base.LogStore, SqliteLogStore),
        (base.TenantStore, SqliteTenantStore),
        (base.Store, SqliteStore),
    ],
)
def test_a_store_offers_what_the_protocol_says_and_nothing_else(protocol: type, built: type) -> None:
    wanted, offered = public(protocol), public(built)
    assert offered.keys() == wanted.keys()
    for name, signature in wanted.items():
        assert offered[name].parameters == signature.parameters


def test_a_container_is_reached_only_through_its_tenant() -> None:
    scopes = {"tenant", "accounts", "settings", "resources", "definitions", "carrier"}
    whole = {"commit", "collect", "probe", "read_journal", "read_settings", "list_unfinished", "list_quarantined", "trim_log"}
    whole |= {"purge_sessions", "tend_search", "list_asked"}
    assert set(public(base.Store)) == scopes | whole
    assert list(public(base.TenantStore)["container"].parameters) == ["self", "container_id"]
