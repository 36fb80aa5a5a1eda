import threading

import anyio
import anyio.lowlevel
import pytest
from tests.resources.fixtures import World, open_world

from agentvm.errors import InvalidInput
from agentvm.errors.resource import (
    PromptUnresolved,
    ResourceLockMismatch,
    ResourceNotFound,
    ResourceTooDeep,
    ResourceTooLarge,
    ResourceUriInvalid,
)
from agentvm.model.resource import NODES_MAX
from agentvm.resources import resolver
from agentvm.resources.registry import NewVersion
from agentvm.resources.resolver import ARGS_MAX, CACHE_MS, INLINE_MAX_BYTES, WARNED_ARGS_MAX, Pinned
from agentvm.storage.resources import Changes


async def test_what_ships_is_shadowed_by_an_own_name_and_reached_by_its_owner() -> None:
    async with open_world() as world:
        own = await world.prompt("assistant", "Mine.")
        found = await world.resolve("resource://prompts/acme/assistant")
        assert found.rendered == "Mine."
        assert found.uri == "resource://prompts/assistant"
        assert found.digest == own.version.digest


@pytest.mark.parametrize(
    "uri",
    [
        "resource://prompts/secret",
        "resource://prompts/acme/secret",
        "resource://prompts/nobody/secret",
        "resource://prompts/acme/absent",
        "resource://prompts/acme/secret@1.0.0",
        "resource://tools/acme/secret",
    ],
)
async def test_what_is_not_yours_looks_like_what_is_not_there(uri: str) -> None:
    async with open_world() as world:
        made = await world.prompt("secret")
        for asked in (uri, f"{uri.partition('@')[0]}@{made.version.digest}"):
            with pytest.raises(ResourceNotFound) as caught:
                await world.resolve(asked, by=world.bolt)
            assert str(caught.value) == f"Resource not found: {asked}"


async def test_a_text_that_is_no_uri_is_refused() -> None:
    async with open_world() as world:
        with pytest.raises(ResourceUriInvalid):
            await world.resolve("http://example.com")


async def test_a_tag_a_range_and_a_version_lead_to_their_versions() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "1.0.0", version="1.0.0")
        one = made.resource.resource_id
        await world.revise(one, "1.1.0", bump="minor")
        await world.revise(one, "2.0.0", bump="major", pointer="stable")
        await world.revise(one, "2.1.0-beta.1", version="2.1.0-beta.1", pointer="beta")
        wanted = {
            "": "2.0.0",
            "@latest": "2.0.0",
            "@stable": "2.0.0",
            "@beta": "2.1.0-beta.1",
            "@1": "1.1.0",
            "@1.0": "1.0.0",
            "@~1.0.0": "1.0.0",
            "@>=1.0.0 <2.0.0": "1.1.0",
            "@2.1.0-beta.1": "2.1.0-beta.1",
            "@^2.1.0-beta.0": "2.1.0-beta.1",
        }
        for selector, version in wanted.items():
            assert (await world.resolve(f"resource://prompts/hello{selector}")).rendered == version
        for absent in ("@3", "@^2.1.0", "@nightly", "@1.2.3"):
            with pytest.raises(ResourceNotFound):
                await world.resolve(f"resource://prompts/hello{absent}")


async def test_a_version_keeps_what_it_was_locked_to() -> None:
    async with open_world() as world:
        part = await world.prompt("part", "old part")
        await world.prompt("whole", "Uses {{> resource://prompts/part}}.")
        await world.revise(part.resource.resource_id, "new part")
        found = await world.resolve("resource://prompts/whole")
        assert found.rendered == "Uses old part."
        assert [entry.uri for entry in found.lock] == ["resource://prompts/whole@1.0.0", "resource://prompts/part@1.0.0"]
        assert [(one.uri, one.resolved) for one in found.dependencies] == [
            ("resource://prompts/part", "resource://prompts/part@1.0.0")
        ]


async def test_dependencies_come_before_what_depends_on_them_and_each_once() -> None:
    async with open_world() as world:
        await world.prompt("a")
        await world.prompt("b", "{{> resource://prompts/a}}")
        await world.prompt("c", "{{> resource://prompts/a}} {{> resource://prompts/b}}")
        await world.prompt("d", "{{> resource://prompts/c}} {{> resource://prompts/b}} {{> resource://prompts/a}}")
        found = await world.resolve("resource://prompts/d", expand="closure")
        assert [one.resolved.removeprefix("resource://prompts/") for one in found.dependencies] == [
            "a@1.0.0",
            "b@1.0.0",
            "c@1.0.0",
        ]
        assert found.dependencies[0].content == {"text": "Hello."}


async def test_two_versions_of_one_resource_are_allowed_and_told() -> None:
    async with open_world() as world:
        part = await world.prompt("part", "1")
        await world.revise(part.resource.resource_id, "2", bump="major")
        await world.prompt("whole", "{{> resource://prompts/part@1}} {{> resource://prompts/part@2}}")
        found = await world.resolve("resource://prompts/whole")
        assert found.rendered == "1 2"
        assert [one.code for one in found.warnings] == ["duplicate"]


async def test_a_tag_leads_to_no_version_that_was_withdrawn() -> None:
    async with open_world() as world:
        one = (await world.prompt("greeting", pointer="stable")).resource.resource_id
        await world.centre.registry.yank(world.acme, one, "1.0.0", yanked=True)
        with pytest.raises(ResourceNotFound):
            await world.resolve("resource://prompts/greeting@stable")
        await world.centre.registry.yank(world.acme, one, "1.0.0", yanked=False)
        assert (await world.resolve("resource://prompts/greeting@stable")).rendered == "Hello."


async def test_what_is_deprecated_or_withdrawn_resolves_with_a_warning() -> None:
    async with open_world() as world:
        made = await world.prompt("hello")
        one = made.resource.resource_id
        await world.centre.registry.change(world.acme, one, Changes(deprecated="Use goodbye."))
        await world.centre.registry.yank(world.acme, one, "1.0.0", yanked=True)
        found = await world.resolve("resource://prompts/hello@1.0.0")
        assert [warned.code for warned in found.warnings] == ["deprecated", "yanked"]
        assert found.warnings[0].message == "Use goodbye."
        with pytest.raises(ResourceNotFound):
            await world.resolve("resource://prompts/hello")


async def test_a_lock_holds_or_says_what_moved() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "1")
        lock = [Pinned(uri=entry.uri, digest=entry.digest) for entry in (await world.resolve("resource://prompts/hello")).lock]
        assert (await world.resolve("resource://prompts/hello", lock=lock)).rendered == "1"
        await world.revise(made.resource.resource_id, "2")
        with pytest.raises(ResourceLockMismatch) as caught:
            await world.resolve("resource://prompts/hello", lock=lock)
        assert caught.value.details == {"changed": ["resource://prompts/hello@1.0.0", "resource://prompts/hello@1.0.1"]}
        assert (await world.resolve("resource://prompts/hello@1.0.0", lock=lock)).rendered == "1"


async def test_without_expanding_nothing_is_rendered() -> None:
    async with open_world() as world:
        await world.prompt("hello", "Hello {{name}}!")
        found = await world.resolve("resource://prompts/hello", expand="none")
        assert (found.content, found.rendered) == (None, None)
        with pytest.raises(PromptUnresolved) as caught:
            await world.resolve("resource://prompts/hello")
        assert caught.value.details == {"unresolved": ["name"]}
        assert (await world.resolve("resource://prompts/hello", args={"name": "Ada"})).rendered == "Hello Ada!"


async def test_what_a_public_resource_was_locked_to_stays_readable_when_it_is_hidden() -> None:
    async with open_world() as world:
        part = await world.prompt("part", "shared part", visibility="public")
        await world.prompt("whole", "Uses {{> resource://prompts/part}}.", visibility="public")
        await world.centre.registry.change(world.acme, part.resource.resource_id, Changes(visibility="private"))
        assert (await world.resolve("resource://prompts/acme/whole", by=world.bolt)).rendered == "Uses shared part."
        with pytest.raises(ResourceNotFound):
            await world.resolve("resource://prompts/acme/part", by=world.bolt)


async def test_a_change_is_seen_at_once_and_another_process_s_within_seconds() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "1")
        assert (await world.resolve("resource://prompts/hello")).rendered == "1"
        await world.revise(made.resource.resource_id, "2")
        assert (await world.resolve("resource://prompts/hello")).rendered == "2"
        # As another process would: past the registry of this one.
        await world.view().yank(made.resource.resource_id, "1.0.1", world.clock.now, world.clock.now)
        assert (await world.resolve("resource://prompts/hello")).rendered == "2"
        world.clock.now += CACHE_MS
        assert (await world.resolve("resource://prompts/hello")).rendered == "1"


async def chain(world: World, length: int) -> None:
    await world.prompt("n0", "end")
    for number in range(1, length):
        await world.prompt(f"n{number}", f"{{{{> resource://prompts/n{number - 1}}}}}")


async def test_sixteen_levels_are_followed_and_more_refused_when_published() -> None:
    async with open_world() as world:
        await chain(world, 17)
        assert (await world.resolve("resource://prompts/n16")).rendered == "end"
        with pytest.raises(ResourceTooDeep):
            await world.prompt("n17", "{{> resource://prompts/n16}}")
        with pytest.raises(ResourceNotFound):
            await world.resolve("resource://prompts/n17")


async def test_more_than_256_versions_are_refused_when_published() -> None:
    async with open_world() as world:
        for number in range(NODES_MAX):
            await world.prompt(f"n{number}")
        half = NODES_MAX // 2
        for name, numbers in (("left", range(half)), ("right", range(half, NODES_MAX))):
            await world.prompt(name, "".join(f"{{{{> resource://prompts/n{number}}}}}" for number in numbers))
        with pytest.raises(ResourceTooDeep):
            await world.prompt("both", "{{> resource://prompts/left}}{{> resource://prompts/right}}")


async def test_contents_are_bounded_also_together() -> None:
    async with open_world() as world:
        large = {"documents": [{"id": "a", "text": "x" * (4_000_000)}]}
        for number in range(9):
            await world.add("knowledge", f"k{number}", large)
        uris = [f"resource://knowledge/k{number}" for number in range(9)]
        await world.add("agents", "eight", {"knowledge": uris[:8]})
        with pytest.raises(ResourceTooLarge, match="with all that it refers to"):
            await world.add("agents", "nine", {"knowledge": uris})


async def test_others_have_their_turn_while_a_large_content_is_published_and_resolved() -> None:
    async with open_world() as world, anyio.create_task_group() as tasks:
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        tasks.start_soon(take_turns)
        documents = [{"id": f"d{number}", "text": "x"} for number in range(5_000)]
        await world.centre.registry.prepare(
            world.acme, NewVersion(type="knowledge", name="k", content={"documents": documents})
        )
        assert turns > 2
        await world.add("knowledge", "k", {"documents": documents})
        await world.resolve("resource://knowledge/k")
        before = turns
        await world.resolve("resource://knowledge/k")
        assert turns > before
        tasks.cancel_scope.cancel()


async def test_who_sees_a_resource_is_told_what_there_is_of_it() -> None:
    async with open_world() as world:
        await world.prompt("hello", "# Greeting\nHi.\n# Parting\nBye.")
        cases = {
            "resource://prompts/hello@9": "it has the version 1.0.0",
            "resource://prompts/hello@nosuch": "it has the version 1.0.0",
            "resource://prompts/hello#nosuch": "it has the sections greeting, parting",
        }
        for uri, there in cases.items():
            with pytest.raises(ResourceNotFound) as caught:
                await world.resolve(uri)
            assert str(caught.value).endswith(f"; {there}")


async def test_an_argument_that_is_probably_misspelt_is_a_warning() -> None:
    async with open_world() as world:
        declared = {"type": "object", "properties": {"targetLanguage": {"default": "English"}}}
        content = {"text": "Into {{targetLanguage}}, {{tone}}.", "variables": declared}
        await world.centre.registry.register(world.acme, NewVersion(type="prompts", name="into", content=content))
        found = await world.resolve("resource://prompts/into", args={"targetLanguge": "Latin", "tone": "kindly"})
        assert [(one.code, one.message) for one in found.warnings] == [
            ("argument", "There is no variable targetLanguge; did you mean targetLanguage?")
        ]
        await world.prompt("open", "Hello {{name}}.")
        assert not (await world.resolve("resource://prompts/open", args={"name": "Ada", "nmae": "Ada"})).warnings


async def declare(world: World, *names: str) -> str:
    declared = {"type": "object", "properties": {name: {"default": "x"} for name in names}}
    content = {"text": " ".join(f"{{{{{name}}}}}" for name in names), "variables": declared}
    await world.centre.registry.register(world.acme, NewVersion(type="prompts", name="declared", content=content))
    return "resource://prompts/declared"


async def test_of_many_unknown_arguments_some_are_compared_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[str]()

    def suggest(name: str, known: object) -> str:
        compared.append(name)
        return "did you mean another?"

    monkeypatch.setattr(resolver, "suggest", suggest)
    async with open_world() as world:
        uri = await declare(world, *(f"name{number}" for number in range(100)))
        found = await world.resolve(uri, args={f"nmae{number}": "x" for number in range(ARGS_MAX)})
    assert len(compared) == WARNED_ARGS_MAX
    assert len(found.warnings) == WARNED_ARGS_MAX + 1
    assert f"{ARGS_MAX - WARNED_ARGS_MAX} more" in found.warnings[-1].message


async def test_more_arguments_than_any_prompt_needs_are_refused() -> None:
    async with open_world() as world:
        uri = await declare(world, "name")
        with pytest.raises(InvalidInput, match=f"at most {ARGS_MAX} args, not {ARGS_MAX + 1}"):
            await world.resolve(uri, args={f"a{number}": "x" for number in range(ARGS_MAX + 1)})


@pytest.mark.parametrize(
    ("value", "on_the_loop"), [("x", True), ("x" * INLINE_MAX_BYTES, False), ([[0]] * INLINE_MAX_BYTES, False)]
)
async def test_large_arguments_are_rendered_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, value: object, on_the_loop: bool
) -> None:
    threads = list[int]()
    render = resolver.Resolver.render

    def noted(*given: object) -> object:
        threads.append(threading.get_ident())
        return render(*given)  # type: ignore[arg-type]  # Passed on as they are.

    monkeypatch.setattr(resolver.Resolver, "render", noted)
    async with open_world() as world:
        await world.prompt("open", "Hello.")
        await world.resolve("resource://prompts/open", args={"name": value})
    assert [thread == threading.get_ident() for thread in threads] == [on_the_loop]
