"""The tour of docs/config.md, walked as a newcomer would: its files, its shell in one shell, its server beside it."""

from pathlib import Path

import pytest
from tests.docs.documents import blocks, read
from tests.docs.tour import walk

from agentvm.config.file import read_text
from agentvm.config.layers import Layer
from agentvm.config.load import check_conflicts

PAGE = read("docs/config.md")


async def test_the_tour_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(PAGE, "yaml"):
        if block.mark is not None:
            (tmp_path / block.mark.removeprefix("file ")).write_text(block.text)
    await walk(PAGE, tmp_path)


def test_every_file_that_is_shown_can_be_used() -> None:
    found = blocks(PAGE, "yaml")
    assert len(found) > 1
    for block in found:
        environ = {"ANTHROPIC_KEY": "k", "OPENAI_KEY": "k"}
        layer, problems = read_text(block.text.encode(), "page", environ)
        assert problems == []
        assert check_conflicts((Layer("file", layer.values),)) == []
