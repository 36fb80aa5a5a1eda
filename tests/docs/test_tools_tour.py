"""The tour of docs/tools-tour.md, walked as a newcomer would: its shell in one shell, its server beside it."""

from pathlib import Path

import pytest
from tests.docs.documents import read
from tests.docs.tour import SERVER, walk

PAGE = read("docs/tools-tour.md")


async def test_the_tour_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A tool names an address by its numbers; the walk replaces the name of the server by where it really is.
    _, err = await walk(PAGE.replace("http://127.0.0.1:8080", SERVER), tmp_path)
    assert "(approval_required" in err
