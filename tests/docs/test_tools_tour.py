"""The tour of docs/tools-tour.md, walked as a newcomer would: its shell in one shell, its server beside it."""

from pathlib import Path

import pytest
from tests.docs.documents import read
from tests.docs.tour import SERVER, walk
from tests.support.killable import free_port

PAGE = read("docs/tools-tour.md")


async def test_the_tour_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A tool names an address by its numbers; the walk replaces the name of the server by where it really is. The MCP server
    # of the page gets a free port: others on this machine may walk the tour at the same time.
    page = PAGE.replace("http://127.0.0.1:8080", SERVER).replace("8901", str(free_port()))
    _, err = await walk(page, tmp_path)
    assert "(approval_required" in err
