"""The twelve defects that other registries had, each by its number: they must not come back here.

1 two owners' names clash; 2 two types' names clash; 3 latest is what was put last; 4 a version is overwritten; 5 a digest is no
reference; 6 deleting the latest leaves a latest that is gone; 7 publishing loses description and tags; 8 a search does not look
at them; 9 the total is that of the page; 10 a path leads out of the archive; 11 an archive grows without bound; 12 a link is
followed. The last three are in test_archive.py as well, with their relatives.
"""

import io
import tarfile

import pytest
from tests.resources.fixtures import World, open_world

from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge, ResourceVersionExists
from agentvm.resources.bundle import import_bundle
from agentvm.storage.resources import Search


async def test_1_two_owners_have_the_same_name() -> None:
    async with open_world() as world:
        await world.prompt("hello", "Of Acme.", visibility="public")
        await world.prompt("hello", "Of Bolt.", by=world.bolt, visibility="public")
        assert (await world.resolve("resource://prompts/hello")).rendered == "Of Acme."
        assert (await world.resolve("resource://prompts/hello", by=world.bolt)).rendered == "Of Bolt."
        assert (await world.resolve("resource://prompts/bolt/hello")).rendered == "Of Bolt."
        assert (await world.resolve("resource://prompts/acme/hello", by=world.bolt)).rendered == "Of Acme."


async def test_2_a_prompt_and_a_tool_have_the_same_name() -> None:
    async with open_world() as world:
        await world.prompt("hello")
        spec = {"description": "Greets.", "inputSchema": {"type": "object"}, "runtime": "builtin", "entry": "hello"}
        await world.add("tools", "hello", spec)
        assert (await world.resolve("resource://prompts/hello")).type == "prompts"
        assert (await world.resolve("resource://tools/hello")).type == "tools"


async def test_3_the_latest_is_the_highest_and_not_the_last() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "One.", version="1.0.0")
        await world.revise(made.resource.resource_id, "Two.", version="2.0.0")
        await world.revise(made.resource.resource_id, "One, mended.", version="1.0.1")
        assert (await world.resolve("resource://prompts/hello@latest")).manifest.version == "2.0.0"
        assert (await world.resolve("resource://prompts/hello@^1")).manifest.version == "1.0.1"


async def test_4_a_version_is_never_overwritten() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "One.", version="1.0.0")
        with pytest.raises(ResourceVersionExists):
            await world.revise(made.resource.resource_id, "Other.", version="1.0.0")
        again = await world.prompt("hello", "One.", version="1.0.0")
        assert not again.created
        assert (await world.resolve("resource://prompts/hello")).rendered == "One."


async def test_5_a_digest_is_a_reference() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "One.")
        await world.revise(made.resource.resource_id, "Two.")
        found = await world.resolve(f"resource://prompts/hello@{made.version.digest}")
        assert found.rendered == "One."
        assert found.resolved == "resource://prompts/hello@1.0.0"


async def test_6_withdrawing_the_latest_leaves_a_latest() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "One.", version="1.0.0")
        await world.revise(made.resource.resource_id, "Two.", version="2.0.0")
        await world.centre.registry.yank(world.acme, made.resource.resource_id, "2.0.0", yanked=True)
        assert (await world.resolve("resource://prompts/hello")).rendered == "One."
        assert (await world.resolve("resource://prompts/hello@2.0.0")).rendered == "Two."


async def test_7_a_new_version_keeps_description_and_tags() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", description="Greets people", tags=("greeting", "问候"))
        done = await world.revise(made.resource.resource_id, "Two.")
        assert done.resource.description == "Greets people"
        assert done.resource.tags == ("greeting", "问候")


@pytest.mark.parametrize("text", ["people", "greeting", "问候", "打招呼", "hello", "GREETS"])
async def test_8_a_search_looks_at_description_tags_name_and_text(text: str) -> None:
    async with open_world() as world:
        await world.prompt("hello", "向用户打招呼。", description="Greets people", tags=("greeting", "问候"))
        await world.prompt("other", "Nothing of the kind.")
        found = await world.view().search(Search(text=text))
        assert [hit.resource.name for hit in found.items] == ["hello"]


async def test_9_the_total_is_that_of_all_pages() -> None:
    async with open_world() as world:
        for number in range(7):
            await world.prompt(f"hello-{number}")
        first = await world.view().search(Search(scope="own", limit=3))
        second = await world.view().search(Search(scope="own", limit=3, after=first.next))
        assert (first.total, second.total) == (7, 7)
        names = [hit.resource.name for hit in (*first.items, *second.items)]
        assert names == [f"hello-{number}" for number in range(6)]


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for member, body in members:
            member.size = len(body) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(body) if member.isreg() else None)
    return out.getvalue()


def link() -> tarfile.TarInfo:
    member = tarfile.TarInfo("bundle.json")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return member


async def nothing_is_left(world: World, data: bytes) -> None:
    with pytest.raises((ResourceInvalid, ResourceTooLarge)):
        await import_bundle(world.centre, world.acme, data, on_conflict="fail", dry_run=False)
    assert await world.view().count() == 0


async def test_10_a_path_out_of_the_archive_is_refused() -> None:
    async with open_world() as world:
        await nothing_is_left(world, archive((tarfile.TarInfo("../../evil"), b"x")))


async def test_11_an_archive_that_grows_without_bound_is_refused() -> None:
    async with open_world() as world:
        await nothing_is_left(world, archive((tarfile.TarInfo("bundle.json"), b"\0" * 300_000_000)))


async def test_12_a_link_is_refused() -> None:
    async with open_world() as world:
        await nothing_is_left(world, archive((link(), b"")))
