"""Vectors from weights on this machine, by the real process; any model can embed, also one that was made to chat."""

from array import array
from pathlib import Path

import pytest
from tests.drivers.test_local import installed
from tests.drivers.weight_files import gguf
from tests.knowledge.test_embed import DOCUMENTS
from tests.knowledge.test_library import SHOP, publish

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.gguf import has_pooling
from agentvm.drivers.model_catalog import DEFAULT_MODEL
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import NotAvailable
from agentvm.knowledge import local_embeddings
from agentvm.knowledge.local_embeddings import local_name, open_local_embeddings
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.tool_settings import EmbedderSettings, ToolSettings


@installed
async def test_a_knowledge_base_is_searched_by_vectors_of_a_model_on_this_machine() -> None:
    settings = ToolSettings(embedder=EmbedderSettings(model=f"local/{DEFAULT_MODEL}"))
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), tools=settings)
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        await publish(vm, {"documents": DOCUMENTS, "retrieval": {"mode": "vectors"}})
        found = await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "Green tea is brewed at 80 degrees.", 1)
        assert [passage.document for passage in found.passages] == ["tea"]
        entries = [entry for _, entry in await vm.store.accounts(DEFAULT_TENANT).ledger.list()]
        assert {(entry.driver, entry.model, entry.price) for entry in entries} == {("local", DEFAULT_MODEL, 0)}
        assert all(entry.usage.input_tokens > 0 for entry in entries)


@installed
async def test_a_text_that_is_longer_than_the_window_is_embedded_by_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_embeddings, "WINDOW_MAX_TOKENS", 512)
    async with open_local_embeddings(DEFAULT_MODEL, None) as embeddings:
        reply = await embeddings.ask(["word " * 600, "短文"])
    lengths = {len(array("f", one.embedding)) for one in reply.data}
    assert (len(reply.data), len(lengths)) == (2, 1)


async def test_without_weights_it_says_how_to_get_them(tmp_path: Path) -> None:
    async with open_local_embeddings("bge-m3", tmp_path) as embeddings:
        with pytest.raises(NotAvailable, match="avm model pull"):
            await embeddings.ask(["hello"])


async def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_bytes(b"<html>")
    async with open_local_embeddings(str(tmp_path / "page.gguf"), tmp_path) as embeddings:
        with pytest.raises(NotAvailable, match="local/page is not a GGUF file"):
            await embeddings.ask(["hello"])


def test_a_model_is_named_without_its_folder() -> None:
    assert local_name("local//opt/models/bge-m3.gguf") == local_name("bge-m3") == "local/bge-m3"


def test_a_file_without_pooling_was_not_made_to_embed(tmp_path: Path) -> None:
    (tmp_path / "chat.gguf").write_bytes(gguf("{{ messages }}"))
    assert not has_pooling(tmp_path / "chat.gguf")
    assert not has_pooling(tmp_path / "nowhere.gguf")
