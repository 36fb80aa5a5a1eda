"""The tour of docs/export.md, walked as a newcomer would: its file, its shell in one shell, its server beside it."""

from pathlib import Path

import pytest
from tests.docs.documents import blocks, read
from tests.docs.tour import walk

from agentvm.sessions.archive import BLOBS, IMAGES, MANIFEST, session_file
from agentvm.sessions.import_reader import FOREIGN

PAGE = read("docs/export.md")


async def test_the_tour_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (file,) = (block for block in blocks(PAGE, "json") if block.mark is not None)
    (tmp_path / str(file.mark).removeprefix("file ")).write_text(file.text, encoding="utf-8")
    # `tail` begins with an empty line, which the page leaves out.
    _, err = await walk(PAGE, tmp_path, exactly=False)
    assert "The archive is refused, and nothing was written" in err


def test_the_members_and_the_programs_are_documented() -> None:
    assert [name for name in (IMAGES, MANIFEST, session_file(1), f"{BLOBS}<hex>") if f"`{name}`" not in PAGE] == []
    assert [name for name in FOREIGN if f"| `{name}` |" not in PAGE] == []
