from pathlib import Path

from tests.cli.desk import Desk, open_desk

from agentvm.cli.attachment import media_type_of

BODY = b"\x89PNG" * 1_000


async def notes(desk: Desk, tmp_path: Path) -> str:
    """A file that was uploaded to a container; its reference."""
    (tmp_path / "photo.png").write_bytes(BODY)
    await desk.server.agentx.containers.create("notes")
    return (await desk.ok("attachment", "add", str(tmp_path / "photo.png"), "--container", "notes")).strip()


async def test_a_file_goes_up_and_comes_back(tmp_path: Path) -> None:
    async with open_desk() as desk:
        reference = await notes(desk, tmp_path)
        assert reference.startswith("attachment:sha256:")
        made = await desk.record("attachment", "add", str(tmp_path / "photo.png"), "--name", "n.png", "--type", "image/x")
        assert (made["attachment"], made["name"], made["mediaType"]) == (reference, "n.png", "image/x")
        listed = await desk.ok("attachment", "list", "--container", "notes")
        assert reference in listed
        assert "n.png" in listed
        copy = tmp_path / "copy.png"
        assert await desk.ok("attachment", "get", reference, "-o", str(copy)) == f"Wrote {copy}: 4,000 bytes.\n"
        assert copy.read_bytes() == BODY
        again = await desk.avm("attachment", "get", reference, "-o", str(copy))
        assert (again.code, "--force" in again.err) == (1, True)
        assert (await desk.record("attachment", "get", reference, "-o", str(copy), "--force"))["bytes"] == len(BODY)
        assert "is deleted" in await desk.ok("attachment", "delete", reference, "--yes")
        gone = await desk.avm("attachment", "get", reference, "-o", str(tmp_path / "none"))
        assert (gone.code, "attachment_not_found" in gone.err) == (5, True)
        assert not (tmp_path / "none").exists()
        assert "No files" in (await desk.avm("attachment", "list", "--container", "notes")).err


def test_the_type_is_what_the_name_says() -> None:
    names = ("a.png", "a.md", "a.json", "a", "a.tar.gz")
    assert [media_type_of(Path(name)) for name in names] == [
        "image/png", "text/markdown", "application/json", "application/octet-stream", "application/octet-stream",
    ]  # fmt: skip
