from typing import Any

import pytest
from langgraph_sdk.errors import UnprocessableEntityError
from tests.gateways.langgraph.fixtures import asking, talking

from agentvm.gateways.langgraph.store import FILTER_MAX
from agentvm.model.store_item import KEY_MAX_BYTES, NAMESPACE_MAX_BYTES, VALUE_MAX_BYTES


async def test_the_official_client_keeps_finds_and_deletes_items() -> None:
    async with talking() as (client, _):
        store = client.store
        assert await store.get_item(["users", "bob"], key="likes") is None
        await store.put_item(["users", "bob"], key="likes", value={"tea": True, "cups": 3}, index=False)
        await store.put_item(["users", "bob", "日记"], key="a b&c", value={"tea": True})
        await store.put_item(["users", "eve"], key="likes", value={})
        first = await store.get_item(["users", "bob"], key="likes", refresh_ttl=True)
        assert (first["namespace"], first["key"], first["value"]) == (["users", "bob"], "likes", {"tea": True, "cups": 3})
        assert first["created_at"] == first["updated_at"]
        assert (await store.get_item(["users", "bob", "日记"], key="a b&c"))["value"] == {"tea": True}

        async def found(*prefix: str, **query: Any) -> list[Any]:
            return [(each["namespace"], each["key"]) for each in (await store.search_items(list(prefix), **query))["items"]]

        assert len(await found()) == 3
        assert await found("users", "bob", filter={"tea": True}, limit=1, offset=1) == [(["users", "bob"], "likes")]
        assert await found("users", filter={"cups": 3}) == [(["users", "bob"], "likes")]
        await store.put_item(["users", "bob"], key="likes", value={"coffee": True})
        changed = await store.get_item(["users", "bob"], key="likes")
        assert (changed["value"], changed["created_at"]) == ({"coffee": True}, first["created_at"])
        await store.delete_item(["users", "bob"], key="likes")
        await store.delete_item(["users", "bob"], key="likes")
        assert await store.get_item(["users", "bob"], key="likes") is None


async def test_namespaces_are_listed_by_their_ends_and_to_a_depth() -> None:
    async with talking() as (client, _):
        for namespace in (["a", "x", "1"], ["a", "x", "2"], ["a", "y"], ["b", "y"], ["c"]):
            await client.store.put_item(namespace, key="k", value={})

        async def listed(**about: Any) -> list[str]:
            return [".".join(namespace) for namespace in (await client.store.list_namespaces(**about))["namespaces"]]

        assert await listed() == ["a.x.1", "a.x.2", "a.y", "b.y", "c"]
        assert await listed(max_depth=2) == ["a.x", "a.y", "b.y", "c"]
        assert await listed(max_depth=2, limit=2, offset=1) == ["a.y", "b.y"]
        assert await listed(prefix=["a"]) == ["a.x.1", "a.x.2", "a.y"]
        assert await listed(suffix=["y"]) == ["a.y", "b.y"]
        assert await listed(prefix=["*", "x"], suffix=["2"]) == ["a.x.2"]


async def test_every_container_has_its_own_store() -> None:
    async with talking() as (client, served), asking(served) as http:
        item = {"namespace": ["a"], "key": "k", "value": {"whose": "bob"}}
        bobs = {"X-AVM-Container": "bob"}
        assert (await http.put("/store/items", json=item, headers=bobs)).status_code == 204
        assert await client.store.get_item(["a"], key="k") is None
        assert (await client.store.search_items([]))["items"] == []
        assert (await client.store.list_namespaces())["namespaces"] == []
        await client.store.delete_item(["a"], key="k")
        kept = await http.get("/store/items", params={"namespace": "a", "key": "k"}, headers=bobs)
        assert kept.json()["value"] == {"whose": "bob"}


async def test_items_count_for_the_storage_of_the_tenant() -> None:
    async with talking() as (_, served), asking(served) as http:
        limit = {"metric": "storage_bytes", "hard": 60_000}
        assert (await http.put(f"{served.http}/v1/quotas", json=limit)).is_success

        async def put(key: str) -> int:
            item = {"namespace": ["a"], "key": key, "value": {"text": "x" * 40_000}}
            return (await http.put("/store/items", json=item)).status_code

        assert [await put("first"), await put("second")] == [204, 429]
        await http.request("DELETE", "/store/items", json={"namespace": ["a"], "key": "first"})
        assert await put("second") == 204


async def test_what_the_store_does_not_do_or_hold_is_refused() -> None:
    item: dict[str, Any] = {"namespace": ["a"], "key": "k", "value": {}}
    puts: list[dict[str, Any]] = [
        {"ttl": 0}, {"ttl": 5}, {"index": ["text"]}, {"index": True}, {"value": None}, {"value": []}, {"key": ""},
        {"key": "k" * (KEY_MAX_BYTES + 1)}, {"key": "a\0"}, {"namespace": []}, {"namespace": "a"}, {"namespace": ["a", ""]},
        {"namespace": ["a.b"]}, {"namespace": ["a\n"]}, {"namespace": ["n" * (NAMESPACE_MAX_BYTES + 1)]},
        {"value": {"x": "y" * VALUE_MAX_BYTES}},
    ]  # fmt: skip
    searches: list[dict[str, Any]] = [
        {"query": "tea"}, {"limit": 0}, {"limit": 101}, {"offset": -1}, {"offset": 2**63}, {"namespace_prefix": ["a."]},
        {"filter": {"cups": {"$gt": 2}}}, {"filter": {str(number): 1 for number in range(FILTER_MAX + 1)}},
    ]  # fmt: skip
    lists: list[dict[str, Any]] = [{"max_depth": 0}, {"limit": 1_001}, {"prefix": [""]}, {"suffix": ["a.b"]}]
    async with talking() as (client, served), asking(served) as http:
        for method, path, bodies in (
            ("PUT", "/store/items", [item | change for change in puts]),
            ("POST", "/store/items/search", searches),
            ("POST", "/store/namespaces", lists),
            ("DELETE", "/store/items", [{"namespace": ["a"]}, {"namespace": [], "key": "k"}]),
        ):
            for body in bodies:
                answer = await http.request(method, path, json=body)
                assert (answer.status_code, bool(answer.json()["detail"])) == (422, True), (method, body)
        for query in ("", "?namespace=a", "?key=k", "?namespace=a..b&key=k"):
            assert (await http.get(f"/store/items{query}")).status_code == 422
        with pytest.raises(UnprocessableEntityError, match="ttl"):
            await client.store.put_item(["a"], key="k", value={}, ttl=5)
        assert (await client.store.search_items([]))["items"] == []
