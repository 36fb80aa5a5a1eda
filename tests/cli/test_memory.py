from pathlib import Path

from tests.cli.desk import open_desk


async def test_memories_are_added_edited_carried_over_and_deleted(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    async with open_desk() as desk:
        made = await desk.record("memory", "add", "Likes tea 喜欢茶", "--pin", "--container", "shared")
        changed = await desk.record("memory", "edit", made["memoryId"], "--text", "Likes coffee", "--container", "shared")
        assert (changed["text"], changed["pinned"]) == ("Likes coffee", True)
        assert "Likes coffee" in await desk.ok("memory", "list", "--container", "shared")
        await desk.ok("memory", "export", str(file), "--container", "shared")
        assert (await desk.avm("memory", "export", str(file), "--container", "shared")).code == 1
        await desk.ok("memory", "delete", made["memoryId"], "--yes", "--container", "shared")
        assert "1 memories imported" in await desk.ok("memory", "import", str(file), "--container", "shared")
        (again,) = await desk.record("memory", "list", "--container", "shared")
        assert (again["memoryId"], again["text"], again["pinned"]) == (made["memoryId"], "Likes coffee", True)
        assert (await desk.avm("memory", "accept", "mem_none", "--container", "shared")).code == 1
        file.write_text("no memory\n")
        refused = await desk.avm("memory", "import", str(file), "--container", "shared")
        assert (refused.code, "notes.jsonl:1" in refused.err) == (1, True)
