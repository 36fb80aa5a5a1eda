"""Knowledge of a collection in the file of an image, or in an archive: its documents come along."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from tests.operations.test_image_file import publish, saved
from tests.server.http.fixtures import World, open_world

from agentvm.blueprint.image_file import read_image_file, write_image_file
from agentvm.resources.archive import Bundle, FileCollection, read_archive, write_archive
from agentvm.sessions import saved_collections

DOCS = "/v1/resources/resource%3A%2F%2Fknowledge%2Fdocs"


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
    found = await world.ask("POST", f"{DOCS}/query", {"q": question}, key=key)
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


async def test_an_archive_of_resources_takes_the_documents_along_and_can_be_imported_twice() -> None:
    async with open_world() as world:
        await collected(world, world.acme.admin)
        exported = await world.ask("GET", "/v1/resources/resource%3A%2F%2Fagents%2Fclerk/export", key=world.acme.admin)
        assert exported.status == 200, exported.raw
        again = await world.ask("GET", "/v1/resources/resource%3A%2F%2Fagents%2Fclerk/export", key=world.acme.admin)
        assert again.raw == exported.raw
        tried = await world.ask("POST", "/v1/resources/import?dryRun=true", raw=exported.raw, key=world.bolt.admin)
        assert tried.status == 200, tried.raw
        assert (await world.ask("GET", "/v1/collections", key=world.bolt.admin)).items == []
        for _ in range(2):
            loaded = await world.ask("POST", "/v1/resources/import", raw=exported.raw, key=world.bolt.admin)
            assert loaded.status == 200, loaded.raw
        assert await ask_docs(world, world.bolt.admin, "seven days") == ["returns.md"]
        assert await ask_docs(world, world.bolt.admin, "later") == []


async def test_an_archive_without_documents_is_one_that_older_servers_read() -> None:
    async with open_world() as world:
        await collected(world, world.acme.admin)
        bare = await world.ask("GET", f"{DOCS}/export?documents=false", key=world.acme.admin)
        assert b"returns.md" not in gzip.decompress(bare.raw)
        assert b'"collections"' not in gzip.decompress(bare.raw)
        assert b'"format":1' in gzip.decompress(bare.raw)
        whole = await world.ask("GET", f"{DOCS}/export?deps=false", key=world.acme.admin)
        assert b'"format":2' in gzip.decompress(whole.raw)


async def test_an_archive_that_is_refused_leaves_no_collection_and_touches_none() -> None:
    async with open_world() as world:
        await collected(world, world.acme.admin)
        data = (await world.ask("GET", f"{DOCS}/export", key=world.acme.admin)).raw
        key = world.bolt.admin
        # A version of the same number with other content.
        await publish(world, key, "knowledge", "docs", {"documents": [{"id": "a", "text": "Ours."}]})
        refused = await world.ask("POST", "/v1/resources/import", raw=data, key=key)
        assert refused.status == 409, refused.raw
        assert (await world.ask("GET", "/v1/collections", key=key)).items == []
        bundle = read_archive(data)
        (one,) = bundle.collections
        altered = write_archive(replace(bundle, collections=(structs.replace(one, reference="handbook@1"),)))
        assert (await world.ask("POST", "/v1/resources/import", raw=altered, key=key)).status == 400
        short = {digest: body for digest, body in bundle.blobs.items() if digest != one.documents[0].digest}
        refused = await world.ask("POST", "/v1/resources/import", raw=write_archive(replace(bundle, blobs=short)), key=key)
        assert (refused.status, "is not in it" in str(refused.raw)) == (422, True)
        await world.ask("POST", "/v1/collections", {"name": "handbook"}, key=key)
        refused = await world.ask("POST", "/v1/resources/import?onConflict=newVersion", raw=data, key=key)
        assert (refused.status, refused.code) == (409, "conflict")
        assert (await world.ask("GET", "/v1/collections/handbook", key=key)).body["documents"] == 0


def same_name_twice(one: FileCollection) -> tuple[FileCollection, ...]:
    return one, structs.replace(one, reference="handbook@9")


def with_document(one: FileCollection, **changes: Any) -> tuple[FileCollection, ...]:
    return (structs.replace(one, documents=(structs.replace(one.documents[0], **changes), one.documents[1])),)


HOSTILE: dict[str, Callable[[FileCollection], tuple[FileCollection, ...]]] = {
    "the end of a line in a reference": lambda one: (structs.replace(one, reference="handbook@2\n"),),
    "a path as reference": lambda one: (structs.replace(one, reference="../../etc@2"),),
    "two revisions of one collection": same_name_twice,
    "a name that is no fragment": lambda one: with_document(one, document="a b#c"),
    "a line break in a name": lambda one: with_document(one, document="a\nb"),
    "another size": lambda one: with_document(one, size=1),
    "a size beyond documents": lambda one: with_document(one, size=2**40),
    "bytes that are not there": lambda one: with_document(one, digest="sha256:" + "0" * 64),
    "a control character in a title": lambda one: with_document(one, title="a\x1b[2J"),
    "an endless title": lambda one: with_document(one, title="t" * 1_001),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=list(HOSTILE))
async def test_an_archive_with_hostile_collections_is_refused_and_leaves_nothing(
    change: Callable[[FileCollection], tuple[FileCollection, ...]],
) -> None:
    async with open_world() as world:
        await collected(world, world.acme.admin)
        bundle = read_archive((await world.ask("GET", f"{DOCS}/export", key=world.acme.admin)).raw)
        hostile = write_archive(replace(bundle, collections=change(bundle.collections[0])))
        key = world.bolt.admin
        refused = await world.ask("POST", "/v1/resources/import", raw=hostile, key=key)
        assert (refused.status, refused.code) == (422, "resource_invalid"), refused.raw
        assert (await world.ask("GET", "/v1/collections", key=key)).items == []
        assert (await world.ask("GET", "/v1/resources?scope=own", key=key)).items == []


async def test_altered_bytes_of_a_document_are_refused() -> None:
    async with open_world() as world:
        await collected(world, world.acme.admin)
        tar = gzip.decompress((await world.ask("GET", f"{DOCS}/export", key=world.acme.admin)).raw)
        assert tar.count(b"Within seven days.") == 1
        altered = gzip.compress(tar.replace(b"Within seven days.", b"Within ninety days"))
        refused = await world.ask("POST", "/v1/resources/import", raw=altered, key=world.bolt.admin)
        assert (refused.status, "another digest" in str(refused.raw)) == (422, True)
        assert (await world.ask("GET", "/v1/collections", key=world.bolt.admin)).items == []


@pytest.mark.parametrize("bound", ["UNPACKED_MAX_BYTES", "FILES_MAX"])
async def test_a_collection_beyond_a_file_is_exported_without_documents_alone(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    async with open_world() as world:
        await collected(world, world.acme.admin)
        monkeypatch.setattr(saved_collections, bound, 1)
        refused = await world.ask("GET", f"{DOCS}/export", key=world.acme.admin)
        assert (refused.status, refused.code) == (422, "resource_too_large"), refused.raw
        assert "without documents" in str(refused.raw)
        assert (await world.ask("GET", f"{DOCS}/export?documents=false", key=world.acme.admin)).status == 200


async def test_two_revisions_of_a_collection_do_not_fit_in_one_file() -> None:
    async with open_world() as world:
        key = world.acme.admin
        await collected(world, key)
        await publish(world, key, "knowledge", "old", {"collection": "handbook@1"})
        both = ["resource://knowledge/docs", "resource://knowledge/old"]
        await publish(world, key, "agents", "both", {"systemPrompt": "Help.", "knowledge": both})
        path = "/v1/resources/resource%3A%2F%2Fagents%2Fboth/export"
        refused = await world.ask("GET", path, key=key)
        assert (refused.status, "Two revisions" in str(refused.raw)) == (400, True)
        assert (await world.ask("GET", f"{path}?documents=false", key=key)).status == 200


async def test_an_import_without_room_for_its_documents_takes_no_room() -> None:
    async with open_world() as world:
        await collected(world, world.acme.admin)
        data = (await world.ask("GET", f"{DOCS}/export", key=world.acme.admin)).raw
        limit = "/v1/quotas?tenant=bolt"
        await world.ask("PUT", limit, {"metric": "storage_bytes", "hard": 40})
        refused = await world.ask("POST", "/v1/resources/import", raw=data, key=world.bolt.admin)
        assert refused.status == 429, refused.raw
        assert (await world.ask("GET", "/v1/collections", key=world.bolt.admin)).items == []
        await world.ask("PUT", limit, {"metric": "storage_bytes", "hard": 1_000_000})
        assert (await world.ask("POST", "/v1/resources/import", raw=data, key=world.bolt.admin)).status == 200


async def test_the_file_of_an_image_names_its_collections_in_one_place() -> None:
    async with open_world() as world:
        data = await saved(world, await collected(world, world.acme.admin), world.acme.admin)
        manifest, resources = read_image_file(data)
        assert resources is not None
        twice = write_image_file(manifest, replace(resources, collections=manifest.collections))
        refused = await world.ask("POST", "/v1/images/load?container=shop", raw=twice, key=world.bolt.admin)
        assert (refused.status, "alone" in str(refused.raw)) == (400, True)
