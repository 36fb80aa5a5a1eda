"""Paths of files: one form for each, and none that leaves the workspace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors.file import FilePathInvalid
from agentvm.model.session_file import FileChange, SessionFile, apply_changes, file_path, folder_path, folders_of
from agentvm.tiers.job_files import is_path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.txt", "a.txt"),
        ("/workspace/a.txt", "a.txt"),
        ("./a//b/./c", "a/b/c"),
        ("Case", "Case"),
        ("$(rm -rf).txt", "$(rm -rf).txt"),
        ("e\u0301.txt", "\u00e9.txt"),
        (".hidden", ".hidden"),
        ("..a/b..", "..a/b.."),
        ("/workspace//x", "x"),
    ],
)
def test_a_path_has_one_form(text: str, path: str) -> None:
    assert file_path(text) == path


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "/", "/workspace", "a/", "../a", "a/../../b", "/etc/passwd", "/workspaces/a", "a\nb", "a\0b", "a\x9b", "a\\b",
        "\ud800", "x" * 256, "/".join("a" * 40), "é" * 128, "/".join(["a" * 200] * 6),
    ],
)  # fmt: skip
def test_a_path_that_no_file_can_have_is_refused(text: str) -> None:
    with pytest.raises(FilePathInvalid):
        file_path(text)


@given(st.text(max_size=40))
def test_a_path_that_is_accepted_stays_below_the_workspace(text: str) -> None:
    try:
        path = file_path(text)
    except FilePathInvalid:
        return
    assert file_path(path) == path
    assert is_path(path)
    assert all(folder_path(folder) == folder for folder in folders_of(path))


def test_the_workspace_itself_is_a_folder() -> None:
    assert {folder_path(text) for text in ("", "/workspace", "/workspace/", ".")} == {""}


def test_changes_apply_in_order() -> None:
    files = {"a": SessionFile(path="a", digest="d1", size=1, modified_at=1)}
    apply_changes(files, [FileChange(path="a"), FileChange(path="b", digest="d2", size=2, executable=True)], 7)
    assert files == {"b": SessionFile(path="b", digest="d2", size=2, executable=True, modified_at=7)}
