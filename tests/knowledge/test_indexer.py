"""Indexes of collections as they are made and served, with documents that need no jail's work to be told apart."""

import io
from unittest.mock import patch

import anyio
import pytest
from tests.knowledge.test_library import opened

from agentvm.errors import NotFound
from agentvm.knowledge import indexer
from agentvm.knowledge.indexer import CollectionIndexer
from agentvm.knowledge.passages import IndexForm
from agentvm.knowledge.question import pieces_of
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.vm import AgentVM


async def put(vm: AgentVM, document: str, text: str) -> None:
    await vm.store.collections(DEFAULT_TENANT).put("books", io.BytesIO(text.encode()), document, None, None, vm.clock())


def idle(vm: AgentVM) -> CollectionIndexer:
    """One that does nothing: whoever waits for it is served what there is."""
    return CollectionIndexer(vm.store, vm.jobs, vm.clock, vm.new_id)


async def test_an_older_index_serves_until_the_new_one_has_all_documents() -> None:
    async with opened() as vm:
        await vm.store.collections(DEFAULT_TENANT).create("books", 1)
        await put(vm, "a.txt", "green tea")
        with anyio.fail_after(60):
            old = await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", IndexForm(chunker=0), 1)
            served = await idle(vm).serve(DEFAULT_TENANT, "books", IndexForm(), 1)
            assert served == old
            while await vm.store.collection_indexes(DEFAULT_TENANT).forms("books") != ((old.index_key + 1, str(IndexForm())),):
                await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", IndexForm(), 1)
                await anyio.lowlevel.checkpoint()
            new = await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", IndexForm(), 1)
            assert len(await vm.store.knowledge(DEFAULT_TENANT).search(new, pieces_of("tea"), 3)) == 1


async def test_what_a_process_has_not_read_when_it_ended_is_read_by_the_next() -> None:
    async with opened() as vm:
        await vm.store.collections(DEFAULT_TENANT).create("books", 1)
        await put(vm, "a.txt", "green tea")
        await idle(vm).refresh(DEFAULT_TENANT, "books")
        assert await vm.knowledge.indexer.states(DEFAULT_TENANT, "books", 1) == {}
        await vm.knowledge.indexer.resume()
        with anyio.fail_after(60):
            while not await vm.knowledge.indexer.states(DEFAULT_TENANT, "books", 1):
                await anyio.lowlevel.checkpoint()
            await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", IndexForm(), 1)
        assert await vm.store.list_unfinished_indexes(0, 10) == ()


async def test_a_search_says_what_is_not_read_yet_and_what_cannot_be() -> None:
    async with opened() as vm:
        await vm.store.collections(DEFAULT_TENANT).create("books", 1)
        with pytest.raises(NotFound, match="Collection not found: none"):
            await vm.knowledge.indexer.serve(DEFAULT_TENANT, "none", IndexForm(), 1)
        await put(vm, "a.txt", "green tea")
        await put(vm, "b.exe", "MZ")
        with patch.object(indexer, "SETTLE_SECONDS", 0):
            early = await idle(vm).serve(DEFAULT_TENANT, "books", IndexForm(), 2)
        assert [one.problem for one in early.problems] == ["2 of its 2 documents are still being read; search again later"]
        with anyio.fail_after(60):
            whole = await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", IndexForm(), 2)
        assert [one.document for one in whole.problems] == ["b.exe"]
        states = await vm.knowledge.indexer.states(DEFAULT_TENANT, "books", 2)
        assert (states["a.txt"].chunks, states["b.exe"].chunks) == (1, 0)


async def test_a_collection_with_too_many_passages_says_so_of_the_documents_beyond() -> None:
    async with opened() as vm:
        await vm.store.collections(DEFAULT_TENANT).create("books", 1)
        await put(vm, "a.txt", "green tea. " * 30)
        await put(vm, "b.txt", "coffee. " * 30)
        form = IndexForm(size=60, overlap=0)
        with anyio.fail_after(60), patch.object(indexer, "CHUNKS_MAX", 8):
            whole = await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", form, 2)
        assert [(one.document, "passages" in one.problem) for one in whole.problems] == [("b.txt", True)]


async def test_no_more_indexes_of_a_collection_are_kept_than_forms_max() -> None:
    async with opened() as vm:
        await vm.store.collections(DEFAULT_TENANT).create("books", 1)
        await put(vm, "a.txt", "green tea")
        with anyio.fail_after(60), patch.object(indexer, "FORMS_MAX", 1):
            first = await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", IndexForm(size=100), 1)
            await vm.knowledge.indexer.refresh(DEFAULT_TENANT, "books")
            # The older one serves; the new one is made meanwhile.
            assert await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", IndexForm(size=200), 1) == first
            while len(await vm.store.collection_indexes(DEFAULT_TENANT).forms("books")) > 1:
                await anyio.lowlevel.checkpoint()


async def test_a_document_that_breaks_its_reader_fails_alone() -> None:
    async with opened() as vm:
        await vm.store.collections(DEFAULT_TENANT).create("books", 1)
        await put(vm, "a.json", '{"a": "\\ud800 tea"}')
        await put(vm, "b.txt", "green tea")
        with anyio.fail_after(60):
            whole = await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", IndexForm(), 2)
        assert whole.problems == ()
        await put(vm, "c.txt", "coffee")
        with anyio.fail_after(60), patch.object(indexer, "cut", side_effect=RuntimeError("a bug")):
            whole = await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", IndexForm(), 3)
        assert [(one.document, one.problem) for one in whole.problems] == [("c.txt", "reading it failed unexpectedly")]
