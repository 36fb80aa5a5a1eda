import json
from pathlib import Path

import pytest
from tests.cli.desk import open_desk

from agentvm.knowledge import indexer


async def test_a_folder_is_published_searched_and_cited(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "returns.md").write_text("# Returns\n\nWithin seven days. 七天之内可以退货。")
    (tmp_path / "sub" / "my prices.csv").write_text("tea,4\n")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")
    (tmp_path / ".hidden.md").write_text("secret")
    async with open_desk() as desk:
        made = await desk.record("knowledge", "add", "docs", str(tmp_path))
        assert made["version"] == "1.0.0"
        (found,) = await desk.record("knowledge", "search", "docs", "可以退货吗", "-k", "1")
        assert found["cite"].startswith("resource://knowledge/docs@1.0.0#returns.md:0-")
        opened = await desk.ok("knowledge", "open", found["cite"])
        assert opened.endswith("\n\n# Returns\n\nWithin seven days. 七天之内可以退货。\n")
        assert (await desk.avm("knowledge", "search", "docs", "secret")).err == "Nothing found.\n"
        (tmp_path / "more.txt").write_text("We open at nine.")
        (tmp_path / "broken.json").write_text("{")
        again = await desk.avm("knowledge", "add", "docs", str(tmp_path), "--chunk", "300", "--inject", "2")
        assert "logo.png is left out" in again.err
        assert "broken.json: it is not valid JSON" in again.err
        assert "resource://knowledge/docs@1.1.0" in again.out
        searched = await desk.avm("knowledge", "search", "docs", "when do you open?")
        assert ("nine" in searched.out, "Not searched: broken.json" in searched.err) == (True, True)
        same = await desk.avm("knowledge", "add", "docs", str(tmp_path))
        assert ("resource://knowledge/docs@1.1.0\n" in same.out, "Nothing has changed" in same.err) == (True, True)
        empty = tmp_path / "empty"
        empty.mkdir()
        assert (await desk.avm("knowledge", "add", "none", str(empty))).code == 1


async def test_a_large_folder_goes_into_a_collection_and_only_changes_are_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A search tells what is still being read; a busy machine reads slowly.
    monkeypatch.setattr(indexer, "SETTLE_SECONDS", 60)
    (tmp_path / "returns.md").write_text("# Returns\n\nWithin seven days.")
    (tmp_path / "long.txt").write_text("All about green tea. " * 120_000)
    async with open_desk() as desk:
        made = await desk.avm("knowledge", "add", "docs", str(tmp_path), "--chunk", "100000")
        assert "docs@2" in made.out
        assert "avm knowledge documents docs" in made.err
        assert "2 of 2 documents were sent" in made.err
        (found,) = await desk.record("knowledge", "search", "docs", "returns", "-k", "1")
        assert found["cite"].startswith("resource://knowledge/docs@1.0.0#returns.md:0-")
        (tmp_path / "returns.md").write_text("# Returns\n\nWithin thirty days.")
        again = await desk.avm("knowledge", "add", "docs", str(tmp_path / "returns.md"))
        assert "1 of 1 documents were sent" in again.err
        assert "docs@3" in again.out
        same = await desk.avm("knowledge", "add", "docs", str(tmp_path / "returns.md"))
        assert ("0 of 1 documents" in same.err, "knowledge/docs@1.1.0\n" in same.out) == (True, True)
        listed = await desk.record("knowledge", "documents", "docs")
        assert [one["document"] for one in listed] == ["long.txt", "returns.md"]
        (shown,) = await desk.record("knowledge", "collections")
        assert (shown["revision"], shown["documents"]) == (3, 2)
        used = shown["bytes"]
        forgotten = await desk.record("knowledge", "forget", "docs", "--yes")
        assert (forgotten["revision"], forgotten["oldest"]) == (3, 3)
        assert forgotten["bytes"] < used
        assert (await desk.avm("knowledge", "search", "docs@1.0.0", "returns")).code == 5
        await desk.ok("knowledge", "delete", "docs", "long.txt", "--yes")
        assert (await desk.avm("knowledge", "delete", "docs", "long.txt", "--yes")).code == 5
        await desk.ok("knowledge", "delete", "docs", "--yes")
        assert (await desk.avm("knowledge", "collections")).err == "No collections yet.\n"


async def test_the_next_version_keeps_the_options_of_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "returns.md").write_text("# Returns\n\nWithin seven days.")
    async with open_desk() as desk:

        async def options(*given: str) -> tuple[object, object, object]:
            await desk.ok("knowledge", "add", "docs", str(tmp_path), *given)
            content = (await desk.record("resource", "show", "resource://knowledge/docs"))["content"]
            return content.get("chunking"), content.get("retrieval"), content.get("instructions")

        assert await options() == (None, None, None)
        assert await options("--overlap", "50") == ({"size": 800, "overlap": 50}, None, None)
        assert await options("--inject", "2", "--chunk", "300") == ({"size": 300, "overlap": 50}, {"inject": 2}, None)
        assert await options("--mode", "words", "--overlap", "900") == (
            {"size": 300, "overlap": 299},
            {"inject": 2, "mode": "words"},
            None,
        )
        assert (await desk.avm("knowledge", "add", "docs", str(tmp_path), "--mode", "vectors")).code == 1
        assert await options() == ({"size": 300, "overlap": 299}, {"inject": 2, "mode": "words"}, None)


async def test_a_link_out_of_the_folder_is_left_out_and_documents_that_left_it_are_named(tmp_path: Path) -> None:
    folder, secret = tmp_path / "docs", tmp_path / "secret.md"
    folder.mkdir()
    secret.write_text("The secret of somebody else.")
    (folder / "linked.md").symlink_to(secret)
    (folder / "returns.md").write_text("# Returns\n\nWithin seven days.")
    (folder / "inner.md").symlink_to(folder / "returns.md")
    (folder / "old.md").write_text("Within thirty days.")
    async with open_desk() as desk:
        added = await desk.avm("knowledge", "add", str(folder), "--collection")
        assert "linked.md is left out: it is a link out of the folder" in added.err
        assert "still in the collection" not in added.err
        (folder / "old.md").unlink()
        again = await desk.avm("knowledge", "add", str(folder))
        assert "Not in the folder, and still in the collection: old.md\n" in again.err
        listed = await desk.record("knowledge", "documents", "docs")
        assert [one["document"] for one in listed] == ["inner.md", "old.md", "returns.md"]


async def test_files_that_cannot_be_taken_are_named_and_the_others_are_published(tmp_path: Path) -> None:
    (tmp_path / "returns.md").write_text("# Returns\n\nWithin seven days.")
    (tmp_path / "nothing.md").write_bytes(b"")
    (tmp_path / "price list.md").write_text("Tea costs four.")
    (tmp_path / "price_list.md").write_text("Tea costs five.")
    (tmp_path / "two\nlines.txt").write_text("Open at nine.")
    async with open_desk() as desk:
        made = await desk.avm("knowledge", "add", "docs", str(tmp_path))
        assert (made.code, "Documents  3" in made.out) == (0, True)
        assert "nothing.md is left out: it is empty" in made.err
        assert "price_list.md is left out: its name is as that of price list.md" in made.err
        with (tmp_path / "huge.txt").open("wb") as file:
            file.truncate(20 * 1024 * 1024 + 1)
        made = await desk.avm("knowledge", "add", "docs", str(tmp_path), "--collection")
        assert (made.code, "Documents   3" in made.out) == (0, True)
        assert "huge.txt is left out: it has 20,971,521 bytes" in made.err
        assert "3 of 3 documents were sent" in made.err
        assert "two_lines.txt" in await desk.ok("knowledge", "search", "docs", "open at nine")
        refused = await desk.avm("knowledge", "add", "other", str(tmp_path / "huge.txt"))
        assert (refused.code, "no documents that can be taken" in refused.err) == (1, True)


async def test_a_folder_alone_names_its_knowledge_base(tmp_path: Path) -> None:
    folder, chinese = tmp_path / "Our Handbook (2026)", tmp_path / "资料"
    for one in (folder, chinese):
        one.mkdir()
        (one / "returns.md").write_text("Within seven days.")
    async with open_desk() as desk:
        assert "resource://knowledge/our-handbook-2026@1.0.0" in await desk.ok("knowledge", "add", str(folder))
        assert "resource://knowledge/returns@1.0.0" in await desk.ok("knowledge", "add", str(folder / "returns.md"))
        for wrong, why in (
            ([str(chinese)], "give a name before it"),
            (["no-such-folder"], "no-such-folder is not there. Give a folder after the name."),
            (["docs", str(folder), "more"], "one name and one folder"),
        ):
            refused = await desk.avm("knowledge", "add", *wrong)
            assert (refused.code, why in refused.err) == (2, True)


async def test_documents_are_listed_by_the_name_of_the_knowledge_base(tmp_path: Path) -> None:
    (tmp_path / "returns.md").write_text("Within seven days.")
    async with open_desk() as desk:
        await desk.ok("knowledge", "add", "docs", str(tmp_path))
        assert [one["document"] for one in await desk.record("knowledge", "documents", "docs")] == ["returns.md"]
        await desk.ok("knowledge", "add", "many", str(tmp_path), "--collection")
        about = {"type": "knowledge", "name": "handbook", "version": "1.0.0", "content": {"collection": "many@1"}}
        (tmp_path / "resource.json").write_text(json.dumps(about))
        await desk.ok("resource", "push", str(tmp_path))
        assert [one["document"] for one in await desk.record("knowledge", "documents", "handbook")] == ["returns.md"]
        missing = await desk.avm("knowledge", "documents", "nothing")
        assert (missing.code, "Collection not found: nothing" in missing.err) == (5, True)
