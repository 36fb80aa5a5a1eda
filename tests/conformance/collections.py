"""Collection conformance — revisions, deletion that beats them, and indexes that grow, on every engine."""

import io
from array import array
from dataclasses import replace
from unittest.mock import patch

import pytest

from agentvm.errors import Conflict, InvalidInput, NotFound, StoreFailed
from agentvm.storage.attachments import CHUNK_BYTES
from agentvm.storage.sql import collections
from agentvm.storage.sql.knowledge import CANDIDATES_MAX, SLICE_CHUNKS_MAX
from agentvm.storage.sql.store import Store
from tests.conformance.knowledge import chunk, pieces
from tests.conformance.store import ACME, RIVAL

FORM = "1/800/100/"


async def put(store: Store, document: str, body: bytes, now: int = 5) -> tuple[int, bool]:
    made, is_new = await store.collections(ACME).put("books", io.BytesIO(body), document, None, "text/plain", now)
    return made.added_in, is_new


async def names(store: Store, revision: int) -> list[str]:
    found = await store.collections(ACME).documents("books", revision)
    return [one.document + ("!" if one.deleted_at else "") for one in found]


async def indexed(store: Store, index_key: int, **texts: str) -> None:
    """Reads all documents that are pending; each has these texts as its passages."""
    indexes = store.collection_indexes(ACME)
    while (claimed := await indexes.claim(index_key, 9)) is not None:
        text = texts[claimed.document.document]
        await indexes.finish(index_key, claimed.document_key, [chunk(text, claimed.document.document)], None, 10)


async def check_every_change_of_a_collection_is_a_revision(store: Store) -> None:
    books = store.collections(ACME)
    made = await books.create("books", 1)
    assert (made.revision, made.oldest) == (0, 0)
    with pytest.raises(Conflict):
        await books.create("books", 2)
    assert await put(store, "a", b"one") == (1, True)
    assert await put(store, "a", b"one") == (1, False), "the same file makes no revision"
    assert await put(store, "b", b"two" * CHUNK_BYTES) == (2, True)
    assert await put(store, "a", b"three") == (3, True)
    assert [await names(store, revision) for revision in range(4)] == [[], ["a"], ["a", "b"], ["a", "b"]]
    assert await books.usage("books") == (3 + 3 * CHUNK_BYTES + 5, 2, 3)
    assert [one.collection_id for one in await books.list()] == ["books"]
    assert await store.collections(RIVAL).list() == ()
    assert await store.collections(RIVAL).documents("books", 3) == ()
    with pytest.raises(NotFound):
        await store.collections(RIVAL).put("books", io.BytesIO(b"x"), "c", None, None, 5)
    with pytest.raises(InvalidInput, match="empty"):
        await put(store, "c", b"")


async def check_documents_of_another_server_are_the_revision_that_they_were_there(store: Store) -> None:
    books = store.collections(ACME)
    await books.create("books", 1)
    await put(store, "a", b"one")
    await put(store, "b", b"two" * CHUNK_BYTES)
    assert await books.settle("books", 7)
    found = await books.get("books")
    assert found is not None
    assert (found.revision, found.oldest) == (7, 7)
    assert [await names(store, revision) for revision in (2, 7)] == [[], ["a", "b"]]
    assert await books.read_named("books", 7, "b") == b"two" * CHUNK_BYTES
    assert (await books.read_named("books", 2, "b"), await store.collections(RIVAL).read_named("books", 7, "b")) == (None, None)
    assert not await store.collections(RIVAL).settle("books", 9)
    with pytest.raises(Conflict):
        await books.settle("books", 3)


async def check_a_deleted_document_leaves_every_revision_but_for_its_name(store: Store) -> None:
    books, indexes = store.collections(ACME), store.collection_indexes(ACME)
    await books.create("books", 1)
    await put(store, "a", b"green tea")
    await put(store, "a", b"green tea, the second")
    await put(store, "b", b"coffee")
    index_key = await indexes.ensure("books", FORM)
    assert index_key is not None
    await indexed(store, index_key, a="green tea", b="coffee")
    before = await store.accounts(ACME).quotas.storage_bytes()
    assert await books.delete_document("books", "a", 7) == 9 + 21
    assert await store.accounts(ACME).quotas.storage_bytes() <= before - 30
    assert [await names(store, revision) for revision in (1, 3, 4)] == [["a!"], ["a!", "b"], ["b"]]
    whole = await indexes.whole(index_key, 3)
    assert [(one.document, "deleted" in one.problem) for one in whole.problems] == [("a", True)]
    assert await store.knowledge(ACME).search(whole, pieces("tea"), 5) == []
    assert len(await store.knowledge(ACME).search(whole, pieces("coffee"), 5)) == 1
    assert await books.delete_document("books", "a", 8) is None
    assert await put(store, "a", b"anew") == (5, True)


async def check_a_search_sees_its_revision_alone(store: Store) -> None:
    books, indexes = store.collections(ACME), store.collection_indexes(ACME)
    await books.create("books", 1)
    await put(store, "a", b"old")
    index_key = await indexes.ensure("books", FORM)
    assert index_key is not None
    assert await store.collection_indexes(RIVAL).ensure("books", FORM) is None
    await indexed(store, index_key, a="green tea")
    await put(store, "a", b"new")
    assert await indexes.progress(index_key, 1) == (1, 0)
    assert await indexes.progress(index_key, 2) == (1, 1)
    claimed = await indexes.claim(index_key, 9)
    assert claimed is not None
    many = [chunk(f"tea {number}", "a", start=number) for number in range(2 * SLICE_CHUNKS_MAX)]
    # Another tenant writes nothing into it, although it knows the numbers.
    await store.collection_indexes(RIVAL).finish(index_key, claimed.document_key, many, "bad", 10)
    assert await indexes.progress(index_key, 2) == (1, 1)
    assert (await indexes.count(index_key), await store.collection_indexes(RIVAL).count(index_key)) == (1, 0)
    await indexes.finish(index_key, claimed.document_key, many, None, 10)
    knowledge = store.knowledge(ACME)
    old, new = await indexes.whole(index_key, 1), await indexes.whole(index_key, 2)
    assert [passage.text for _, passage in await knowledge.search(old, pieces("green", "tea"), 3)] == ["green tea"]
    assert len(await knowledge.search(new, pieces("tea"), 3)) == 3
    opened = [await knowledge.open(index, "a", 0, 5) for index in (old, new)]
    assert [passage and (passage.text, passage.title) for passage in opened] == [("green", "T"), ("tea 0", "T")]
    assert await indexes.count(index_key) == 1 + len(many)
    assert await books.forget("books", 2, 11) == 3
    assert await knowledge.search(old, pieces("green"), 3) == []
    found = await books.get("books")
    assert found is not None
    assert found.oldest == 2


async def check_many_revisions_of_one_document_hide_no_other(store: Store) -> None:
    """More passages of earlier revisions fit a question than are looked at first."""
    books, indexes = store.collections(ACME), store.collection_indexes(ACME)
    await books.create("books", 1)
    index_key = await indexes.ensure("books", FORM)
    assert index_key is not None
    vector = array("f", (1.0, 0.0)).tobytes()
    await put(store, "daily", b"first")
    claimed = await indexes.claim(index_key, 9)
    assert claimed is not None
    early = [replace(chunk("tea today", "daily", start=number), vector=vector) for number in range(3 * CANDIDATES_MAX)]
    await indexes.finish(index_key, claimed.document_key, early, None, 10)
    await put(store, "daily", b"second")
    claimed = await indexes.claim(index_key, 9)
    assert claimed is not None
    await indexes.finish(index_key, claimed.document_key, [replace(chunk("tea now", "daily"), vector=vector)], None, 10)
    knowledge, new = store.knowledge(ACME), await indexes.whole(index_key, 2)
    assert [passage.text for _, passage in await knowledge.search(new, pieces("tea"), 1)] == ["tea now"]
    assert [passage.text for _, passage in await knowledge.nearest(new, vector, 5)] == ["tea now"]


async def check_a_collection_is_deleted_with_all_it_has(store: Store) -> None:
    books, indexes = store.collections(ACME), store.collection_indexes(ACME)
    await books.create("books", 1)
    for number in range(5):
        await put(store, f"d{number}", b"text %d" % number)
    index_key = await indexes.ensure("books", FORM)
    assert index_key is not None
    await indexed(store, index_key, **{f"d{number}": "green tea" for number in range(5)})
    with patch.object(collections, "TIDIED_MAX", 2):
        assert await books.delete("books", 9)
    assert not await books.delete("books", 9)
    assert await books.list() == ()
    assert await store.knowledge(ACME).search(await indexes.whole(index_key, 5), pieces("tea"), 5) == []
    await books.create("books", 2)
    assert await put(store, "a", b"one") == (1, True)


async def check_a_document_that_is_deleted_while_it_is_read_leaves_no_passage(store: Store) -> None:
    books, indexes = store.collections(ACME), store.collection_indexes(ACME)
    await books.create("books", 1)
    await put(store, "a", b"green tea")
    index_key = await indexes.ensure("books", FORM)
    assert index_key is not None
    claimed = await indexes.claim(index_key, 9)
    assert claimed is not None
    await books.delete_document("books", "a", 10)
    await indexes.finish(index_key, claimed.document_key, [chunk("green tea")], None, 11)
    assert await store.knowledge(ACME).search(await indexes.whole(index_key, 1), pieces("tea"), 5) == []
    assert await indexes.claim(index_key, 12) is None


async def check_a_collection_has_bounds(store: Store) -> None:
    await store.collections(ACME).create("books", 1)
    with patch.object(collections, "COLLECTION_MAX_BYTES", 10), patch.object(collections, "DOCUMENTS_MAX", 2):
        await put(store, "a", b"123456")
        with pytest.raises(InvalidInput, match="forget older revisions"):
            await put(store, "a", b"7890123")
        await put(store, "b", b"1")
        with pytest.raises(InvalidInput, match="2 documents"):
            await put(store, "c", b"1")


async def check_an_upload_that_was_given_up_meanwhile_is_refused(store: Store) -> None:
    await store.collections(ACME).create("books", 1)
    lost = patch.object(collections, "complete_blob", lambda connection, blob_key, digest: None)
    with lost, pytest.raises(StoreFailed, match="send it again"):
        await put(store, "a", b"one")
    assert await put(store, "a", b"one") == (1, True)
