"""From one tenant, or one server, to another: what is exported and imported is the same, to the byte."""

from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resources.fixtures import World, open_world
from tests.support.examples import examples

from agentvm.errors.resource import ResourceNotFound, ResourceTooLarge
from agentvm.model.resource import parse_uri
from agentvm.resources import bundle as bundle_module
from agentvm.resources.archive import read_archive
from agentvm.resources.bundle import export_bundle, import_bundle
from agentvm.resources.registry import Author
from agentvm.resources.shipped import publish_shipped

AGENT = "resource://agents/seller"
PICTURE = {"data": "AAECAw=="}


async def export(world: World, uri: str, by: Author | None = None, *, deps: bool = True) -> bytes:
    return await export_bundle(world.centre, (by or world.acme).tenant_id, parse_uri(uri), deps=deps)


async def make_seller(world: World) -> None:
    """An agent with one of everything below it, and a diamond."""
    await world.prompt("tone", "Be {{mood}}.", description="How to sound.", tags=("语气",))
    await world.prompt("sales", "Sell.\n{{> resource://prompts/tone@^1}}", version="2.1.0", schema={"type": "string"})
    await world.add("knowledge", "docs", {"documents": [{"id": "a", "file": PICTURE}, {"id": "b", "text": "B."}]})
    await world.add("sandboxes", "box", {"runtime": "python", "files": {"x.bin": PICTURE, "y.txt": "Y"}})
    tool = {
        "description": "resource://prompts/tone",
        "inputSchema": {"type": "object"},
        "runtime": "http",
        "entry": "https://x.test",
    }
    await world.add("tools", "search", {**tool, "sandbox": "resource://sandboxes/box"})
    content = {
        "systemPrompt": "resource://prompts/sales",
        "tools": ["resource://tools/search", "calculator"],
        "knowledge": ["resource://knowledge/docs"],
        "defaults": {"mood": "kind"},
    }
    await world.add("agents", "seller", content, dependencies={"also": "resource://prompts/tone@1.0.0"})


async def test_export_import_export_gives_the_same_bytes_in_another_tenant_and_on_another_server() -> None:
    async with open_world() as world, open_world() as other:
        await make_seller(world)
        archive = await export(world, AGENT)
        for where, author in ((world, world.bolt), (other, other.acme), (other, other.bolt)):
            done = await import_bundle(where.centre, author, archive)
            assert {one.outcome for one in done} == {"created"}
            assert await export(where, AGENT, author) == archive
            theirs = await where.resolve(AGENT, by=author)
            ours = await world.resolve(AGENT)
            assert theirs.rendered == ours.rendered
            assert [(one.uri, one.digest) for one in theirs.lock] == [(one.uri, one.digest) for one in ours.lock]


async def test_an_archive_names_no_owner_of_its_own() -> None:
    async with open_world() as world:
        await make_seller(world)
        found = read_archive(await export(world, AGENT))
        assert found.root == "resource://agents/seller@1.0.0"
        assert [parse_uri(one.uri).owner for one in found.entries] == [None] * 6
        assert {one.name: one.description for one in found.entries if one.description} == {"tone": "How to sound."}
        (seller,) = (one for one in found.entries if one.name == "seller")
        assert {one.alias: one.resolved for one in seller.dependencies} == {
            "also": "resource://prompts/tone@1.0.0",
            "knowledge.0": "resource://knowledge/docs@1.0.0",
            "systemPrompt": "resource://prompts/sales@2.1.0",
            "tools.0": "resource://tools/search@1.0.0",
        }


async def test_what_comes_with_the_server_is_not_copied_unless_it_is_what_was_exported() -> None:
    async with open_world() as world, open_world() as other:
        for where in (world, other):
            await publish_shipped(where.centre)
        await world.add("agents", "mine", {"systemPrompt": "resource://prompts/assistant", "tools": []})
        done = await import_bundle(other.centre, other.acme, await export(world, "resource://agents/mine"))
        assert [one.uri for one in done if one.outcome == "created"] == ["resource://agents/mine@1.0.0"]
        assert "resource://prompts/system/assistant@1.0.0" in [one.uri for one in done if one.outcome == "unchanged"]
        forked = await import_bundle(other.centre, other.acme, await export(world, "resource://prompts/assistant"))
        assert {one.uri: one.outcome for one in forked} == {
            "resource://prompts/plain-speech@1.0.0": "created",
            "resource://prompts/assistant@1.0.0": "created",
        }


async def test_without_what_it_depends_on_it_needs_it_there() -> None:
    async with open_world() as world, open_world() as other:
        await make_seller(world)
        alone = await export(world, "resource://prompts/sales", deps=False)
        assert [one.name for one in read_archive(alone).entries] == ["sales"]
        await import_bundle(other.centre, other.acme, await export(world, "resource://prompts/tone"))
        done = await import_bundle(other.centre, other.acme, alone)
        assert [one.outcome for one in done] == ["created"]


async def test_any_version_is_exported_by_any_name_it_has() -> None:
    async with open_world() as world:
        made = await world.prompt("tone", "One.")
        await world.revise(made.resource.resource_id, "Two.", version="2.0.0")
        for uri, version in (("@^1", "1.0.0"), (f"@{made.version.digest}", "1.0.0"), ("", "2.0.0")):
            assert read_archive(await export(world, f"resource://prompts/tone{uri}")).entries[0].version == version


async def test_what_is_not_in_view_is_not_exported() -> None:
    async with open_world() as world:
        await world.prompt("tone")
        for uri in ("resource://prompts/acme/tone", "resource://prompts/tone"):
            with pytest.raises(ResourceNotFound):
                await export(world, uri, world.bolt)


async def test_what_is_too_large_for_an_archive_is_not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world() as world:
        await make_seller(world)
        monkeypatch.setattr(bundle_module, "UNPACKED_MAX_BYTES", 100)
        with pytest.raises(ResourceTooLarge, match="export without deps"):
            await export(world, AGENT)


graphs = st.lists(st.lists(st.integers(0, 5), max_size=3, unique=True), min_size=1, max_size=7)
"""For each prompt which of those before it it includes, modulo how many there are."""


@given(
    graphs,
    st.lists(st.text(st.characters(exclude_characters="{}\\", codec="utf-8"), max_size=20), min_size=7, max_size=7),
)
@settings(max_examples=examples(10, 250), deadline=None)
def test_any_graph_survives_the_journey(graph: list[list[int]], texts: list[str]) -> None:
    async def travel() -> None:
        async with open_world() as world, open_world() as other:
            for number, targets in enumerate(graph):
                included = sorted({target % number for target in targets}) if number else []
                text = texts[number] + "".join(f"{{{{> resource://prompts/p{target}}}}}" for target in included)
                await world.prompt(f"p{number}", text, version=f"1.{number}.0", tags=("t",) if number % 2 else None)
            root = f"resource://prompts/p{len(graph) - 1}"
            archive = await export(world, root)
            await import_bundle(other.centre, other.bolt, archive)
            assert await export(other, root, other.bolt) == archive
            assert (await other.resolve(root, by=other.bolt)).rendered == (await world.resolve(root)).rendered
            again = await import_bundle(other.centre, other.bolt, archive)
            assert {one.outcome for one in again} == {"unchanged"}

    anyio.run(travel)


async def test_an_archive_is_a_file_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "seller.tar.gz"
    async with open_world() as world:
        await make_seller(world)
        path.write_bytes(await export(world, AGENT))
        done = await import_bundle(world.centre, world.acme, path.read_bytes())
        assert {one.outcome for one in done} == {"unchanged"}
