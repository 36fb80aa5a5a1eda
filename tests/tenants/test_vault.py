import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tenants.fakes import ACME, NOW, FakeClock, FakeStore

from agentvm.errors import ConfigInvalid, InvalidInput, StoreFailed
from agentvm.model.ids import TenantId
from agentvm.model.secret import Secret
from agentvm.tenants.vault import SECRET_MAX_BYTES, Vault

OTHER = TenantId("ten_other")


def open_vault(store: FakeStore, key: bytes = b"k" * 32) -> Vault:
    return Vault(store, key=key, clock=FakeClock())


async def test_a_secret_comes_back_as_it_was_put() -> None:
    vault = open_vault(FakeStore())
    await vault.put(ACME, "OPENAI_API_KEY", Secret("sk-ü-123"))
    found = await vault.get(ACME, "OPENAI_API_KEY")
    assert found is not None
    assert found.reveal() == "sk-ü-123"
    assert await vault.names(ACME) == (("OPENAI_API_KEY", NOW),)
    assert await vault.get(OTHER, "OPENAI_API_KEY") is None


async def test_putting_again_replaces_and_removing_removes() -> None:
    vault = open_vault(FakeStore())
    await vault.put(ACME, "a", Secret("one"))
    await vault.put(ACME, "a", Secret("two"))
    found = await vault.get(ACME, "a")
    assert found is not None
    assert found.reveal() == "two"
    assert await vault.remove(ACME, "a")
    assert not await vault.remove(ACME, "a")
    assert await vault.get(ACME, "a") is None


async def test_what_is_stored_shows_nothing_and_is_never_the_same_twice() -> None:
    store = FakeStore()
    vault = open_vault(store)
    await vault.put(ACME, "a", Secret("sk-123456"))
    first, _ = store.secrets[ACME]["a"]
    await vault.put(ACME, "a", Secret("sk-123456"))
    again, _ = store.secrets[ACME]["a"]
    assert b"sk-123456" not in first
    assert first[:1] == again[:1] == b"\x01"
    assert first[5:] != again[5:]


async def test_a_sealed_value_opens_only_for_its_tenant_and_name() -> None:
    store = FakeStore()
    vault = open_vault(store)
    await vault.put(ACME, "a", Secret("x"))
    sealed, _ = store.secrets[ACME]["a"]
    for tenant_id, name in ((ACME, "b"), (OTHER, "a")):
        await store.accounts(tenant_id).secrets.put(name, sealed, NOW)
        with pytest.raises(StoreFailed, match="changed or moved"):
            await vault.get(tenant_id, name)


async def test_another_server_key_is_named_as_the_reason() -> None:
    store = FakeStore()
    await open_vault(store).put(ACME, "a", Secret("sk-123456"))
    with pytest.raises(ConfigInvalid, match=r"another server key.*AVM_SERVER_KEY") as caught:
        await open_vault(store, b"o" * 32).get(ACME, "a")
    assert "sk-123456" not in str(caught.value)


@given(st.integers(0, 40), st.integers(1, 255))
async def test_any_changed_byte_is_noticed(at: int, change: int) -> None:
    store = FakeStore()
    vault = open_vault(store)
    await vault.put(ACME, "a", Secret("sk-123456"))
    sealed, _ = store.secrets[ACME]["a"]
    changed = bytearray(sealed)
    changed[at % len(sealed)] ^= change
    await store.accounts(ACME).secrets.put("a", bytes(changed), NOW)
    with pytest.raises((StoreFailed, ConfigInvalid)):
        await vault.get(ACME, "a")


@pytest.mark.parametrize("size", [0, 1, 5, 16, 17, 32])
async def test_a_value_that_was_cut_off_is_noticed(size: int) -> None:
    store = FakeStore()
    vault = open_vault(store)
    await vault.put(ACME, "a", Secret("sk-123456"))
    await store.accounts(ACME).secrets.put("a", store.secrets[ACME]["a"][0][:size], NOW)
    with pytest.raises(StoreFailed):
        await vault.get(ACME, "a")


@pytest.mark.parametrize("name", ["", "a b", "../a", "ä", "1a", "a" * 129, "a\n"])
async def test_a_name_is_plain(name: str) -> None:
    with pytest.raises(InvalidInput, match="name of a secret"):
        await open_vault(FakeStore()).put(ACME, name, Secret("x"))


@pytest.mark.parametrize("value", ["", "x" * (SECRET_MAX_BYTES + 1)])
async def test_a_value_is_neither_empty_nor_huge(value: str) -> None:
    with pytest.raises(InvalidInput, match="bytes"):
        await open_vault(FakeStore()).put(ACME, "a", Secret(value))
