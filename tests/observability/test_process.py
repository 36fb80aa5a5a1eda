from pathlib import Path

from agentvm.observability import process


def test_a_process_has_memory_and_files() -> None:
    assert process.rss_bytes() > 1_000_000
    assert (process.open_files() or 0) > 0


def test_an_open_file_is_counted(tmp_path: Path) -> None:
    before = process.open_files() or 0
    with (tmp_path / "a").open("w"):
        assert process.open_files() == before + 1


def test_sizes_are_of_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert [process.size_of(path) for path in (tmp_path / "a", tmp_path / "b", None)] == [5, 0, 0]


def test_a_disk_has_room_and_nothing_has_none(tmp_path: Path) -> None:
    assert (process.free_bytes(tmp_path) or 0) > 0
    assert process.free_bytes(None) is None
    assert process.free_bytes(tmp_path / "gone") is None
