from pathlib import Path

import pytest

from agentvm.cli.knowledge_files import content_of, find_documents, printable
from agentvm.model.collection import DOCUMENT_MAX_BYTES


def test_files_that_cannot_be_taken_are_named_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, outside = tmp_path / "docs", tmp_path / "secret.txt"
    (folder / "sub").mkdir(parents=True)
    outside.write_text("secret")
    for name in ("sub/a b.md", "sub/a_b.md", ".hidden.md", "logo.png"):
        (folder / name).write_text("tea")
    (folder / "empty.txt").touch()
    (folder / "link.txt").symlink_to(outside)
    with (folder / "large.txt").open("wb") as file:
        file.truncate(DOCUMENT_MAX_BYTES + 1)
    assert find_documents(folder) == {"sub/a_b.md": folder / "sub" / "a b.md"}
    told = capsys.readouterr().err
    for name, why in (
        ("empty.txt", "it is empty"),
        ("link.txt", "it is a link out of the folder"),
        ("large.txt", "a document has at most 20,971,520"),
        ("sub/a_b.md", "rename one of them"),
        ("logo.png", "it is none of"),
    ):
        assert f"{name} is left out: " in told
        assert why in told
    assert "hidden" not in told


def test_a_text_is_sent_as_text_and_anything_else_as_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("茶")
    assert content_of(path) == {"text": "茶", "mime": "text/markdown"}
    path.write_bytes("茶".encode("gb18030"))
    assert content_of(path) == {"file": {"data": "sug="}}
    assert printable("a\x1bb") == "a_b"
