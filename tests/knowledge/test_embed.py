"""Search by vectors with a scripted embedder over real HTTP: what it means is said by its table of words."""

import io
import socket
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
from agentvm.model.account import User
from agentvm.model.ids import DEFAULT_TENANT, UserId
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
    async with web(reply) as served, opened_with(served.url("/v1/")) as vm:
        yield vm, served


@asynccontextmanager
async def opened_with(url: str) -> AsyncIterator[AgentVM]:
    embedder = EmbedderSettings(url=url, model="minilm", api_key=Secret("sk-embed"))
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), tools=ToolSettings(embedder=embedder))
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        yield vm


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


ALICE = UserId("usr_alice")


async def entered(vm: AgentVM) -> list[tuple[UserId | None, int, bool]]:
    """The user, the input tokens and whether they are estimated, of each entry of the ledger."""
    entries = await vm.store.accounts(DEFAULT_TENANT).ledger.list()
    return [(entry.user_id, entry.usage.input_tokens, entry.usage.estimated) for _, entry in entries]


async def test_a_call_that_is_stopped_is_entered_as_an_estimate_of_its_user() -> None:
    is_asked, never = anyio.Event(), anyio.Event()

    async def reply(asked: Asked) -> Replied:
        is_asked.set()
        await never.wait()
        return Replied()

    async with opened(reply) as (vm, _):
        assert vm.knowledge.embedder is not None
        alice = User(user_id=ALICE, tenant_id=DEFAULT_TENANT, external_id="alice", created_at=1, updated_at=1)
        await vm.tenancy.access.add_user(alice)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(vm.knowledge.embedder.embed, DEFAULT_TENANT, ["green tea"], ALICE)
                await is_asked.wait()
                # What a crash would leave: the next start enters it.
                asked = vm.store.accounts(DEFAULT_TENANT).asked
                (call,) = await asked.of_turn("")
                assert (call.user_id, call.driver, call.model, call.input_tokens) == (ALICE, "embedder", "minilm", 4)
                tasks.cancel_scope.cancel()
        assert await entered(vm) == [(ALICE, 4, True)]
        assert await asked.of_turn("") == ()


@pytest.mark.parametrize(
    ("replied", "billed"),
    [
        (Replied(status=429), []),
        (Replied(body=b"no json"), [(None, 4, True)]),
        (Replied(body=msgspec.json.encode({"data": [], "usage": {"prompt_tokens": 3}})), [(None, 3, False)]),
    ],
)
async def test_a_call_that_is_refused_is_free_and_one_that_was_answered_is_not(
    replied: Replied, billed: list[tuple[UserId | None, int, bool]]
) -> None:
    async with opened(lambda asked: replied) as (vm, served):
        assert vm.knowledge.embedder is not None
        with anyio.fail_after(60), pytest.raises(NotAvailable):
            await vm.knowledge.embedder.embed(DEFAULT_TENANT, ["green tea"])
        assert len(served.asked) == 1
        assert await entered(vm) == billed
        assert await vm.store.accounts(DEFAULT_TENANT).asked.of_turn("") == ()


async def test_a_call_to_an_endpoint_that_is_away_is_free() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1/"
        async with opened_with(url) as vm:
            assert vm.knowledge.embedder is not None
            with anyio.fail_after(60), pytest.raises(NotAvailable, match="could not be reached"):
                await vm.knowledge.embedder.embed(DEFAULT_TENANT, ["green tea"])
            assert await entered(vm) == []
            assert await vm.store.accounts(DEFAULT_TENANT).asked.of_turn("") == ()


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
        (Replied(body=msgspec.json.encode({"data": [{"index": n, "embedding": [0.0]} for n in range(3)]})), "invalid vector"),
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
