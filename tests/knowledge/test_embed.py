"""Search by vectors with a scripted embedder over real HTTP: what it means is said by its table of words."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import anyio
import msgspec
import pytest
from tests.knowledge.test_library import SHOP, publish
from tests.support.web import Asked, Replied, Reply, Web, web

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import NotAvailable
from agentvm.knowledge import indexer
from agentvm.knowledge.embed import pack
from agentvm.knowledge.passages import IndexForm
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.secret import Secret
from agentvm.model.tool_settings import EmbedderSettings, ToolSettings
from agentvm.vm import AgentVM

MEANINGS = {"car": 0, "automobile": 0, "vehicle": 0, "tea": 1, "茶": 1, "drink": 1, "refund": 2, "退货": 2}
DIMENSIONS = 16


def vector_of(text: str) -> list[float]:
    return [
        0.01 + sum(text.lower().count(word) for word, meaning in MEANINGS.items() if meaning == place)
        for place in range(DIMENSIONS)
    ]


def embeddings(asked: Asked) -> Replied:
    wanted = msgspec.json.decode(asked.body)
    data = [{"index": place, "embedding": vector_of(text)} for place, text in enumerate(wanted["input"])]
    reply = {"data": data[::-1], "usage": {"prompt_tokens": 7 * len(data)}}
    return Replied(body=msgspec.json.encode(reply), headers={"content-type": "application/json"})


@asynccontextmanager
async def opened(reply: Reply = embeddings) -> AsyncIterator[tuple[AgentVM, Web]]:
    async with web(reply) as served:
        embedder = EmbedderSettings(url=served.url("/v1/"), model="minilm", api_key=Secret("sk-embed"))
        config = ServerConfig(system=SystemSettings(data_dir=MEMORY), tools=ToolSettings(embedder=embedder))
        async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
            yield vm, served


DOCUMENTS = [
    {"id": "car", "text": "The automobile is parked behind the house."},
    {"id": "tea", "text": "Green tea is brewed at 80 degrees."},
    {"id": "back", "text": "七天之内可以退货。"},
]


async def test_meaning_is_found_without_a_word_in_common_and_every_call_is_in_the_ledger() -> None:
    async with opened() as (vm, served):
        await publish(vm, {"documents": DOCUMENTS, "retrieval": {"mode": "vectors"}})
        with anyio.fail_after(60):
            found = await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "Where is my vehicle?", 1)
        assert [one.document for one in found.passages] == ["car"]
        assert [asked.target for asked in served.asked] == ["/v1/embeddings", "/v1/embeddings"]
        assert served.asked[0].headers["authorization"] == "Bearer sk-embed"
        entries = await vm.store.accounts(DEFAULT_TENANT).ledger.list()
        used = [(one.driver, one.model, one.usage.input_tokens) for _, one in entries if one.driver == "embedder"]
        assert sorted(used) == [("embedder", "minilm", 7), ("embedder", "minilm", 21)]
        with anyio.fail_after(60):
            await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "tea", 1)
        assert len(served.asked) == 3, "the index is kept"


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": -1_000}, {"prompt_tokens": 10**30}])
async def test_tokens_that_cannot_be_believed_are_estimated(usage: dict[str, int] | None) -> None:
    def reply(asked: Asked) -> Replied:
        return Replied(body=msgspec.json.encode({**msgspec.json.decode(embeddings(asked).body), "usage": usage}))

    async with opened(lambda asked: reply(asked)) as (vm, _):
        assert vm.knowledge.embedder is not None
        with anyio.fail_after(60):
            await vm.knowledge.embedder.embed(DEFAULT_TENANT, ["green tea"])
        ((_, entry),) = await vm.store.accounts(DEFAULT_TENANT).ledger.list()
        assert entry.usage.estimated
        assert 0 < entry.usage.input_tokens < 100


async def test_documents_beyond_the_bound_of_a_collection_are_not_embedded() -> None:
    async with opened() as (vm, served):
        books = vm.store.collections(DEFAULT_TENANT)
        await books.create("books", 1)
        await books.put("books", io.BytesIO(b"The automobile is parked."), "car.txt", None, None, vm.clock())
        form = IndexForm(embedder="minilm")
        with anyio.fail_after(60), patch.object(indexer, "CHUNKS_MAX", 0):
            whole = await vm.knowledge.indexer.serve(DEFAULT_TENANT, "books", form, 1)
        assert [one.document for one in whole.problems] == ["car.txt"]
        assert served.asked == []


async def test_both_rankings_are_fused() -> None:
    async with opened() as (vm, _):
        await publish(vm, {"documents": DOCUMENTS, "retrieval": {"mode": "both"}})
        with anyio.fail_after(60):
            for question, first in (("Can I have a refund?", "back"), ("80 degrees", "tea"), ("退货", "back")):
                found = await vm.knowledge.search(DEFAULT_TENANT, [SHOP], question, 3)
                assert found.passages[0].document == first, question


async def test_words_ask_no_embedder() -> None:
    async with opened() as (vm, served):
        await publish(vm, {"documents": DOCUMENTS})
        with anyio.fail_after(60):
            assert (await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "vehicle")).passages == ()
        assert served.asked == []


async def test_a_collection_is_searched_by_vectors() -> None:
    async with opened() as (vm, _):
        books = vm.store.collections(DEFAULT_TENANT)
        await books.create("books", 1)
        await books.put("books", io.BytesIO(b"The automobile is parked."), "car.txt", None, None, vm.clock())
        await publish(vm, {"collection": "books@1", "retrieval": {"mode": "vectors"}})
        with anyio.fail_after(60):
            found = await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "vehicle")
        assert [one.cite for one in found.passages] == [f"{SHOP}#car.txt:0-25"]
        await books.delete_document("books", "car.txt", 2)
        with anyio.fail_after(60):
            assert (await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "vehicle")).passages == ()


@pytest.mark.parametrize(
    ("replied", "said"),
    [
        (Replied(status=500), "status 500"),
        (Replied(body=b"no json"), "form of OpenAI"),
        (Replied(body=b'{"data": []}'), "0 vectors for 3 texts"),
        (Replied(body=msgspec.json.encode({"data": [{"index": n, "embedding": [0.0]} for n in range(3)]})), "is none"),
        (Replied(body=msgspec.json.encode({"data": [{"index": 0, "embedding": [1.0]} for _ in range(3)]})), "not one for each"),
    ],
)
async def test_an_embedder_that_fails_is_named_and_leaves_no_half_index(replied: Replied, said: str) -> None:
    async with opened(lambda asked: replied) as (vm, _):
        await publish(vm, {"documents": DOCUMENTS, "retrieval": {"mode": "both"}})
        with anyio.fail_after(60), pytest.raises(NotAvailable, match=said):
            await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "vehicle")


def test_a_vector_has_the_length_of_one() -> None:
    assert pack([3.0, 4.0]) == pack([6.0, 8.0]) == pack([3e154, 4e154])
    for wrong in ([], [0.0, 0.0], [float("nan")], [float("inf")], [1.0] * 8_193):
        with pytest.raises(NotAvailable):
            pack(wrong)
