from msgspec.structs import replace
from tests.conformance.accounts import ALICE, key, tenant, user
from tests.conformance.erasing import erase
from tests.conformance.store import ACME, RIVAL

from agentvm.model.account import BrowserSession
from agentvm.model.ids import BrowserSessionId, KeyId, UserId
from agentvm.storage.sql.accounts.browser_sessions import BROWSER_SESSIONS_MAX
from agentvm.storage.sql.store import Store


def session(name: str = "bs1", *, key_id: str = "k1", user_id: UserId | None = None, at: int = 5) -> BrowserSession:
    return BrowserSession(
        browser_session_id=BrowserSessionId(name),
        tenant_id=ACME,
        key_id=KeyId(key_id),
        user_id=user_id,
        user_agent="Firefox",
        created_at=at,
        last_used_at=at,
    )


async def test_a_session_is_found_by_its_digest_and_comes_back_as_it_was(store: Store) -> None:
    sessions = store.accounts(ACME).browser_sessions
    assert await sessions.add(session(), b"d1", 0) == ()
    assert await store.directory.find_browser_session(b"d1") == session()
    assert await store.directory.find_browser_session(b"d2") is None
    await sessions.touch([(BrowserSessionId("bs1"), 9), (BrowserSessionId("bs1"), 7)])
    assert await store.directory.find_browser_session(b"d1") == replace(session(), last_used_at=9)


async def test_a_list_has_the_sessions_of_a_user_or_of_a_key_that_are_in_force(store: Store) -> None:
    accounts = store.accounts(ACME)
    await accounts.users.add(user())
    for name, owner in (("k1", None), ("k2", None), ("k3", ALICE), ("k4", ALICE)):
        await accounts.keys.add(key(name, user_id=owner), b"d")
        await accounts.browser_sessions.add(session(f"of {name}", key_id=name, user_id=owner), name.encode(), 0)

    async def names(user_id: UserId | None, key_id: str, *, idle_since: int = 0, now: int = 6) -> list[str]:
        listed = await accounts.browser_sessions.list(user_id, KeyId(key_id), idle_since=idle_since, now=now)
        return [each.browser_session_id for each in listed]

    assert await names(None, "k1") == ["of k1"]
    assert await names(ALICE, "k3") == ["of k4", "of k3"]
    assert await names(UserId("u_bob"), "k3") == []
    assert await names(ALICE, "k3", idle_since=5) == []
    await accounts.keys.revoke(KeyId("k3"), 6)
    await accounts.keys.rotate(KeyId("k4"), key("k5"), b"d", now=6, ends_at=8)
    assert await names(ALICE, "k3", now=7) == ["of k4"]
    assert await names(ALICE, "k3", now=8) == []


async def test_only_the_owner_ends_a_session(store: Store) -> None:
    sessions = store.accounts(ACME).browser_sessions
    await sessions.add(session(), b"d1", 0)
    name = BrowserSessionId("bs1")
    assert not await sessions.drop(None, KeyId("k2"), name)
    assert not await sessions.drop(ALICE, KeyId("k1"), name)
    assert not await store.accounts(RIVAL).browser_sessions.drop(None, KeyId("k1"), name)
    assert await sessions.drop(None, KeyId("k1"), name)
    assert not await sessions.drop(None, KeyId("k1"), name)
    assert await store.directory.find_browser_session(b"d1") is None


async def test_idle_sessions_go_and_a_key_has_so_many_at_most(store: Store) -> None:
    sessions = store.accounts(ACME).browser_sessions
    await sessions.add(session("idle", key_id="k2", at=1), b"idle", 0)
    for number in range(BROWSER_SESSIONS_MAX):
        assert await sessions.add(session(f"bs{number}", at=10 + number), bytes([number]), 1) == ()
    assert await store.directory.find_browser_session(b"idle") is None
    await sessions.add(session("other", key_id="k2"), b"other", 1)
    assert await sessions.add(session("last", at=99), b"last", 1) == ("bs0",)
    assert await store.directory.find_browser_session(b"\0") is None
    assert await store.directory.find_browser_session(b"other") is not None


async def test_a_session_is_erased_with_its_user_and_with_its_tenant(store: Store) -> None:
    await store.directory.add_tenant(tenant())
    accounts = store.accounts(ACME)
    await accounts.users.add(user())
    await accounts.browser_sessions.add(session("hers", user_id=ALICE), b"hers", 0)
    await accounts.browser_sessions.add(session("of a key"), b"of a key", 0)
    await accounts.users.delete(ALICE, 9)
    await erase(store)
    assert await store.directory.find_browser_session(b"hers") is None
    assert await store.directory.find_browser_session(b"of a key") is not None
    await store.directory.delete_tenant(ACME, now=10)
    assert await store.directory.find_browser_session(b"of a key") is None
