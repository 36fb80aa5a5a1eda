from agentvm.tools.base import Caller
from agentvm.tools.mcp.consent import MemoryCredentials, PendingConsent, TokenScope

ALICE = TokenScope(Caller("acme", "alice"), "https://mcp.example/mcp")


async def test_a_consent_is_found_by_its_tenant_user_and_server_alone() -> None:
    store = MemoryCredentials(lambda: 0)
    await store.save(ALICE, b"token")
    assert await store.load(ALICE) == b"token"
    for other in (
        TokenScope(Caller("acme", "bob"), ALICE.server),
        TokenScope(Caller("globex", "alice"), ALICE.server),
        TokenScope(ALICE.caller, "https://mcp.example/mcp/"),
    ):
        assert await store.load(other) is None
    await store.forget(ALICE)
    assert await store.load(ALICE) is None


async def test_a_wait_for_consent_is_taken_once_and_expires() -> None:
    now = 100.0
    store = MemoryCredentials(lambda: now)
    await store.put_pending("first", b"1", 160.0)
    assert await store.take_pending("first") == b"1"
    assert await store.take_pending("first") is None
    await store.put_pending("late", b"2", 160.0)
    now = 161.0
    assert await store.take_pending("late") is None
    await store.put_pending("x", b"3", 100.0)
    assert await store.take_pending("x") is None


def test_a_wait_knows_whose_it_is() -> None:
    pending = PendingConsent(
        tenant_id="acme", user_id="alice", server=ALICE.server, verifier="v", redirect_uri="https://avm.example/cb",
        token_endpoint="https://as.example/token", issuer=None, issuer_required=False, resource=None, client={}, metadata=None,
        resource_metadata=None,
    )  # fmt: skip
    assert pending.token_scope == ALICE
