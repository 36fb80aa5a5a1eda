"""Collections over HTTP: upload, progress, search by a knowledge base, deletion, bounds."""

from typing import Any
from urllib.parse import quote

import anyio
import pytest
from tests.server.http.fixtures import World, open_world, request

from agentvm.model.account import Quota
from agentvm.model.collection import DOCUMENT_MAX_BYTES

HANDBOOK = "/v1/collections/handbook"


async def put(world: World, document: str, text: str, status: int = 201) -> dict[str, object]:
    sent = await world.ask("PUT", f"{HANDBOOK}/documents/{document}", raw=text.encode(), key=world.acme.admin)
    assert sent.status == status, sent.raw
    return dict(sent.body)


async def publish(world: World, collection: str, name: str = "docs") -> dict[str, object]:
    body = {"type": "knowledge", "name": name, "content": {"collection": collection}}
    return dict((await world.ask("POST", "/v1/resources", body, key=world.acme.admin)).body)


async def test_documents_are_uploaded_indexed_beside_the_turns_and_found_by_revision() -> None:
    async with open_world() as world:
        admin = world.acme.admin
        made = await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=admin)
        assert (made.status, made.body["revision"]) == (201, 0)
        assert (await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=admin)).status == 409
        assert (await world.ask("POST", "/v1/collections", {"name": "Hand Book"}, key=admin)).status == 400
        first = await put(world, "guides/returns.md", "# Returns\n\nWithin seven days. 七天之内可以退货。")
        assert (first["document"], first["revision"], first["state"]) == ("guides/returns.md", 1, "waiting")
        await put(world, "guides/returns.md", "# Returns\n\nWithin seven days. 七天之内可以退货。", status=200)
        await put(world, "logo.png", "no picture")
        docs = await publish(world, "handbook@2")
        path = f"/v1/resources/{docs['id']}/query"
        with anyio.fail_after(60):
            found = (await world.ask("POST", path, {"q": "可以退货吗"}, key=admin)).body
        (passage,) = found["passages"]
        assert passage["cite"].startswith("resource://knowledge/docs@1.0.0#guides/returns.md:0-")
        assert [one["document"] for one in found["problems"]] == ["logo.png"]
        opened = await world.ask("GET", f"/v1/passages?cite={quote(passage['cite'])}", key=admin)
        assert opened.body["text"] == passage["text"]
        states = {one["document"]: one["state"] for one in (await world.ask("GET", f"{HANDBOOK}/documents", key=admin)).items}
        assert states == {"guides/returns.md": "indexed", "logo.png": "failed"}
        await put(world, "guides/returns.md", "# Returns\n\nWithin thirty days.")
        with anyio.fail_after(60):
            again = (await world.ask("POST", path, {"q": "returns days"}, key=admin)).body["passages"]
        assert "seven" in again[0]["text"], "a version keeps its revision"
        later = await publish(world, "handbook@3", "later")
        with anyio.fail_after(60):
            newer = await world.ask("POST", f"/v1/resources/{later['id']}/query", {"q": "returns days"}, key=admin)
        assert "thirty" in newer.body["passages"][0]["text"]


async def test_a_deleted_document_is_found_in_no_revision_and_searches_say_so() -> None:
    async with open_world() as world:
        admin = world.acme.admin
        await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=admin)
        await put(world, "a.md", "green tea")
        await put(world, "b.md", "coffee")
        docs = await publish(world, "handbook@2")
        path = f"/v1/resources/{docs['id']}/query"
        with anyio.fail_after(60):
            (passage,) = (await world.ask("POST", path, {"q": "tea"}, key=admin)).body["passages"]
        assert (await world.ask("DELETE", f"{HANDBOOK}/documents/a.md", key=admin)).status == 204
        found = (await world.ask("POST", path, {"q": "tea"}, key=admin)).body
        assert found["passages"] == []
        assert "was deleted" in found["problems"][0]["problem"]
        opened = await world.ask("GET", f"/v1/passages?cite={quote(passage['cite'])}", key=admin)
        assert (opened.status, "was deleted" in opened.body["error"]["message"]) == (404, True)
        assert (await world.ask("DELETE", f"{HANDBOOK}/documents/a.md", key=admin)).status == 404
        forgotten = await world.ask("POST", f"{HANDBOOK}/forget", {"before": 3}, key=admin)
        assert (forgotten.body["oldest"], forgotten.body["documents"]) == (3, 1)
        refused = await world.ask("POST", path, {"q": "coffee"}, key=admin)
        assert "was forgotten" in refused.body["error"]["message"]
        assert (await world.ask("DELETE", HANDBOOK, key=admin)).status == 204
        assert (await world.ask("GET", HANDBOOK, key=admin)).status == 404
        assert "no collection handbook@2" in (await world.ask("POST", path, {"q": "x"}, key=admin)).body["error"]["message"]


@pytest.mark.parametrize("announced", [str(DOCUMENT_MAX_BYTES + 1), str(10 * 1024**3)])
async def test_a_document_that_is_too_large_is_refused_by_its_length_before_a_byte_is_stored(announced: str) -> None:
    async with open_world() as world:
        admin = world.acme.admin
        await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=admin)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            kept = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
            await world.app({**scope, "headers": [*kept, (b"content-length", announced.encode())]}, receive, send)

        headers = [(b"host", b"127.0.0.1:8080"), (b"authorization", f"Bearer {admin}".encode())]
        sent = await request(app, "PUT", f"{HANDBOOK}/documents/a.md", headers, b"x")
        assert sent.status == 413, sent.raw
        assert (await world.ask("GET", HANDBOOK, key=admin)).body["bytes"] == 0


async def test_a_document_that_grows_beyond_the_bound_without_saying_so_is_refused() -> None:
    async with open_world() as world:
        admin = world.acme.admin
        await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=admin)
        sent = await world.ask("PUT", f"{HANDBOOK}/documents/a.md", raw=bytes(DOCUMENT_MAX_BYTES + 1), key=admin)
        assert sent.status == 413
        assert (await world.ask("GET", HANDBOOK, key=admin)).body["bytes"] == 0


async def test_a_knowledge_base_names_a_revision_that_is_there() -> None:
    async with open_world() as world:
        await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=world.acme.admin)
        await put(world, "a.md", "x")
        for wrong in ("handbook@2", "none@1", "handbook", "Hand@1"):
            made: Any = await publish(world, wrong)
            assert made["error"]["code"] == "resource_invalid", made
        made = await publish(world, "handbook@2")
        assert "it has the revisions 1 to 1" in made["error"]["message"]


async def test_collections_count_towards_storage_and_belong_to_their_tenant() -> None:
    async with open_world() as world:
        admin, acme = world.acme.admin, world.acme.tenant_id
        await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=admin)
        await put(world, "a.md", "x" * 10_000)
        assert await world.vm.tenancy.store.accounts(acme).quotas.storage_bytes() > 10_000
        quotas = world.vm.tenancy.store.accounts(acme).quotas
        await quotas.put(Quota(metric="storage_bytes", hard=await quotas.storage_bytes() + 5_000), 1)
        await world.vm.tenancy.quotas.reread(acme)
        sent = await world.ask("PUT", f"{HANDBOOK}/documents/b.md", raw=b"y" * 10_000, key=admin)
        assert sent.code == "quota_exceeded"
        assert (await world.ask("GET", HANDBOOK, key=world.bolt.admin)).status == 404


async def test_numbers_and_titles_that_cannot_be_stored_are_refused() -> None:
    async with open_world() as world:
        admin = world.acme.admin
        await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=admin)
        asked = await world.ask("GET", f"{HANDBOOK}/documents?revision={2**63}", key=admin)
        assert (asked.status, asked.body["error"]["code"]) == (400, "invalid_input")
        titled = await world.ask("PUT", f"{HANDBOOK}/documents/a.md?title=%00", raw=b"tea", key=admin)
        assert (titled.status, titled.body["error"]["code"]) == (400, "invalid_input")
