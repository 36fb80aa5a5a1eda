import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.desk import Desk, avm, open_desk
from tests.cli.fake_server import answering
from tests.resources import archives

from agentvm.model.resource import digest_of


def put(folder: Path, raw: dict[str, Any], prompt: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "resource.json").write_text(json.dumps(raw, ensure_ascii=False), encoding="utf-8")
    if prompt is not None:
        (folder / "prompt.md").write_text(prompt, encoding="utf-8")
    return folder


def seller(root: Path) -> Path:
    """An agent, its prompt, and what the prompt includes, in an order of names that is not that of dependence."""
    put(
        root / "a-agent",
        {"type": "agents", "name": "seller", "version": "1.0.0", "content": {"systemPrompt": "resource://prompts/sales"}},
    )
    put(root / "b/sales", {"type": "prompt", "name": "sales", "version": "1.0.0"}, "Sell.\n{{> resource://prompts/tone@^1}}\n")
    put(root / "c", {"type": "prompts", "name": "tone", "version": "1.2.0", "description": "语气"}, "Kindly.\n")
    return root


async def pushed(desk: Desk, root: Path, *more: str) -> dict[str, str]:
    return {
        one["uri"].removeprefix("resource://"): one["outcome"]
        for one in await desk.record("resource", "push", str(root), *more)
    }


async def test_folders_are_pushed_in_the_order_they_need_each_other_and_then_left_alone(tmp_path: Path) -> None:
    async with open_desk() as desk:
        seller(tmp_path)
        planned = await desk.avm("resource", "push", str(tmp_path), "--dry-run")
        assert planned.out.splitlines() == [
            "created    resource://prompts/tone@1.2.0",
            "created    resource://prompts/sales@1.0.0",
            "created    resource://agents/seller@1.0.0",
        ]
        assert "Dry run: nothing was published" in planned.err
        assert await desk.record("resource", "list", "--scope", "own") == []
        assert set((await pushed(desk, tmp_path)).values()) == {"created"}
        assert set((await pushed(desk, tmp_path)).values()) == {"unchanged"}
        agent = json.loads(await desk.ok("resource", "resolve", "agents/seller"))
        assert agent["systemPrompt"] == "Sell.\nKindly.\n\n"


async def test_changed_content_needs_another_version(tmp_path: Path) -> None:
    async with open_desk() as desk:
        place = put(tmp_path, {"type": "prompts", "name": "sales", "version": "1.0.0"}, "One.\n")
        await pushed(desk, tmp_path)
        (place / "prompt.md").write_text("Two.\n")
        refused = await desk.avm("resource", "push", str(tmp_path))
        assert (refused.code, refused.out) == (1, "")
        assert f"{tmp_path}: resource://prompts/sales@1.0.0 is published with other content" in refused.err
        assert await pushed(desk, tmp_path, "--bump", "minor", "--dry-run") == {"prompts/sales@1.1.0": "revised"}
        assert await pushed(desk, tmp_path, "--bump", "minor") == {"prompts/sales@1.1.0": "revised"}
        assert json.loads((place / "resource.json").read_text())["version"] == "1.1.0"
        assert await pushed(desk, tmp_path, "--bump", "minor") == {"prompts/sales@1.1.0": "unchanged"}
        put(tmp_path, {"type": "prompts", "name": "sales", "version": "3.0.0"}, "Three.\n")
        assert await pushed(desk, tmp_path) == {"prompts/sales@3.0.0": "revised"}


async def test_a_folder_without_a_version_gets_the_next(tmp_path: Path) -> None:
    async with open_desk() as desk:
        for text, uri in (("One.", "1.0.0"), ("Two.", "1.0.1")):
            put(tmp_path, {"type": "prompts", "name": "sales"}, text)
            assert list(await pushed(desk, tmp_path)) == [f"prompts/sales@{uri}"]
        assert await pushed(desk, tmp_path) == {"prompts/sales@1.0.1": "unchanged"}
        assert "version" not in json.loads((tmp_path / "resource.json").read_text())


async def test_what_is_no_part_of_a_version_is_brought_too(tmp_path: Path) -> None:
    async with open_desk() as desk:
        raw = {"type": "prompts", "name": "sales", "version": "1.0.0"}
        put(tmp_path, {**raw, "schema": {"type": "object"}, "dependencies": {"x": "resource://prompts/assistant"}}, "One.")
        await pushed(desk, tmp_path)
        about = {"description": "销售", "tags": ["a"], "visibility": "public"}
        put(tmp_path, {**raw, "version": "1.1.0"}, "One.")
        assert await pushed(desk, tmp_path) == {"prompts/sales@1.1.0": "revised"}
        put(tmp_path, {**raw, **about, "version": "1.1.0"}, "One.")
        assert await pushed(desk, tmp_path, "--dry-run") == {"prompts/sales@1.1.0": "described"}
        assert await pushed(desk, tmp_path) == {"prompts/sales@1.1.0": "described"}
        assert await pushed(desk, tmp_path) == {"prompts/sales@1.1.0": "unchanged"}
        found = await desk.record("resource", "show", "prompts/sales")
        assert {name: found["resource"][name] for name in about} == about
        assert ("schema" in found, found.get("dependencies", {})) == (False, {})


async def test_one_s_own_may_have_the_name_of_what_ships_with_the_server(tmp_path: Path) -> None:
    async with open_desk() as desk:
        put(tmp_path, {"type": "prompts", "name": "assistant"}, "Mine.\n")
        assert await pushed(desk, tmp_path) == {"prompts/assistant@1.0.0": "created"}
        assert await desk.ok("resource", "resolve", "prompts/assistant") == "Mine.\n"


async def test_what_was_withdrawn_altogether_is_published_anew(tmp_path: Path) -> None:
    async with open_desk() as desk:
        put(tmp_path, {"type": "prompts", "name": "sales"}, "One.\n")
        await pushed(desk, tmp_path)
        await desk.ok("resource", "yank", "prompts/sales", "1.0.0")
        put(tmp_path, {"type": "prompts", "name": "sales"}, "Two.\n")
        assert list(await pushed(desk, tmp_path)) == ["prompts/sales@1.0.1"]


async def test_nothing_is_sent_when_one_of_them_is_wrong(tmp_path: Path) -> None:
    async with open_desk() as desk:
        seller(tmp_path)
        put(tmp_path / "z", {"type": "prompts", "name": "broken"}, "{{> nothing}}")
        refused = await desk.avm("resource", "push", str(tmp_path))
        assert (refused.code, str(tmp_path / "z") in refused.err) == (1, True)
        assert await desk.record("resource", "list", "--scope", "own") == []


async def test_nothing_is_sent_when_a_reference_leads_nowhere(tmp_path: Path) -> None:
    async with open_desk() as desk:
        seller(tmp_path)
        put(tmp_path / "d", {"type": "prompts", "name": "late"}, "{{> resource://prompts/absent}}")
        put(tmp_path / "e", {"type": "prompts", "name": "later"}, "{{> resource://prompts/tone@^2}}")
        for more in ((), ("--dry-run",)):
            refused = await desk.avm("resource", "push", str(tmp_path), *more)
            assert (refused.code, refused.out) == (1, "")
            first, second = refused.err.removeprefix("Error: ").splitlines()
            assert first.startswith(f"{tmp_path / 'd'}: ")
            assert "resource://prompts/absent" in first
            assert second.startswith(f"{tmp_path / 'e'}: ")
            assert "resource://prompts/tone@^2" in second
        assert await desk.record("resource", "list", "--scope", "own") == []
        put(tmp_path / "d", {"type": "prompts", "name": "late"}, "{{> resource://prompts/system/assistant@1}}")
        put(tmp_path / "e", {"type": "prompts", "name": "later"}, "{{> resource://prompts/tone@>=1.2.0}}")
        assert set((await pushed(desk, tmp_path)).values()) == {"created"}


async def test_what_the_server_alone_refuses_is_told_with_the_folder(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await desk.ok("quota", "set", "resources", "--hard", "0")
        put(tmp_path / "a", {"type": "prompts", "name": "a"}, "A.")
        refused = await desk.avm("resource", "push", str(tmp_path))
        assert (refused.code, refused.err.startswith(f"Error: {tmp_path / 'a'}: ")) == (1, True)


async def test_every_folder_that_is_wrong_is_told_and_where(tmp_path: Path) -> None:
    put(tmp_path / "a", {"type": "prompts", "name": "a", "version": "v1.0"}, "A.")
    put(tmp_path / "b", {"type": "prompts", "name": "b", "verison": "1.0.0"}, "B.")
    put(tmp_path / "c", {"type": "poems", "name": "c"}, "C.")
    put(tmp_path / "d", {}).joinpath("resource.json").write_text('{\n  "type": "prompts",\n  "name" "d"\n}')
    async with open_desk() as desk:
        refused = await desk.avm("resource", "push", str(tmp_path))
    said = refused.err.removeprefix("Error: ").splitlines()
    assert said[0].startswith(f"{tmp_path / 'a'}: 'v1.0' is not a valid version")
    assert said[1] == f"{tmp_path / 'b' / 'resource.json'}: there is no field verison; did you mean version?"
    assert said[2].startswith(f"{tmp_path / 'c' / 'resource.json'}: ")
    assert "poems" in said[2]
    assert said[3].endswith("(line 3, column 10)")


async def test_a_mark_before_the_text_is_no_part_of_it(tmp_path: Path) -> None:
    put(tmp_path, {}, "A.").joinpath("resource.json").write_text('{"type": "prompts", "name": "a"}', encoding="utf-8-sig")
    async with open_desk() as desk:
        assert await pushed(desk, tmp_path) == {"prompts/a@1.0.0": "created"}


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        ({}, "No resource.json or SKILL.md found in"),
        ({"a": ("x", "1"), "b": ("x", "2")}, "are both resource://prompts/x"),
        ({"a": ("x", "{{> resource://prompts/y}}"), "b": ("y", "{{> resource://prompts/x}}")}, "Circular references: resource://prompts/"),
    ],
)  # fmt: skip
async def test_folders_that_cannot_be_are_explained(folders: dict[str, tuple[str, str]], said: str, tmp_path: Path) -> None:
    for place, (name, text) in folders.items():
        put(tmp_path / place, {"type": "prompts", "name": name}, text)
    async with open_desk() as desk:
        done = await desk.avm("resource", "push", str(tmp_path))
        assert (done.code, said in done.err) == (1, True)


async def test_what_is_pulled_is_what_was_pushed(tmp_path: Path) -> None:
    async with open_desk() as desk:
        source = tmp_path / "source"
        documents = [{"id": "guide", "text": {"$file": "guide.md"}}, {"id": "logo", "file": {"$file": "logo.png"}}]
        raw = {"type": "knowledge", "name": "docs", "version": "2.0.0", "tags": ["文档"], "content": {"documents": documents}}
        put(source, {**raw, "dependencies": {"also": "resource://prompts/assistant"}})
        (source / "guide.md").write_text("# Guide\n\nRead it.\n")
        (source / "logo.png").write_bytes(b"\x89PNG\0")
        await pushed(desk, source)
        target = tmp_path / "target"
        said = await desk.ok("resource", "pull", "knowledge/docs@^2", str(target))
        assert said == f"knowledge/docs@2.0.0 is written to {target}.\n"
        assert (target / "documents/guide.md").read_text() == "# Guide\n\nRead it.\n"
        assert (target / "documents/logo.bin").read_bytes() == b"\x89PNG\0"
        written = json.loads((target / "resource.json").read_text())
        assert (written["tags"], written["dependencies"]) == (["文档"], {"also": "resource://prompts/assistant"})
        assert await pushed(desk, target) == {"knowledge/docs@2.0.0": "unchanged"}
        await desk.ok("resource", "pull", "knowledge/docs", str(target))


async def test_a_pull_takes_the_name_for_the_folder_and_overwrites_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_desk() as desk:
        assert (await desk.record("resource", "pull", "prompts/translator-zh"))["folder"] == "translator-zh"
        assert "译者" in (tmp_path / "translator-zh/prompt.md").read_text()
        refused = await desk.avm("resource", "pull", "prompts/assistant", "translator-zh")
        assert (refused.code, "already contains prompts/translator-zh" in refused.err) == (1, True)
        assert (await desk.avm("resource", "pull", "prompts/nothing")).code == 5


async def test_a_pull_overwrites_what_was_changed_only_by_force(tmp_path: Path) -> None:
    async with open_desk() as desk:
        pull = ("resource", "pull", "prompts/plain-speech", str(tmp_path))
        await desk.ok(*pull)
        text = (tmp_path / "prompt.md").read_text()
        (tmp_path / "notes.txt").write_text("Mine.")
        await desk.ok(*pull)
        (tmp_path / "prompt.md").write_text("My own words.\n")
        (tmp_path / "resource.json").unlink()
        refused = await desk.avm(*pull)
        assert (refused.code, str(tmp_path / "prompt.md") in refused.err, "--force" in refused.err) == (1, True, True)
        assert (tmp_path / "prompt.md").read_text() == "My own words.\n"
        assert not (tmp_path / "resource.json").exists(), "all or nothing"
        await desk.ok(*pull, "--force")
        assert (tmp_path / "prompt.md").read_text() == text
        assert (tmp_path / "notes.txt").read_text() == "Mine."


@pytest.mark.parametrize("name", ["../outside", "other", "a/b"])
def test_a_server_cannot_choose_where_a_pull_is_written(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    with answering(lambda asked: (200, archives.bundle(archives.entry(name)))) as (url, _):
        done = avm("resource", "pull", "prompts/sales", url=url)
    assert (done.code, "sent another resource" in done.err) == (1, True)
    assert [path for path in tmp_path.rglob("*") if path != home] == []


def test_what_is_wrong_with_an_archive_is_said_without_commanding_the_terminal() -> None:
    raw, _ = archives.entry("\x1b[2Jsales")
    with answering(lambda asked: (200, archives.bundle((raw, b"{}")))) as (url, _):
        done = avm("resource", "pull", "prompts/sales", url=url)
    assert (done.code, "has no blob" in done.err, "\x1b" in done.err) == (1, True, False)


async def test_a_set_of_tools_is_unchanged_although_the_server_has_added_its_tools(tmp_path: Path) -> None:
    document = json.dumps({"openapi": "3.1.0", "servers": [{"url": "https://a.example"}], "paths": {"/x": {"get": {}}}})
    content: dict[str, Any] = {"description": "x", "runtime": "openapi", "document": {"$file": "openapi.json"}}
    content["entry"] = f"blob:{digest_of(document.encode())}"
    raw = {"type": "tools", "name": "x", "version": "1.0.0", "content": content}
    async with open_desk() as desk:
        (put(tmp_path, raw) / "openapi.json").write_text(document)
        assert await pushed(desk, tmp_path) == {"tools/x@1.0.0": "created"}
        assert await pushed(desk, tmp_path) == {"tools/x@1.0.0": "unchanged"}
        content["description"] = "y"
        put(tmp_path, raw)
        assert (await desk.avm("resource", "push", str(tmp_path))).code == 1


async def test_a_skill_is_its_folder_from_push_to_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk() as desk:
        home = tmp_path / "skills/pdf"
        (home / "scripts").mkdir(parents=True)
        (home / "SKILL.md").write_bytes(b"---\r\nname: pdf\r\ndescription: Reads PDF.\r\n---\r\nDo it.\r\n")
        (home / "scripts/read.py").write_text("print(1)\n")
        (home / "logo.png").write_bytes(b"\x00\xff")
        (home / ".DS_Store").write_text("x")
        agent = {"type": "agents", "name": "reader", "version": "1.0.0", "content": {"skills": ["resource://skills/pdf"]}}
        put(tmp_path / "agent", agent)
        both = {"skills/pdf@1.0.0": "created", "agents/reader@1.0.0": "created"}
        assert await pushed(desk, tmp_path) == both
        assert await pushed(desk, tmp_path) == dict.fromkeys(both, "unchanged")
        (found,) = await desk.record("resource", "list", "--scope", "own", "--type", "skill")
        assert (found["uri"], found["description"]) == ("resource://skills/pdf", "Reads PDF.")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        await desk.ok("resource", "pull", "skills/pdf")
        again = tmp_path / "elsewhere/pdf"
        files = {path.relative_to(again).as_posix() for path in again.rglob("*") if path.is_file()}
        assert files == {"SKILL.md", "scripts/read.py", "logo.png"}
        assert all((again / name).read_bytes() == (home / name).read_bytes() for name in files)
        (again / "scripts/read.py").write_text("print(2)\n")
        assert "differ" in (await desk.avm("resource", "pull", "skills/pdf")).err
        assert await pushed(desk, again, "--bump", "minor") == {"skills/pdf@1.1.0": "revised"}
