import pytest
from tests.conformance.store import ACME, RIVAL

from agentvm.errors import Conflict, NotFound
from agentvm.model.account import User
from agentvm.model.ids import UserId
from agentvm.storage.sql.accounts import connections as module
from agentvm.storage.sql.accounts.connections import Consent
from agentvm.storage.sql.store import Store

BOB = UserId("usr_bob")
URL = "https://mcp.example/mcp"


async def add_bob(store: Store) -> None:
    await store.accounts(ACME).users.add(User(user_id=BOB, tenant_id=ACME, external_id="bob", created_at=1, updated_at=1))


async def test_a_connection_belongs_to_one_user_of_one_tenant(store: Store) -> None:
    await add_bob(store)
    connections = store.accounts(ACME).connections
    await connections.put(BOB, URL, b"known", 1, connected=False)
    assert (await connections.list(BOB), await connections.get(BOB, URL)) == ((), b"known")
    await connections.put(BOB, URL, b"tokens", 2)
    assert await connections.list(BOB) == ((URL, 2),)
    assert await connections.get("", URL) is None
    assert await store.accounts(RIVAL).connections.get(BOB, URL) is None
    assert await store.accounts(RIVAL).connections.remove(BOB, URL) is False
    assert await connections.remove(BOB, URL) is True
    with pytest.raises(NotFound):
        await connections.put("usr_nobody", URL, b"x", 1)


async def test_a_consent_is_taken_once_and_in_time(store: Store) -> None:
    await add_bob(store)
    connections = store.accounts(ACME).connections
    consent = Consent(BOB, URL, b"verifier")
    await connections.put_consent("digest", consent, 1, expires_at=10)
    assert await connections.find_consent("digest", 9) == consent
    assert await connections.find_consent("digest", 10) is None
    assert await connections.find_consent("", 9) is None
    assert await connections.states(BOB, URL) == {"digest"}
    assert await store.accounts(RIVAL).connections.take_consent("digest", 9) is None
    assert [await connections.take_consent("digest", 9) for _ in range(2)] == [consent, None]
    await connections.put_consent("late", consent, 1, expires_at=10)
    assert await connections.take_consent("late", 10) is None


async def test_a_user_has_so_many_connections_and_open_consents(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1)
    monkeypatch.setattr(module, "CONSENTS_MAX", 2)
    await add_bob(store)
    connections = store.accounts(ACME).connections
    await connections.put(BOB, URL, b"a", 1)
    with pytest.raises(Conflict):
        await connections.put(BOB, "https://other.example/mcp", b"a", 1)
    for number in range(4):
        await connections.put_consent(str(number), Consent(BOB, URL, b"v"), 1, expires_at=10)
    assert await connections.states(BOB, URL) == {"2", "3"}
    await connections.drop_consents(BOB, URL)
    assert (await connections.states(BOB, URL), len(await connections.list(BOB))) == (frozenset(), 1)
