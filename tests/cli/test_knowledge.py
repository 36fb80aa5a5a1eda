from pathlib import Path

from tests.cli.desk import open_desk


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
        assert "Within seven days" in await desk.ok("knowledge", "open", found["cite"])
        assert (await desk.avm("knowledge", "search", "docs", "secret")).err == "Nothing found.\n"
        (tmp_path / "more.txt").write_text("We open at nine.")
        again = await desk.avm("knowledge", "add", "docs", str(tmp_path), "--chunk", "300", "--inject", "2")
        assert "logo.png is left out" in again.err
        assert "resource://knowledge/docs@1.1.0" in again.out
        assert "nine" in await desk.ok("knowledge", "search", "docs", "when do you open?")
        empty = tmp_path / "empty"
        empty.mkdir()
        assert (await desk.avm("knowledge", "add", "none", str(empty))).code == 1


async def test_a_large_folder_goes_into_a_collection_and_only_changes_are_sent_again(tmp_path: Path) -> None:
    (tmp_path / "returns.md").write_text("# Returns\n\nWithin seven days.")
    (tmp_path / "long.txt").write_text("All about green tea. " * 120_000)
    async with open_desk() as desk:
        made = await desk.avm("knowledge", "add", "docs", str(tmp_path), "--chunk", "100000")
        assert "docs@2" in made.out
        assert "2 of 2 documents were sent" in made.err
        (found,) = await desk.record("knowledge", "search", "docs", "returns", "-k", "1")
        assert found["cite"].startswith("resource://knowledge/docs@1.0.0#returns.md:0-")
        (tmp_path / "returns.md").write_text("# Returns\n\nWithin thirty days.")
        again = await desk.avm("knowledge", "add", "docs", str(tmp_path / "returns.md"))
        assert "1 of 1 documents were sent" in again.err
        assert "docs@3" in again.out
        assert "0 of 1 documents" in (await desk.avm("knowledge", "add", "docs", str(tmp_path / "returns.md"))).err
        listed = await desk.record("knowledge", "documents", "docs")
        assert [one["document"] for one in listed] == ["long.txt", "returns.md"]
        (shown,) = await desk.record("knowledge", "collections")
        assert (shown["revision"], shown["documents"]) == (3, 2)
        await desk.ok("knowledge", "remove", "docs", "long.txt", "--yes")
        assert (await desk.avm("knowledge", "remove", "docs", "long.txt", "--yes")).code == 5
        await desk.ok("knowledge", "remove", "docs", "--yes")
        assert (await desk.avm("knowledge", "collections")).err == "No collections yet.\n"
