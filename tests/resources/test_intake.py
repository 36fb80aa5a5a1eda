"""What becomes of what an archive holds: all of it is taken in, as it says, or nothing is."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resources.archives import Raw, blob, bundle, entry, hexed, pack
from tests.resources.fixtures import open_world
from tests.resources.test_archive import UNREADABLE
from tests.support.examples import examples

from agentvm.errors import AgentVMError, InvalidInput, PermissionDenied
from agentvm.errors.resource import (
    ResourceCycle,
    ResourceInvalid,
    ResourceTooDeep,
    ResourceUriInvalid,
    ResourceVersionExists,
    ResourceVisibilityConflict,
)  # fmt: skip
from agentvm.model.resource import canonical, digest_of
from agentvm.resources.bundle import import_bundle
from agentvm.resources.intake import ImportedEntry, OnConflict

SECRET = b"a private picture"
EVERY: tuple[OnConflict, ...] = ("fail", "skip", "newVersion")


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything in the database."""
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        names = [str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(database.execute(f'SELECT * FROM "{name}"'), key=repr) for name in names}
    finally:
        database.close()


def including(name: str, *targets: Raw, version: str = "1.0.0") -> tuple[Raw, bytes]:
    uris = {f"resource://prompts/{one['name']}": one for one in targets}
    text = " ".join(f"{{{{> {uri}}}}}" for uri in uris)
    return entry(name, {"text": f"{name}: {text}"}, version=version, needs=uris)


def cycle() -> bytes:
    """Digests do not say what a version is locked to, so such an archive can be written."""
    placeholder, _ = entry("b")
    first, one = including("a", placeholder)
    second, two = including("b", first)
    first["dependencies"][0] |= {"digest": second["digest"], "resolved": second["uri"]}
    return bundle((first, one), (second, two))


def itself() -> bytes:
    placeholder, _ = entry("a")
    first, one = including("a", placeholder)
    first["dependencies"][0]["resolved"] = first["uri"]
    return bundle((first, one))


def chain(length: int) -> bytes:
    made = [including("p0")]
    for index in range(1, length):
        made.append(including(f"p{index}", made[-1][0]))
    return bundle(*made)


def document(part: object, **more: Any) -> tuple[Raw, bytes]:
    return entry("docs", {"documents": [{"id": "picture", "file": part}]}, kind="knowledge", **more)


def renamed(**members: object) -> bytes:
    raw, body = entry()
    return bundle(({**raw, **members}, body))


def lying(**members: object) -> bytes:
    """A dependency that says something else of what it is locked to."""
    target = entry("tone", {"text": "Friendly."})
    raw, body = including("sales", target[0])
    raw["dependencies"][0] |= members
    return bundle(target, (raw, body))


def without_lock() -> bytes:
    """A content that includes a prompt, of which the entry says nothing."""
    return bundle(entry("sales", {"text": "{{> resource://prompts/tone}}"}))


UNACCEPTABLE: dict[str, tuple[Callable[[], bytes], type[AgentVMError], str]] = {
    "cycle": (cycle, ResourceCycle, "Circular dependency: resource://prompts/"),
    "itself": (itself, ResourceCycle, "Circular dependency"),
    "too deep": (lambda: chain(18), ResourceTooDeep, "16 levels"),
    "content of another type": (lambda: bundle(entry("x", {"documents": []})), ResourceInvalid, "does not fit"),
    "unknown member of the content": (lambda: bundle(entry("x", {"text": "", "virus": 1})), ResourceInvalid, "does not fit"),
    "schema that is none": (lambda: bundle(entry("x", schema={"type": 5})), ResourceInvalid, "schema"),
    "name": (lambda: renamed(name="other"), AgentVMError, "another type, name or version"),
    "version": (lambda: renamed(version="2.0.0"), AgentVMError, "another type, name or version"),
    "version that is none": (
        lambda: renamed(uri="resource://prompts/sales@stable", version="stable"), AgentVMError, "is not a valid version",
    ),
    "URI": (lambda: renamed(uri="resource://prompts/../sales@1.0.0"), ResourceUriInvalid, "'..' is not a valid owner"),
    "URI without a version": (lambda: renamed(uri="resource://prompts/sales"), AgentVMError, "another type, name or version"),
    "part of another": (
        lambda: bundle(document({"blob": digest_of(SECRET), "size": len(SECRET)})),
        ResourceInvalid, "binary parts of resource://knowledge/docs@1.0.0 are not those",
    ),
    "part that is not used": (lambda: bundle(document({"blob": digest_of(b"x"), "size": 1}, blobs=[digest_of(b"y")]),
                              extra=[(blob(b"y"), b"y")]), ResourceInvalid, "binary parts"),
    "part with another size": (
        lambda: bundle(document({"blob": digest_of(b"x"), "size": 5}, blobs=[digest_of(b"x")]), extra=[(blob(b"x"), b"x")]),
        ResourceInvalid, "digest is not its own",
    ),
    "part as data": (lambda: bundle(document({"data": "eA=="})), ResourceInvalid, "binary parts"),
    "dependency elsewhere": (
        lambda: bundle(including("sales", entry("tone")[0])), ResourceInvalid, "neither in the archive nor here",
    ),
    "dependency with another digest": (lambda: lying(digest=digest_of(b"")), ResourceInvalid, "with another digest"),
    "dependency of another type": (
        lambda: lying(resolved="resource://tools/tone@1.0.0"), ResourceInvalid, "which has another name",
    ),
    "dependency that is no URI": (lambda: lying(resolved="tone"), ResourceUriInvalid, "is not a valid resource URI"),
    "reference without a lock": (without_lock, ResourceInvalid, "has no lock for includes.0"),
    "content that is not canonical": (
        lambda: bundle(entry("x", {"text": "", "format": "mustache-lite"})), ResourceInvalid, "written unlike its type",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*UNACCEPTABLE, *UNREADABLE])
async def test_what_is_refused_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_world(path) as world:
        # Somebody else's private blob, and a resource of the importer's own.
        part = {"documents": [{"id": "picture", "file": {"data": "YSBwcml2YXRlIHBpY3R1cmU="}}]}
        await world.add("knowledge", "private", part, by=world.bolt)
        await world.prompt("mine", "Mine.")
        before = dump(path)
        make, kind, said = UNACCEPTABLE.get(name) or (UNREADABLE[name][0], AgentVMError, UNREADABLE[name][1])
        for dry_run in (True, False):
            with pytest.raises(kind) as refused:
                await import_bundle(world.centre, world.acme, make(), dry_run=dry_run)
            assert said in str(refused.value)
        assert dump(path) == before


def outcomes(report: list[ImportedEntry]) -> dict[str, str]:
    return {one.uri.removeprefix("resource://"): one.outcome for one in report}


TONE = entry("tone", {"text": "Friendly."}, description="How to sound.", tags=["tone", "语气"])
SALES = including("sales", TONE[0])


async def test_what_comes_together_is_linked_to_each_other() -> None:
    async with open_world() as world:
        await world.prompt("tone", "Rude.", version="3.0.0")
        done = await import_bundle(world.centre, world.acme, bundle(TONE, SALES))
        assert outcomes(done) == {"prompts/tone@1.0.0": "created", "prompts/sales@1.0.0": "created"}
        assert [one.is_new_resource for one in done] == [False, True]
        assert (await world.resolve("resource://prompts/sales")).rendered == "sales: Friendly."
        assert (await world.resolve("resource://prompts/tone")).rendered == "Rude."


async def test_an_import_is_described_as_it_was_and_belongs_to_whoever_imports_it() -> None:
    async with open_world() as world:
        await import_bundle(world.centre, world.bolt, bundle(TONE))
        found = await world.resolve("resource://prompts/tone", by=world.bolt)
        assert (found.manifest.owner, found.manifest.description, found.manifest.tags) == (
            "bolt",
            "How to sound.",
            ("tone", "语气"),
        )
        assert found.digest == TONE[0]["digest"]
        assert await world.view().find("prompts", "tone") is None


async def test_importing_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_world(path) as world:
        archive = bundle(TONE, SALES)
        for conflict in EVERY:
            await import_bundle(world.centre, world.acme, archive, on_conflict=conflict)
            before = dump(path)
            again = await import_bundle(world.centre, world.acme, archive, on_conflict=conflict)
            assert set(outcomes(again).values()) == {"unchanged"}
            assert dump(path) == before


async def test_a_dry_run_says_what_would_happen_and_does_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_world(path) as world:
        await world.prompt("tone", "Rude.")
        before = dump(path)
        for conflict, outcome in zip(EVERY, ("conflict", "skipped", "renumbered"), strict=True):
            planned = await import_bundle(world.centre, world.acme, bundle(TONE, SALES), on_conflict=conflict, dry_run=True)
            assert [one.outcome for one in planned] == [outcome, "created"]
        assert dump(path) == before


async def test_a_version_with_other_content_is_refused_left_or_numbered_anew(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_world(path) as world:
        await world.prompt("tone", "Rude.")
        before = dump(path)
        with pytest.raises(ResourceVersionExists, match="resource://prompts/tone@") as refused:
            await import_bundle(world.centre, world.acme, bundle(TONE, SALES))
        assert refused.value.details == {"conflicts": ["resource://prompts/tone@1.0.0"]}
        assert dump(path) == before
        numbered = await import_bundle(world.centre, world.acme, bundle(TONE, SALES), on_conflict="newVersion")
        assert outcomes(numbered) == {"prompts/tone@1.0.1": "renumbered", "prompts/sales@1.0.0": "created"}
        assert (await world.resolve("resource://prompts/sales")).rendered == "sales: Friendly."
        again = await import_bundle(world.centre, world.acme, bundle(TONE, SALES), on_conflict="newVersion")
        assert outcomes(again) == {"prompts/tone@1.0.1": "unchanged", "prompts/sales@1.0.0": "unchanged"}


async def test_what_is_skipped_is_what_the_rest_is_linked_to() -> None:
    async with open_world() as world:
        rude = await world.prompt("tone", "Rude.")
        done = await import_bundle(world.centre, world.acme, bundle(TONE, SALES), on_conflict="skip")
        assert outcomes(done) == {"prompts/tone@1.0.0": "skipped", "prompts/sales@1.0.0": "created"}
        assert done[0].digest == rude.version.digest
        assert (await world.resolve("resource://prompts/sales")).rendered == "sales: Rude."


async def test_two_versions_of_one_resource_come_together() -> None:
    async with open_world() as world:
        newer = entry("tone", {"text": "Very friendly."}, version="2.0.0")
        await world.prompt("tone", "Rude.", version="2.0.0")
        done = await import_bundle(world.centre, world.bolt, bundle(TONE, newer))
        assert [one.is_new_resource for one in done] == [True, False]
        found = await world.view(world.bolt).find("prompts", "tone")
        assert found is not None
        history = await world.view(world.bolt).history(found.resource_id)
        assert [one.version for one in history.versions] == ["1.0.0", "2.0.0"]
        third = entry("tone", {"text": "Third."}, version="2.0.0")
        fourth = entry("tone", {"text": "Fourth."})
        numbered = await import_bundle(world.centre, world.bolt, bundle(third, fourth), on_conflict="newVersion")
        assert sorted(one.version for one in numbered) == ["2.0.1", "2.0.2"]


async def test_what_others_own_is_linked_to_if_it_is_here_and_else_copied() -> None:
    async with open_world() as world:
        theirs = await world.prompt("tone", "Friendly.", by=world.bolt, visibility="public")
        raw, body = TONE
        foreign = {**raw, "uri": "resource://prompts/bolt/tone@1.0.0"}
        sales = including("sales", foreign)
        done = await import_bundle(world.centre, world.acme, bundle((foreign, body), sales))
        assert outcomes(done) == {"prompts/bolt/tone@1.0.0": "unchanged", "prompts/sales@1.0.0": "created"}
        found = await world.resolve("resource://prompts/sales")
        assert [one.version_id for one in found.lock[1:]] == [theirs.version.version_id]
        elsewhere = {**raw, "uri": "resource://prompts/nobody/tone@1.0.0"}
        copied = await import_bundle(world.centre, world.acme, bundle((elsewhere, body), including("offer", elsewhere)))
        assert outcomes(copied) == {"prompts/tone@1.0.0": "created", "prompts/offer@1.0.0": "created"}


async def test_what_is_not_in_it_is_found_here_by_digest_or_else_by_name() -> None:
    async with open_world() as world:
        await world.prompt("tone", "Friendly.", version="1.0.0")
        found = await world.view().find("prompts", "tone")
        assert found is not None
        await world.revise(found.resource_id, "Rude.", version="2.0.0")
        await import_bundle(world.centre, world.acme, bundle(SALES))
        assert (await world.resolve("resource://prompts/sales")).rendered == "sales: Friendly."
        other = including("offer", entry("tone", {"text": "Unknown."})[0])
        await import_bundle(world.centre, world.acme, bundle(other))
        assert (await world.resolve("resource://prompts/offer")).rendered == "offer: Rude."


async def test_only_who_may_publish_imports_what_is_public() -> None:
    async with open_world() as world:
        tone, body = TONE
        public = {**tone, "visibility": "public"}, body
        sales = including("sales", tone)
        sales[0]["visibility"] = "public"
        cautious = replace(world.bolt, may_publish=False)
        await import_bundle(world.centre, cautious, bundle(public, sales))
        await import_bundle(world.centre, world.acme, bundle(public, sales))
        for author, wanted in ((world.bolt, "private"), (world.acme, "public")):
            for name in ("tone", "sales"):
                found = await world.view(author).find("prompts", name)
                assert found is not None
                assert found.visibility == wanted
        with pytest.raises(PermissionDenied):
            await world.prompt("other", by=cautious, visibility="public")


async def test_what_is_linked_to_something_private_is_private() -> None:
    async with open_world() as world:
        sales = including("sales", TONE[0])
        sales[0]["visibility"] = "public"
        await import_bundle(world.centre, world.acme, bundle(TONE, sales))
        found = await world.view().find("prompts", "sales")
        assert found is not None
        assert found.visibility == "private"


async def test_a_public_resource_is_not_linked_to_a_private_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_world(path) as world:
        await world.prompt("sales", "Sell.", version="0.1.0", visibility="public")
        before = dump(path)
        with pytest.raises(ResourceVisibilityConflict):
            await import_bundle(world.centre, world.acme, bundle(TONE, SALES))
        assert dump(path) == before


async def test_of_what_is_here_already_the_owner_has_said_what_it_is() -> None:
    async with open_world() as world:
        await world.prompt("tone", "Old.", version="0.1.0", description="Mine.", tags=("mine",))
        await import_bundle(world.centre, world.acme, bundle(TONE))
        found = await world.resolve("resource://prompts/tone@1.0.0")
        assert (found.manifest.description, found.manifest.tags) == ("Mine.", ("mine",))


async def test_binary_parts_come_along() -> None:
    async with open_world() as world:
        made = document({"blob": digest_of(b"\0picture"), "size": 8}, blobs=[digest_of(b"\0picture")])
        await import_bundle(world.centre, world.acme, bundle(made, extra=[(blob(b"\0picture"), b"\0picture")]))
        found = await world.resolve("resource://knowledge/docs", expand="content")
        assert found.digest == made[0]["digest"]
        version_id = found.lock[0].version_id
        assert await world.view().blob(version_id, f"sha256:{hexed(bytes(1) + b'picture')}") == b"\0picture"


async def test_the_deepest_that_may_be_published_may_be_imported() -> None:
    async with open_world() as world:
        done = await import_bundle(world.centre, world.acme, chain(17))
        assert [one.outcome for one in done] == ["created"] * 17
        assert (await world.resolve("resource://prompts/p16")).rendered
        below = entry("p16")[0] | {"digest": done[-1].digest}
        with pytest.raises(ResourceTooDeep):
            await import_bundle(world.centre, world.acme, bundle(including("p17", below)))


async def test_whitespace_in_a_content_is_no_other_content() -> None:
    async with open_world() as world:
        raw, body = TONE
        spaced = b" " + body
        made = {**raw, "content": digest_of(spaced)}, spaced
        await import_bundle(world.centre, world.acme, bundle(made))
        again = await import_bundle(world.centre, world.acme, bundle(TONE))
        assert again[0].outcome == "unchanged"
        assert canonical({"text": "Friendly."}) == body


anything = st.none() | st.integers() | st.sampled_from(
    ["", "x", "resource://prompts/tone", "resource://prompts/sales@1.0.0", "resource://tools/tone@1.0.0", digest_of(b""),
     TONE[0]["digest"], SALES[0]["digest"], "1.0.0", "includes.0", "tools", [], {}, ["x"], {"x": "x"}]
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 200), anything), min_size=1, max_size=3))
@settings(max_examples=examples(30, 1500), deadline=None)
def test_whatever_a_bundle_says_it_is_taken_or_refused(changes: list[tuple[int, object]]) -> None:
    """One member after another is replaced by something that looks right or does not."""
    entries = [json.loads(json.dumps(raw)) for raw, _ in (TONE, SALES)]

    def members(value: object) -> Iterator[tuple[Any, Any]]:
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in list(pairs):
            yield value, key
            yield from members(inner)

    for number, new in changes:
        places = list(members(entries))
        holder, key = places[number % len(places)]
        # A copy: the sampled lists and dicts are shared, and one put into itself has no end.
        holder[key] = deepcopy(new)

    async def attempt() -> None:
        async with open_world() as world:
            bodies = [(blob(body), body) for _, body in (TONE, SALES)]
            said = json.dumps({"format": 1, "root": SALES[0]["uri"], "entries": entries}).encode()
            with suppress(InvalidInput, ResourceVersionExists):
                await import_bundle(world.centre, world.acme, gzip.compress(pack([("bundle.json", said), *bodies])))

    anyio.run(attempt)
