import inspect

from tests.conformance.records import message

from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.storage.base import LogChunk, SessionWrite
from agentvm.storage.sql.store import Store, TenantStore


def write(**fields: object) -> SessionWrite:
    return SessionWrite(
        tenant_id=TenantId("t"),
        container_id=ContainerId("c"),
        session_id=SessionId("s"),
        now=1,
        **fields,  # type: ignore[arg-type]
    )


def test_a_write_of_nothing_but_calls_changes_no_session() -> None:
    assert write().is_empty
    assert write(answered=("k",)).changes_no_session
    assert not write(answered=("k",)).is_empty
    chunk = LogChunk(first_seq=1, last_seq=2, made_at=1, body=b"")
    for changing in (write(messages=(message("m1"),)), write(chunk=chunk)):
        assert not changing.changes_no_session


def public(of: type) -> dict[str, inspect.Signature]:
    members = {name: member for name, member in vars(of).items() if not name.startswith("_")}
    return {name: inspect.signature(getattr(member, "fget", member)) for name, member in members.items()}


def test_a_container_is_reached_only_through_its_tenant() -> None:
    scopes = {"tenant", "accounts", "settings", "resources", "definitions", "carrier", "webhooks"}
    whole = {"commit", "collect", "probe", "read_journal", "read_settings", "list_unfinished", "list_quarantined", "trim_log"}
    scopes |= {"knowledge", "collections", "collection_indexes"}
    whole |= {"last_entry", "purge_sessions", "tend_search", "list_sent_calls", "read_homes", "read_heads"}
    whole |= {"list_unfinished_indexes"}
    assert set(public(Store)) == scopes | whole
    assert list(public(TenantStore)["container"].parameters) == ["self", "container_id"]
