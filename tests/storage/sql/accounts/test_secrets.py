from tests.conformance.store import ACME

from agentvm.storage.sql.store import Store


async def test_names_are_told_without_what_is_sealed_in_them(store: Store) -> None:
    secrets = store.accounts(ACME).secrets
    await secrets.put("OPENAI_API_KEY", b"sealed", now=4)
    assert await secrets.list() == (("OPENAI_API_KEY", 4),)


async def test_a_name_is_matched_exactly(store: Store) -> None:
    secrets = store.accounts(ACME).secrets
    await secrets.put("key", b"sealed", now=4)
    for other in ("KEY", "key ", "ke%", "k*", ""):
        assert await secrets.get(other) is None
        assert await secrets.remove(other) is False
