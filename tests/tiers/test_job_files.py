import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.tiers.job_files import ENTRIES_OF_FILE_MAX, JobFiles, is_path

FILES = {"a": b"1", "b/c/d": b"\0" * 1000, "b/c/e": b"", "$(x)\n": b"EOF"}


def test_untouched_files_do_not_come_back(tmp_path: Path) -> None:
    files = JobFiles(os.open(tmp_path, os.O_RDONLY))
    files.place(FILES, frozenset({"a"}))
    assert {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == FILES
    assert os.access(tmp_path / "a", os.X_OK)
    collected = files.collect(10**6, 100)
    assert (collected.files, collected.deleted, collected.left_out) == ({}, [], 0)


def test_a_change_that_hides_behind_an_old_time_is_seen(tmp_path: Path) -> None:
    files = JobFiles(os.open(tmp_path, os.O_RDONLY))
    files.place({"a": b"1"}, frozenset())
    before = (tmp_path / "a").stat()
    (tmp_path / "a").write_bytes(b"2")
    os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.collect(100, 100).files == {"a": b"2"}


def test_a_file_that_becomes_a_link_is_gone_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "secret").write_text("s")
    files = JobFiles(os.open(tmp_path / "w", os.O_RDONLY))
    files.place({"a": b"1", "d/e": b"2"}, frozenset())
    (tmp_path / "w/a").unlink()
    (tmp_path / "w/a").symlink_to(tmp_path / "secret")
    (tmp_path / "w/d/e").unlink()
    (tmp_path / "w/d").rmdir()
    (tmp_path / "w/d").symlink_to(tmp_path)
    collected = files.collect(100, 100)
    assert collected.files == {}
    assert collected.deleted == ["a", "d/e"]
    assert collected.left_out == 2


class Swapping(dict[str, tuple[int, int, int, int, int]]):
    """Is asked about a file between the look at it and its opening; it puts a link in its place then."""

    def __init__(self, folder: Path, target: Path) -> None:
        super().__init__()
        self._folder, self._target = folder, target

    def get(self, path: str, default: object = None) -> None:  # type: ignore[override]
        (self._folder / path).unlink()
        (self._folder / path).symlink_to(self._target)


def test_a_file_that_is_swapped_for_a_link_while_it_is_collected_is_not_followed(tmp_path: Path) -> None:
    folder, secret = tmp_path / "w", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("s")
    (folder / "a").write_text("1")
    files = JobFiles(os.open(folder, os.O_RDONLY))
    files.placed = Swapping(folder, secret)
    collected = files.collect(100, 100)
    assert (folder / "a").is_symlink()
    assert (collected.files, collected.left_out) == ({}, 1)


def test_sizes_and_numbers_have_bounds(tmp_path: Path) -> None:
    files = JobFiles(os.open(tmp_path, os.O_RDONLY))
    for number in range(5):
        (tmp_path / f"f{number}").write_bytes(b"x" * 40)
    collected = files.collect(100, 100)
    assert (len(collected.files), collected.left_out) == (2, 3)
    collected = files.collect(10**6, 3)
    assert (len(collected.files), collected.left_out) == (3, 2)


def test_only_so_many_entries_are_looked_at_and_then_nothing_is_told_as_gone(tmp_path: Path) -> None:
    files = JobFiles(os.open(tmp_path, os.O_RDONLY))
    files.place({"a": b"1", "z": b"2"}, frozenset())
    (tmp_path / "a").unlink()
    for number in range(2 * ENTRIES_OF_FILE_MAX - 1):
        (tmp_path / f"d{number}").mkdir()
    collected = files.collect(100, 2)
    assert (collected.deleted, collected.left_out) == (["a"], 0)
    (tmp_path / "e").mkdir()
    (tmp_path / "f").mkdir()
    collected = files.collect(100, 2)
    assert (collected.files, collected.deleted, collected.left_out) == ({}, [], 1)


def test_a_sparse_giant_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "giant", "wb") as file:
        file.truncate(2**40)
    assert JobFiles(os.open(tmp_path, os.O_RDONLY)).collect(10**6, 10).left_out == 1


def test_folders_without_end_and_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(60):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    (tmp_path / "ok").write_text("x")
    with open(os.fsencode(tmp_path) + b"/\xff", "w"):
        pass
    collected = JobFiles(os.open(tmp_path, os.O_RDONLY)).collect(10**6, 100)
    assert (set(collected.files), collected.left_out) == ({"ok"}, 2)


def test_a_file_is_not_placed_over_another(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/etc/passwd")
    with pytest.raises(FileExistsError):
        JobFiles(os.open(tmp_path, os.O_RDONLY)).place({"a": b"x"}, frozenset())


@given(st.text(max_size=30))
def test_a_path_never_leaves_its_folder(path: str) -> None:
    if is_path(path):
        assert os.path.normpath(f"/w/{path}") == f"/w/{path}"


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a\0b", "x" * 2000, "/".join("d" * 40)])
def test_odd_paths_are_none(path: str) -> None:
    assert not is_path(path)
