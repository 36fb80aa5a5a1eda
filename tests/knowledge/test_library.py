"""Knowledge bases from their publication to a citation, with real jails."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

import anyio
import pytest
from tests.knowledge.documents import chinese_pdf, docx, pdf, zipped

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import InvalidInput, NotAvailable, NotFound
from agentvm.errors.resource import ResourceNotFound
from agentvm.knowledge.parse import parse
from agentvm.model.account import Tenant
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.model.tier import JobOwner
from agentvm.resources.registry import Author, NewVersion
from agentvm.vm import AgentVM

SHOP = "resource://knowledge/shop@1.0.0"
TEXT = "# Tea\n\nGreen tea is brewed at 80 degrees.\n\n# 退货\n\n七天之内可以退货，超过七天不能退货。"


def file(data: bytes) -> dict[str, object]:
    return {"data": base64.b64encode(data).decode()}


@asynccontextmanager
async def opened() -> AsyncIterator[AgentVM]:
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY))
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        yield vm


async def publish(vm: AgentVM, content: dict[str, object], name: str = "shop", tenant: str = DEFAULT_TENANT) -> None:
    author = Author(tenant_id=TenantId(tenant), actor="ann", may_publish=True)
    draft = NewVersion(type="knowledge", name=name, content=content, visibility="public")
    await vm.resources.registry.register(author, draft)


async def test_a_question_in_either_language_finds_its_passage_and_the_citation_opens_it() -> None:
    async with opened() as vm:
        await publish(vm, {"documents": [{"id": "a.md", "title": "House rules", "text": TEXT}]})
        with anyio.fail_after(60):
            for question, text in (
                ("How hot is GREEN tea?", "80 degrees"),
                ("退吗", "七天之内"),
                ("ｔｅａ", "Green"),
                ("brewing", "80"),
            ):
                found = await vm.knowledge.search(DEFAULT_TENANT, [SHOP], question)
                first = found.passages[0]
                assert text in first.text
                assert TEXT[first.start : first.end] == first.text
                again = await vm.knowledge.open(DEFAULT_TENANT, first.cite)
                assert (again.text, again.title) == (first.text, "House rules")
            assert (await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "zebra")).passages == ()
            part = await vm.knowledge.open(DEFAULT_TENANT, f"{SHOP}#a.md:7-12")
            assert part.text == "Green"
            for cite, error in ((f"{SHOP}#a.md:0-9999", NotFound), (f"{SHOP}#a.md:9-9", NotFound), ("a.md", InvalidInput)):
                with pytest.raises(error):
                    await vm.knowledge.open(DEFAULT_TENANT, cite)


async def test_files_are_read_in_a_jail_and_those_that_cannot_be_are_named() -> None:
    documents = [
        {"id": "a.docx", "file": file(docx(("Heading1", "Warranty"), ("", "Two years of warranty")))},
        {"id": "bomb.docx", "file": file(zipped(**{"word__document.xml": b"0" * 150_000_000}))},
        {"id": "b.xlsx", "file": file(b"PK\x03\x04 broken")},
        {"id": "c.exe", "file": file(b"MZ")},
    ]
    async with opened() as vm:
        await publish(vm, {"documents": documents})
        with anyio.fail_after(60):
            found = await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "warranty")
        assert [one.cite for one in found.passages] == [f"{SHOP}#a.docx:0-33"]
        problems = {one.document: one.problem for one in found.problems}
        assert "unpacks to more than 100 MiB" in problems["bomb.docx"]
        assert "damaged" in problems["b.xlsx"]
        assert "docx" in problems["c.exe"], "what can be read is listed"


async def test_a_long_text_in_chinese_is_read_whole() -> None:
    data = ("七天之内可以退货。\n" * 100_000).encode() + "茶叶保存一年。".encode()
    async with opened() as vm:
        with anyio.fail_after(60):
            parsed = await parse(vm.jobs, JobOwner(tenant_id=DEFAULT_TENANT), "job_1", "a.txt", None, data)
    assert parsed.pages[0].text.encode() == data


@pytest.mark.skipif(find_spec("pypdfium2") is None, reason="the extra documents is not installed")
async def test_pages_of_a_pdf_are_numbered_in_citations() -> None:
    whole, chinese = pdf("Returns within seven days"), chinese_pdf("七天之内可以退货。")
    damaged = {"b.pdf": b"%PDF-1.4", "c.pdf": whole[: len(whole) // 2], "d.pdf": whole.replace(b"[3 0 R]", b"[2 0 R]")}
    files = {"a.pdf": whole, "zh.pdf": chinese, **damaged}
    async with opened() as vm:
        await publish(vm, {"documents": [{"id": name, "file": file(data)} for name, data in files.items()]})
        with anyio.fail_after(60):
            found = await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "returns")
            assert [one.cite for one in found.passages] == [f"{SHOP}#a.pdf:p1:0-25"]
            assert await vm.knowledge.open(DEFAULT_TENANT, found.passages[0].cite) == found.passages[0]
            with pytest.raises(NotFound, match="does not begin on page 2"):
                await vm.knowledge.open(DEFAULT_TENANT, f"{SHOP}#a.pdf:p2:0-25")
            assert {one.document for one in found.problems} == damaged.keys()
            assert {one.problem for one in found.problems} == {"it is not a PDF, or it is damaged", "its page 1 is damaged"}
            found = await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "几天可以退货？")
        assert [one.text for one in found.passages] == ["七天之内可以退货。"]


async def test_the_knowledge_base_says_how_it_is_cut_and_how_much_is_found() -> None:
    text = "".join(f"Tea number {number} is fine. " for number in range(100))
    content: dict[str, object] = {
        "documents": [{"id": "a", "text": text}],
        "chunking": {"size": 60, "overlap": 0},
        "retrieval": {"k": 3},
    }
    async with opened() as vm:
        await publish(vm, content)
        with anyio.fail_after(60):
            found = await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "tea")
            assert len(found.passages) == 3
            assert all(len(one.text) <= 60 for one in found.passages)
            assert len((await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "tea", 5)).passages) == 5
            # A citation may lead over passages, as one from before the texts were cut in another way does.
            for start, end in ((4, 700), (58, 62), (0, len(text.rstrip()))):
                assert (await vm.knowledge.open(DEFAULT_TENANT, f"{SHOP}#a:{start}-{end}")).text.split() == text[
                    start:end
                ].split()
            with pytest.raises(InvalidInput, match="100,000"):
                await vm.knowledge.open(DEFAULT_TENANT, f"{SHOP}#a:0-100001")
            await publish(vm, {"documents": [{"id": "a", "text": "x"}], "retrieval": {"mode": "embedding"}}, "vectors")
            with pytest.raises(NotAvailable, match="this server has none: the operator sets"):
                await vm.knowledge.search(DEFAULT_TENANT, ["resource://knowledge/vectors@1.0.0"], "x")


async def test_several_bases_are_searched_in_turn_and_those_of_strangers_taint() -> None:
    async with opened() as vm:
        other = TenantId("ten_other")
        await vm.store.directory.add_tenant(Tenant(tenant_id=other, slug="other", name="Other", created_at=1, updated_at=1))
        await publish(vm, {"documents": [{"id": "a", "text": "green tea, green tea"}]})
        await publish(vm, {"documents": [{"id": "b", "text": "tea of others"}]}, "theirs", other)
        both = [SHOP, "resource://knowledge/other/theirs@1.0.0"]
        with anyio.fail_after(60):
            found = await vm.knowledge.search(DEFAULT_TENANT, both, "tea")
            assert [one.document for one in found.passages] == ["a", "b"]
            assert found.tainted
            assert not (await vm.knowledge.search(DEFAULT_TENANT, [SHOP], "tea")).tainted
            # One that cannot be searched is named, and does not take the others with it.
            await publish(vm, {"collection": "gone@1"}, "gone")
            gone = "resource://knowledge/gone@1.0.0"
            found = await vm.knowledge.search(DEFAULT_TENANT, [gone, SHOP], "tea")
            assert [one.document for one in found.passages] == ["a"]
            assert [(one.document, "no collection gone@1" in one.problem) for one in found.problems] == [(gone, True)]
            with pytest.raises(NotFound, match="gone@1"):
                await vm.knowledge.search(DEFAULT_TENANT, [gone], "tea")
            with pytest.raises(ResourceNotFound):
                await vm.knowledge.search(DEFAULT_TENANT, ["resource://knowledge/none@1.0.0"], "tea")
