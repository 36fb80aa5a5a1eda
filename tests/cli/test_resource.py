import json
from pathlib import Path

import pytest
from tests.cli.desk import Desk, avm, open_desk
from tests.cli.fake_server import answering, refusing


async def publish(desk: Desk, folder: Path, name: str = "sales", text: str = "Sell {{what}}.\n", **about: object) -> Path:
    """A prompt, pushed from a folder."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    raw = {"type": "prompts", "name": name, "version": "1.0.0", **about}
    (place / "resource.json").write_text(json.dumps(raw))
    (place / "prompt.md").write_text(text)
    await desk.ok("resource", "push", str(place))
    return place


async def test_what_is_published_is_listed_found_and_shown(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await publish(desk, tmp_path, description="How we sell.", tags=["销售"])
        own = await desk.ok("resource", "list", "--scope", "own")
        assert own.splitlines()[1].split() == ["resource://prompts/sales", "1.0.0", "private", "0", "How", "we", "sell."]
        assert "resource://agents/system/assistant" in await desk.ok("resource", "list", "--type", "agent")
        tagged = await desk.record("resource", "list", "--owner", "system", "--tag", "沙箱")
        assert {one["name"] for one in tagged} == {"default", "run_python", "run_shell"}
        assert "resource://prompts/sales" in await desk.ok("resource", "search", "销售")
        shown = await desk.ok("resource", "show", "prompts/sales")
        for part in ("Version        1.0.0", "Description    How we sell.", '"text": "Sell {{what}}.\\n"'):
            assert part in shown
        found = await desk.record("resource", "show", "resource://prompts/sales@1.0.0")
        assert found["content"] == {"text": "Sell {{what}}.\n"}
        assert (await desk.avm("resource", "search", "nothingofthatname")).err == "No resources found.\n"


async def test_more_than_a_page_is_listed_and_a_search_says_that_there_is_more(tmp_path: Path) -> None:
    async with open_desk() as desk:
        for number in range(3):
            await publish(desk, tmp_path, f"p{number}", description="common")
        assert len(await desk.record("resource", "list", "--scope", "own")) == 3
        done = await desk.avm("resource", "search", "common", "--limit", "2")
        assert done.err == "2 of 3 results; use --limit for more.\n"


def test_every_page_of_a_list_is_asked_for() -> None:
    pages = iter([{"items": [{"uri": "a"}], "total": 2, "nextCursor": "c"}, {"items": [{"uri": "b"}], "total": 2}])
    with answering(lambda asked: (200, next(pages))) as (url, asked):
        assert [one["uri"] for one in avm("resource", "list", "--json", url=url).json] == ["a", "b"]
    assert [one.path for one in asked] == ["/v1/resources?limit=100&scope=all", "/v1/resources?limit=100&scope=all&cursor=c"]


async def test_a_prompt_is_resolved_with_arguments(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await publish(desk, tmp_path, text="Sell {{what}} for {{price}}.\n")
        assert (
            await desk.ok("resource", "resolve", "prompts/sales", "--arg", "what=a=b", "--arg", "price:=3")
            == "Sell a=b for 3.\n"
        )
        whole = await desk.record("resource", "resolve", "prompts/sales@^1", "--arg", "what=x", "--arg", "price=y")
        assert (whole["resolved"], whole["rendered"]) == ("resource://prompts/sales@1.0.0", "Sell x for y.\n")
        missing = await desk.avm("resource", "resolve", "prompts/sales", "--arg", "what=x")
        assert (missing.code, missing.out) == (1, "")
        assert "price" in missing.err
        agent = json.loads(await desk.ok("resource", "resolve", "agents/assistant"))
        assert agent["systemPrompt"].startswith("You are the assistant")


async def test_an_archive_goes_from_one_server_to_another(tmp_path: Path) -> None:
    archive = tmp_path / "sales.tar.gz"
    async with open_desk() as desk, open_desk() as other:
        await publish(desk, tmp_path)
        said = await desk.ok("resource", "export", "prompts/sales", "-o", str(archive))
        assert said == f"resource://prompts/sales is exported to {archive}: {archive.stat().st_size:,} bytes.\n"
        planned = await other.avm("resource", "import", str(archive), "--dry-run")
        assert planned.out.splitlines()[1].split() == ["resource://prompts/sales@1.0.0", "created"]
        assert "nothing was imported" in planned.err
        assert await other.record("resource", "list", "--scope", "own") == []
        await other.ok("resource", "import", str(archive))
        (again,) = await other.record("resource", "import", str(archive))
        assert again["outcome"] == "unchanged"
        assert await other.ok("resource", "resolve", "prompts/sales", "--arg", "what=it") == "Sell it.\n"


async def test_what_is_there_with_other_content_is_said(tmp_path: Path) -> None:
    archive = tmp_path / "sales.tar.gz"
    async with open_desk() as desk, open_desk() as other:
        await publish(desk, tmp_path)
        await desk.ok("resource", "export", "prompts/sales", "--no-deps", "-o", str(archive))
        await publish(other, tmp_path / "other", text="Other.")
        refused = await other.avm("resource", "import", str(archive))
        assert (refused.code, refused.out) == (1, "")
        assert "resource_version_exists" in refused.err
        skipped = await other.record("resource", "import", str(archive), "--on-conflict", "skip")
        renumbered = await other.record("resource", "import", str(archive), "--on-conflict", "new-version")
        assert [one["outcome"] for one in (*skipped, *renumbered)] == ["skipped", "renumbered"]


async def test_an_archive_that_is_none_is_refused(tmp_path: Path) -> None:
    async with open_desk() as desk:
        (tmp_path / "x").write_text("hello")
        refused = await desk.avm("resource", "import", str(tmp_path / "x"))
        assert (refused.code, "is not gzip" in refused.err) == (1, True)
        assert (await desk.avm("resource", "import", str(tmp_path / "absent"))).code == 2
        with (tmp_path / "film").open("wb") as film:
            film.truncate(1 << 40)
        large = await desk.avm("resource", "import", str(tmp_path / "film"))
        assert (large.code, "is larger than" in large.err) == (1, True)


async def test_tags_point_and_versions_are_withdrawn_and_come_back(tmp_path: Path) -> None:
    async with open_desk() as desk:
        folder = await publish(desk, tmp_path)
        (folder / "prompt.md").write_text("New.")
        await desk.ok("resource", "push", str(folder), "--bump", "major")
        assert (
            await desk.ok("resource", "tag", "prompts/sales", "stable", "1.0.0")
            == "resource://prompts/sales@stable is now 1.0.0.\n"
        )
        table = (await desk.ok("resource", "versions", "prompts/sales")).splitlines()
        assert [line.split()[:3] for line in table[1:]] == [["2.0.0", "latest", "published"], ["1.0.0", "stable", "published"]]
        await desk.ok("resource", "yank", "prompts/sales", "2.0.0")
        assert "yanked" in await desk.ok("resource", "versions", "prompts/sales")
        assert (await desk.record("resource", "show", "prompts/sales"))["version"]["version"] == "1.0.0"
        warned = await desk.avm("resource", "resolve", "prompts/sales@2.0.0")
        assert (warned.out, "withdrawn" in warned.err) == ("New.\n", True)
        await desk.ok("resource", "yank", "prompts/sales", "2.0.0", "--undo")
        assert (await desk.record("resource", "show", "prompts/sales"))["version"]["version"] == "2.0.0"
        await desk.ok("resource", "tag", "prompts/sales", "stable", "--remove")
        assert (await desk.avm("resource", "show", "prompts/sales@stable")).code == 5


async def test_what_others_use_is_not_deleted_without_force(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await publish(desk, tmp_path, "tone", "Kind.")
        await publish(desk, tmp_path, "sales", "{{> resource://prompts/tone}}")
        refused = await desk.avm("resource", "delete", "prompts/tone", "--yes")
        assert (refused.code, "resource_in_use" in refused.err) == (1, True)
        assert (await desk.avm("resource", "delete", "prompts/tone")).code == 2
        assert (
            await desk.ok("resource", "delete", "prompts/tone", "--yes", "--force") == "resource://prompts/tone is deleted.\n"
        )
        assert await desk.ok("resource", "resolve", "prompts/sales") == "Kind.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "nothing"), 1, "is not a valid resource URI"),
        (("show", "prompts/nothing"), 5, "Resource not found"),
        (("show", "prompts/assistant@^7"), 5, "Resource not found"),
        (("resolve", "prompts/assistant", "--arg", "x"), 2, "use for example name=Ada"),
        (("resolve", "prompts/assistant", "--arg", "x:={"), 2, "is not valid JSON"),
        (("tag", "prompts/x", "stable"), 2, "VERSION"),
        (("tag", "prompts/x", "stable", "1.0.0", "--remove"), 2, "VERSION"),
        (("delete", "prompts/assistant", "--yes"), 4, "ships with the server"),
        (("yank", "prompts/assistant", "1.0.0"), 4, "ships with the server"),
        (("export", "prompts/assistant", "-o", "/dev/null/x"), 1, "Cannot write"),
        (("import", "-", "--on-conflict", "overwrite"), 2, "new-version"),
        (("list", "--type", "poems"), 1, "is not a type of resource"),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_is_explained(arguments: tuple[str, ...], code: int, said: str) -> None:
    async with open_desk() as desk:
        done = await desk.avm("resource", *arguments)
        assert (done.code, done.out) == (code, "")
        assert said in done.err


async def test_an_operator_works_in_another_tenant(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await desk.ok("tenant", "create", "acme", "--name", "Acme")
        place = await publish(desk, tmp_path)
        await desk.ok("resource", "push", str(place), "--tenant", "acme")
        for tenant in ("acme", "default"):
            (one,) = await desk.record("resource", "list", "--scope", "own", "--tenant", tenant)
            assert (one["owner"], one["uri"]) == (tenant, "resource://prompts/sales")


def test_text_of_others_does_not_command_the_terminal() -> None:
    hit = {"uri": "resource://prompts/x", "description": "\x1b[2J" + "long " * 40, "latest": "1.0.0"}
    with answering(lambda asked: (200, {"items": [hit], "total": 1})) as (url, _):
        done = avm("resource", "search", "x", url=url)
    assert "\x1b" not in done.out
    assert len(done.out.splitlines()[1]) < 120


def test_a_refusal_is_shown_as_it_is() -> None:
    with answering(refusing(403, "permission_denied", "You may not: resources:write")) as (url, _):
        done = avm("resource", "yank", "prompts/x", "1.0.0", url=url)
    assert (done.code, "resources:write (permission_denied" in done.err) == (4, True)
