"""The tour of docs/attachments.md, walked as a newcomer would: its shell in one shell, its server beside it."""

from pathlib import Path

import pytest
from tests.docs.documents import read
from tests.docs.tour import walk

from agentvm.model.attachment import SCHEME
from agentvm.runtime.attached import PROMPT_MAX_BYTES

PAGE = read("docs/attachments.md")


async def test_the_tour_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, err = await walk(PAGE, tmp_path)
    assert "attachment_in_use" in err


def test_the_page_says_how_much_and_how_it_is_named() -> None:
    assert f"`{SCHEME}sha256:<hex>`" in PAGE
    assert f"at most {PROMPT_MAX_BYTES // 2**20} MiB" in PAGE
