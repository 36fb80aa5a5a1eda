"""An image that searches a collection, in one file: its documents come along."""

from typing import Any

from tests.operations.test_image_file import publish, saved
from tests.server.http.fixtures import World, open_world

from agentvm.blueprint.image_file import read_image_file, write_image_file
from agentvm.resources.archive import Bundle


async def collected(world: World, key: str) -> dict[str, Any]:
    """An image that searches the second of three revisions of a collection."""
    assert (await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=key)).status == 201
    texts = {"returns.md": b"# Returns\n\nWithin seven days.", "zh/prices.md": "茶：每盒四十元。".encode(), "new.md": b"Later."}
    for name, text in texts.items():
        put = await world.ask("PUT", f"/v1/collections/handbook/documents/{name}?title=T", raw=text, key=key)
        assert put.status == 201, put.raw
    await publish(world, key, "knowledge", "docs", {"collection": "handbook@2", "retrieval": {"k": 3}})
    await publish(world, key, "agents", "clerk", {"systemPrompt": "Help.", "knowledge": ["resource://knowledge/docs"]})
    body = {"container": "shop", "config": {"definition": "resource://agents/clerk", "name": "Clerk"}}
    made = await world.ask("POST", "/v1/images", body, key=key)
    assert made.status == 201, made.raw
    image: dict[str, Any] = made.body["image"]
    return image


async def ask_docs(world: World, key: str, question: str) -> list[str]:
    path = "/v1/resources/resource%3A%2F%2Fknowledge%2Fdocs/query"
    found = await world.ask("POST", path, {"q": question}, key=key)
    assert found.status == 200, found.raw
    return [passage["document"] for passage in found.body["passages"]]


async def test_an_image_takes_the_documents_of_its_collection_along_in_the_revision_that_it_searches() -> None:
    async with open_world() as world:
        image = await collected(world, world.acme.admin)
        data = await saved(world, image, world.acme.admin)
        assert data == await saved(world, image, world.acme.admin)
        for _ in range(2):
            loaded = await world.ask("POST", "/v1/images/load?container=shop", raw=data, key=world.bolt.admin)
            assert loaded.status == 201, loaded.raw
            assert loaded.body["image"]["digest"] == image["digest"]
        for question, document in (("seven days", "returns.md"), ("每盒多少钱", "zh/prices.md")):
            assert await ask_docs(world, world.bolt.admin, question) == [document]
        assert await ask_docs(world, world.bolt.admin, "later") == []
        shown = await world.ask("GET", "/v1/collections/handbook", key=world.bolt.admin)
        assert (shown.body["revision"], shown.body["documents"]) == (2, 2)


async def test_a_collection_of_the_same_name_with_other_documents_is_not_touched() -> None:
    async with open_world() as world:
        data = await saved(world, await collected(world, world.acme.admin), world.acme.admin)
        key = world.bolt.admin
        assert (await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=key)).status == 201
        await world.ask("PUT", "/v1/collections/handbook/documents/own.md", raw=b"Ours.", key=key)
        refused = await world.ask("POST", "/v1/images/load?container=shop", raw=data, key=key)
        assert (refused.status, refused.code) == (409, "conflict")
        assert (await world.ask("GET", "/v1/collections/handbook", key=key)).body["revision"] == 1
        assert (await world.ask("GET", "/v1/resources?scope=own", key=key)).items == []


async def test_a_document_that_was_altered_or_left_out_is_refused() -> None:
    async with open_world() as world:
        data = await saved(world, await collected(world, world.acme.admin), world.acme.admin)
        manifest, resources = read_image_file(data)
        assert resources is not None
        (one,) = manifest.collections
        digest = one.documents[0].digest
        documents = {each.digest: resources.blobs[each.digest] for each in one.documents}
        own = {name: body for name, body in resources.blobs.items() if name not in documents}
        bare = Bundle(resources.root, resources.entries, own)
        for changed in ({**documents, digest: b"altered"}, {name: documents[name] for name in documents if name != digest}):
            file = write_image_file(manifest, bare, changed)
            refused = await world.ask("POST", "/v1/images/load?container=shop", raw=file, key=world.bolt.admin)
            assert refused.status in (400, 422), refused.raw
        assert (await world.ask("GET", "/v1/collections", key=world.bolt.admin)).items == []
