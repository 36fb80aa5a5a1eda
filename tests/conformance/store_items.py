"""Store item conformance — what the store must do with items of namespaces on every engine: found, counted and bounded."""

from typing import Any

import msgspec

from agentvm.errors import ContainerNotFound, Unprocessable
from agentvm.model.ids import ContainerId
from agentvm.model.store_item import KEY_MAX_BYTES, NAMESPACE_MAX_BYTES, STORE_ITEMS_MAX, VALUE_MAX_BYTES, Namespace, StoreItem
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.store import Store
from agentvm.storage.sql.store_items import size_of
from tests.conformance.records import HOME
from tests.conformance.store import ACME, RIVAL, raises, settle


def item(namespace: Namespace, key: str, value: dict[str, Any] | None = None, *, now: int = 1) -> StoreItem:
    return StoreItem(namespace=namespace, key=key, value=value or {}, created_at=now, updated_at=now)


async def check_an_item_is_put_changed_and_deleted_in_its_own_container(store: Store) -> None:
    home = (await settle(store)).store_items
    quotas = store.accounts(ACME).quotas
    before = await quotas.storage_bytes()
    value = {"lines": "a\nb", "nul": "\0", "city": "北京 🦀", "deep": {"b": [1, 2.5, None], "a": {}}, "": True}
    first = item(("users", "bob"), "k", value)
    assert await home.put(first) == 0
    assert await home.get(("users", "bob"), "k") == first
    assert await quotas.storage_bytes() - before == size_of(first)
    changed = item(("users", "bob"), "k", now=9)
    assert await home.put(changed) == size_of(first)
    assert await home.get(("users", "bob"), "k") == msgspec.structs.replace(changed, created_at=1)
    for other in (store.tenant(ACME).container(ContainerId("other")), store.tenant(RIVAL).container(HOME)):
        assert await other.store_items.get(("users", "bob"), "k") is None
        assert await other.store_items.search((), {}, limit=9, offset=0) == ()
        assert await other.store_items.list_namespaces() == ()
        assert await other.store_items.delete(("users", "bob"), "k") == 0
        assert await raises(ContainerNotFound, other.store_items.put(first))
    assert await home.delete(("users", "bob"), "k") == size_of(changed)
    assert await home.delete(("users", "bob"), "k") == 0
    assert await quotas.storage_bytes() == before


async def check_items_are_found_below_a_namespace_and_by_members_of_their_values(store: Store) -> None:
    home = (await settle(store)).store_items
    values: list[dict[str, Any]] = [{"n": 1, "s": "1"}, {"n": "1"}, {"x": {"n": 1}}, {"s": "1", "x": {"b": 2, "a": 1}}, {}]
    spaces: list[Namespace] = [("a",), ("a", "b"), ("ab",), ("a", "b", "\U0010ffff"), ("%_", "*")]
    for number, (namespace, value) in enumerate(zip(spaces, values, strict=True)):
        await home.put(item(namespace, "k", value, now=number))

    async def found(prefix: Namespace = (), limit: int = 9, offset: int = 0, **members: Any) -> list[Namespace]:
        return [each.namespace for each in await home.search(prefix, members, limit=limit, offset=offset)]

    assert await found() == spaces[::-1], "the last changed first"
    assert await found(("a",)) == [spaces[3], spaces[1], spaces[0]]
    assert await found(("a", "b")) == [spaces[3], spaces[1]]
    assert await found(("%",)) == []
    assert await found(limit=2, offset=1) == [spaces[3], spaces[2]]
    assert await found(n=1) == [spaces[0]]
    assert await found(n="1") == [spaces[1]]
    assert await found(s="1", x={"a": 1, "b": 2}) == [spaces[3]]
    assert await found(("ab",), s="1") == []
    assert await home.list_namespaces() == tuple(sorted(spaces))


async def check_the_items_of_a_container_are_bounded(store: Store) -> None:
    container = await settle(store)
    home = container.store_items
    assert await raises(Unprocessable, home.put(item(("a",), "k", {"x": "y" * VALUE_MAX_BYTES})))
    widest = item(("n" * NAMESPACE_MAX_BYTES,), "k" * KEY_MAX_BYTES)
    await home.put(widest)
    assert await home.get(widest.namespace, widest.key) == widest

    def fill(connection: Connection) -> None:
        row = "INSERT INTO store_items (tenant_id, container_id, namespace, item_key, members, created_at, updated_at) VALUES"
        keys = [(ACME, HOME, f"k{number}") for number in range(STORE_ITEMS_MAX - 1)]
        connection.many(f"{row} (?, ?, 'full.', ?, '', 1, 1)", keys)

    await home._database.write(fill)
    assert await raises(Unprocessable, home.put(item(("a",), "more")))
    await home.put(item(("full",), "k1", {"changed": True}))
    await home.delete(("full",), "k2")
    await home.put(item(("a",), "more"))


async def check_a_container_that_is_being_erased_shows_no_items(store: Store) -> None:
    home = await settle(store)
    await home.store_items.put(item(("a",), "k"))
    await store.erasing.delete_container(ACME, HOME, now=9)
    assert await home.store_items.get(("a",), "k") is None
    assert await home.store_items.list_namespaces() == ()
    assert await raises(ContainerNotFound, home.store_items.put(item(("a",), "late")))
