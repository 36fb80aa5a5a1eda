from base64 import b64encode
from pathlib import Path

import anyio
import pytest
from tests.resources.fixtures import ACME, open_world

from agentvm.errors import AccessDenied, AgentVMError, InvalidInput, PermissionDenied, PreconditionFailed
from agentvm.errors.resource import (
    ResourceCycle,
    ResourceExists,
    ResourceInUse,
    ResourceInvalid,
    ResourceNotFound,
    ResourceTooLarge,
    ResourceVersionExists,
    ResourceVisibilityConflict,
)
from agentvm.model.resource import CONTENT_MAX_BYTES, digest_of
from agentvm.resources.registry import Author, NewVersion, VersionChange
from agentvm.storage.resources import Changes

READER = Author(tenant_id=ACME, actor="rita", may_publish=False)


async def test_the_first_version_is_1_0_0_and_the_next_is_a_patch() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "1")
        assert (made.version.version, made.created, made.version.created_by) == ("1.0.0", True, "ann")
        one = made.resource.resource_id
        assert (await world.revise(one, "2")).version.version == "1.0.1"
        assert (await world.revise(one, "3", bump="minor")).version.version == "1.1.0"
        assert (await world.revise(one, "4", bump="major")).version.version == "2.0.0"
        assert (await world.revise(one, "5", version="3.0.0-rc.1")).resource.latest == "2.0.0"
        assert (await world.revise(one, "6", bump="major")).version.version == "3.0.0"


async def test_a_name_is_registered_once() -> None:
    async with open_world() as world:
        await world.prompt("hello", "1")
        with pytest.raises(ResourceExists):
            await world.prompt("hello", "2", version="2.0.0")
        assert not (await world.prompt("hello", "1")).created


@pytest.mark.parametrize(
    "draft",
    [
        NewVersion(type="prompts", name="Hello", content={"text": ""}),
        NewVersion(type="prompts", name="a..b", content={"text": "x"}),
        NewVersion(type="prompts", name="../evil", content={"text": "x"}),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, version="1"),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, version="v1.0.0"),
        NewVersion(type="prompts", name="hello", content={"txt": "x"}),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, pointer="latest"),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, pointer="1.0.0"),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, tags=("",)),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, tags=("x",) * 33),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, description="x" * 2_001),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, schema={"type": "nonsense"}),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, dependencies={"": "resource://prompts/a"}),
        NewVersion(type="prompts", name="hello", content={"text": "x"}, dependencies={"a": "prompts/a"}),
    ],
    ids=str,
)
async def test_what_does_not_fit_is_refused_and_leaves_nothing(draft: NewVersion) -> None:
    async with open_world() as world:
        with pytest.raises(InvalidInput):
            await world.centre.registry.register(world.acme, draft)
        assert await world.view().count() == 0


async def test_what_is_too_large_is_refused() -> None:
    async with open_world() as world:
        with pytest.raises(ResourceTooLarge):
            await world.add("knowledge", "hello", {"documents": [{"id": "a", "text": "x" * CONTENT_MAX_BYTES}]})


async def test_a_reference_must_be_there_and_visible() -> None:
    async with open_world() as world:
        await world.prompt("secret", by=world.bolt)
        for uri in ("resource://prompts/absent", "resource://prompts/bolt/secret"):
            with pytest.raises(ResourceNotFound, match=uri):
                await world.prompt("hello", f"{{{{> {uri}}}}}")
        assert await world.view().count() == 0


async def test_a_resource_that_would_depend_on_itself_is_refused_with_the_way_round() -> None:
    async with open_world() as world:
        with pytest.raises(ResourceCycle):
            await world.prompt("a", "{{> resource://prompts/a}}")
        a = await world.prompt("a", "start")
        with pytest.raises(ResourceCycle):
            await world.revise(a.resource.resource_id, "{{> resource://prompts/acme/a@1.0.0}}")
        await world.prompt("b", "{{> resource://prompts/a}}")
        await world.prompt("c", "{{> resource://prompts/b@^1}}")
        with pytest.raises(ResourceCycle) as caught:
            await world.revise(a.resource.resource_id, "{{> resource://prompts/c}}")
        names = [uri.rpartition("/")[2] for uri in caught.value.details["path"]]  # type: ignore[attr-defined]
        assert names == ["a", "c", "b", "a"]


async def test_an_exact_reference_closes_no_circle() -> None:
    async with open_world() as world:
        a = await world.prompt("a", "start")
        await world.prompt("b", "{{> resource://prompts/a@1.0.0}}")
        done = await world.revise(a.resource.resource_id, "again {{> resource://prompts/b@1.0.0}}")
        assert done.version.version == "1.0.1"
        assert (await world.resolve("resource://prompts/a")).rendered == "again start"


async def test_a_circle_that_a_later_version_has_opened_is_none() -> None:
    async with open_world() as world:
        a = await world.prompt("a", "start")
        b = await world.prompt("b", "{{> resource://prompts/a}}")
        await world.revise(b.resource.resource_id, "alone")
        await world.revise(a.resource.resource_id, "{{> resource://prompts/b}}")
        assert (await world.resolve("resource://prompts/a")).rendered == "alone"


async def test_two_that_close_a_circle_at_once_have_one_winner(tmp_path: Path) -> None:
    async with open_world(tmp_path / "a.db") as world:
        a, b = await world.prompt("a", "start"), await world.prompt("b", "start")
        failed: list[AgentVMError] = []

        async def revise(published: object, text: str) -> None:
            try:
                await world.revise(published, text)  # type: ignore[arg-type]
            except ResourceCycle as error:
                failed.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(revise, a.resource.resource_id, "{{> resource://prompts/b}}")
            tasks.start_soon(revise, b.resource.resource_id, "{{> resource://prompts/a}}")
        assert len(failed) == 1


async def test_what_is_public_depends_only_on_what_is_public() -> None:
    async with open_world() as world:
        part = await world.prompt("part")
        with pytest.raises(ResourceVisibilityConflict, match="part"):
            await world.prompt("whole", "{{> resource://prompts/part}}", visibility="public")
        whole = await world.prompt("whole", "{{> resource://prompts/part}}")
        with pytest.raises(ResourceVisibilityConflict):
            await world.centre.registry.change(world.acme, whole.resource.resource_id, Changes(visibility="public"))
        await world.centre.registry.change(world.acme, part.resource.resource_id, Changes(visibility="public"))
        changed = await world.centre.registry.change(world.acme, whole.resource.resource_id, Changes(visibility="public"))
        assert changed.visibility == "public"


async def test_to_make_something_public_needs_the_permission() -> None:
    async with open_world() as world:
        with pytest.raises(PermissionDenied):
            await world.prompt("hello", by=READER, visibility="public")
        made = await world.prompt("hello", by=READER)
        with pytest.raises(PermissionDenied):
            await world.centre.registry.change(READER, made.resource.resource_id, Changes(visibility="public"))


async def test_what_belongs_to_others_can_be_read_but_not_changed() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", visibility="public")
        registry, one = world.centre.registry, made.resource.resource_id
        with pytest.raises(AccessDenied, match="belongs to acme"):
            await world.revise(one, "Mine now.", by=world.bolt)
        with pytest.raises(AccessDenied):
            await registry.change(world.bolt, one, Changes(description="Mine now."))
        with pytest.raises(AccessDenied):
            await registry.point(world.bolt, one, "stable", "1.0.0")
        with pytest.raises(AccessDenied):
            await registry.yank(world.bolt, one, "1.0.0", yanked=True)
        with pytest.raises(AccessDenied):
            await registry.delete(world.bolt, one, force=True)


async def test_what_is_hidden_from_others_is_not_there_for_them() -> None:
    async with open_world() as world:
        made = await world.prompt("hello")
        with pytest.raises(ResourceNotFound):
            await world.revise(made.resource.resource_id, "Mine now.", by=world.bolt)


async def test_a_revision_takes_the_rest_from_the_latest() -> None:
    async with open_world() as world:
        await world.prompt("part")
        first = await world.prompt(
            "hello", "Hello {{name}}", schema={"type": "object"}, dependencies={"tone": "resource://prompts/part"}
        )
        done = await world.centre.registry.revise(
            world.acme, first.resource.resource_id, VersionChange(schema={"type": "object", "properties": {}}, bump="minor")
        )
        assert done.version.version == "1.1.0"
        assert done.version.dependencies == {"tone": "resource://prompts/part"}
        found = await world.resolve("resource://prompts/hello", args={"name": "Ada"})
        assert found.rendered == "Hello Ada"


async def test_a_revision_may_do_without_the_schema_there_was() -> None:
    async with open_world() as world:
        first = await world.prompt("hello", schema={"type": "object"})
        kept = await world.revise(first.resource.resource_id, "Two.")
        dropped = await world.revise(first.resource.resource_id, "Three.", schema=None)
        assert (kept.version.schema, dropped.version.schema) == ({"type": "object"}, None)


async def test_who_has_not_seen_the_latest_does_not_overwrite_it() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "1")
        one, seen = made.resource.resource_id, made.version.digest
        await world.revise(one, "2", expected=seen)
        with pytest.raises(PreconditionFailed):
            await world.revise(one, "3", expected=seen)
        assert (await world.resolve("resource://prompts/hello")).rendered == "2"


async def test_two_writers_of_one_version_have_one_winner(tmp_path: Path) -> None:
    async with open_world(tmp_path / "a.db") as world:
        made = await world.prompt("hello", "1")
        outcomes: list[str] = []

        async def write(number: int) -> None:
            try:
                await world.revise(made.resource.resource_id, f"by {number}", version="2.0.0")
                outcomes.append(f"by {number}")
            except ResourceVersionExists:
                outcomes.append("refused")

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(write, number)
        (won,) = [outcome for outcome in outcomes if outcome != "refused"]
        assert (await world.resolve("resource://prompts/hello@2.0.0")).rendered == won


async def test_writers_who_choose_no_version_all_get_one_of_their_own(tmp_path: Path) -> None:
    async with open_world(tmp_path / "a.db") as world:
        made = await world.prompt("hello", "1")

        async def write(number: int) -> None:
            await world.revise(made.resource.resource_id, f"by {number}")

        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(write, number)
        history = await world.view().history(made.resource.resource_id)
        assert [one.version for one in history.versions] == ["1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4"]


async def test_what_is_in_use_is_not_deleted_unless_by_force() -> None:
    async with open_world() as world:
        part = await world.prompt("part", "kept")
        await world.prompt("whole", "Uses {{> resource://prompts/part}}.")
        registry, one = world.centre.registry, part.resource.resource_id
        with pytest.raises(ResourceInUse) as caught:
            await registry.delete(world.acme, one, force=False)
        assert "whole" in str(caught.value.details["referrers"])
        await registry.delete(world.acme, one, force=True)
        assert (await world.resolve("resource://prompts/whole")).rendered == "Uses kept."
        with pytest.raises(ResourceNotFound):
            await world.resolve("resource://prompts/part")
        assert (await world.resolve(f"resource://prompts/part@{part.version.digest}")).rendered == "kept"
        with pytest.raises(AgentVMError):
            await world.prompt("part", "another")


async def test_what_nobody_uses_goes_and_its_name_is_free() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "1")
        await world.centre.registry.delete(world.acme, made.resource.resource_id, force=False)
        with pytest.raises(ResourceNotFound):
            await world.resolve("resource://prompts/hello")
        assert (await world.prompt("hello", "2")).version.version == "1.0.0"


async def test_a_part_that_is_kept_has_the_size_it_has() -> None:
    async with open_world() as world:
        await world.add("knowledge", "a", {"documents": [{"id": "a", "file": {"data": "c2VjcmV0"}}]})
        for size in (0, 5, 7, 2**60):
            wrong = {"documents": [{"id": "b", "file": {"blob": digest_of(b"secret"), "size": size}}]}
            with pytest.raises(ResourceInvalid, match=rf"documents\.0\.file\.size is {size}, but the part has 6 bytes"):
                await world.add("knowledge", "b", wrong)


async def test_parts_that_are_kept_count_as_those_that_are_sent() -> None:
    async with open_world() as world:
        parts = [bytes([number]) * (CONTENT_MAX_BYTES // 2) for number in range(2)]
        for number, part in enumerate(parts):
            await world.add("knowledge", f"k{number}", {"documents": [{"id": "a", "file": {"data": b64encode(part).decode()}}]})
        kept = [{"id": str(i), "file": {"blob": digest_of(part), "size": len(part)}} for i, part in enumerate(parts)]
        with pytest.raises(ResourceTooLarge):
            await world.add("knowledge", "both", {"documents": kept})


async def test_a_blob_is_named_only_by_who_can_see_it() -> None:
    async with open_world() as world:
        document = {"id": "a", "file": {"data": "c2VjcmV0"}}
        made = await world.add("knowledge", "docs", {"documents": [document]})
        kept = (await world.resolve("resource://knowledge/docs")).content
        assert isinstance(kept, dict)
        blob = kept["documents"][0]["file"]["blob"]
        named = {"documents": [{"id": "b", "file": {"blob": blob, "size": 6}}]}
        with pytest.raises(ResourceInvalid, match="not there"):
            await world.add("knowledge", "stolen", named, by=world.bolt)
        again = await world.add("knowledge", "more", named)
        assert await world.view().blob(again.version.version_id, blob) == b"secret"
        assert await world.view(world.bolt).blob(made.version.version_id, blob) is None


async def test_a_name_is_found_by_id_and_by_uri() -> None:
    async with open_world() as world:
        made = await world.prompt("hello")
        registry = world.centre.registry
        for named in (made.resource.resource_id, "resource://prompts/hello", "resource://prompt/ACME/Hello@1.0.0"):
            assert (await registry.find(ACME, named)).resource_id == made.resource.resource_id
        for absent in ("res_nope", "resource://prompts/nope"):
            with pytest.raises(ResourceNotFound):
                await registry.find(ACME, absent)
