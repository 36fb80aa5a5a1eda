import io
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.observability.log_entry import LogEntry
from agentvm.observability.log_file import BLOCK_BYTES, NAME, LogFile, entries_back, entries_on, lines_back, place_of

BEYOND = 10**9


def line(number: int, text: str = "") -> bytes:
    entry = LogEntry(number=number, at=number, level="info", event="e", logger="l", facts={"text": text})
    return msgspec.json.encode(entry) + b"\n"


def opened(folder: Path, *, most_bytes: int = 10_000, most_files: int = 3) -> LogFile:
    return LogFile(folder / "logs", most_bytes=most_bytes, most_files=most_files)


def numbers(file: LogFile, before: int = BEYOND, budget: int = BEYOND) -> list[int]:
    with file.reading() as files:
        return [one if isinstance(one, int) else one.number for one in entries_back(files, before, budget)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "logs").iterdir())


def test_lines_are_read_back_newest_first_over_all_files(tmp_path: Path) -> None:
    file = opened(tmp_path, most_bytes=3 * len(line(1)))
    assert file.write([line(number) for number in range(1, 10)]) == (9, None)
    assert numbers(file) == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert names(tmp_path) == [NAME, f"{NAME}.1", f"{NAME}.2"]
    assert file.last_number() == 9


def test_the_oldest_file_goes_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    file = opened(tmp_path, most_bytes=2 * len(line(1)), most_files=2)
    file.write([line(1)])
    (tmp_path / "logs" / f"{NAME}.bak").write_text("mine")
    file.write([line(number) for number in range(2, 8)])
    assert numbers(file) == [7, 6, 5]
    assert names(tmp_path) == [NAME, f"{NAME}.1", f"{NAME}.bak"]
    file.resize(most_bytes=10, most_files=1)
    file.write([line(8)])
    assert numbers(file) == [8]


def test_only_the_owner_reads_it(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.write([line(1)])
    assert (tmp_path / "logs" / NAME).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_not_there_has_no_entries_and_one_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    file = opened(tmp_path)
    assert file.last_number() == 0
    written, error = file.write([line(1)])
    assert written == 0
    assert isinstance(error, OSError)


def test_a_line_that_was_cut_by_a_crash_harms_no_other(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.write([line(1), line(2)[:-9]])
    first.close()
    again = opened(tmp_path)
    assert again.last_number() == 1
    again.write([line(3)])
    assert numbers(again) == [3, 1]


def test_a_file_that_somebody_moved_away_is_begun_anew(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.write([line(1)])
    (tmp_path / "logs" / NAME).rename(tmp_path / "elsewhere")
    file.write([line(2)])
    assert numbers(file) == [2]


def test_who_reads_is_not_disturbed_by_a_rotation(tmp_path: Path) -> None:
    file = opened(tmp_path, most_bytes=2 * len(line(1)), most_files=2)
    file.write([line(number) for number in range(1, 5)])
    with file.reading() as files:
        back = entries_back(files, BEYOND, BEYOND)
        seen = [next(back)]
        file.write([line(number) for number in range(5, 9)])
        seen += back
    assert [one.number for one in seen if isinstance(one, LogEntry)] == [4, 3, 2, 1]


def test_no_line_is_lost_when_many_write_while_files_are_rotated(tmp_path: Path) -> None:
    file = opened(tmp_path, most_bytes=500, most_files=100_000)
    start = threading.Barrier(4)

    def write(first: int) -> None:
        start.wait(10)
        for number in range(first, first + 100, 2):
            assert file.write([line(number), line(number + 1)]) == (2, None)

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    written = [one for path in (tmp_path / "logs").iterdir() for one in path.read_bytes().splitlines()]
    assert sorted(msgspec.json.decode(one)["number"] for one in written) == list(range(400))


def test_a_full_disk_leaves_whole_lines_and_writing_goes_on_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(tmp_path)
    file.write([line(1)])
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 5:
            return real(descriptor, data[:5])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", lambda descriptor, data: full(descriptor, data[:10]))
    written, error = file.write([line(2)])
    assert written == 0
    assert error is not None
    assert error.strerror == "No space left on device"
    monkeypatch.undo()
    assert (tmp_path / "logs" / NAME).read_bytes() == line(1)
    file.write([line(3)])
    assert numbers(file) == [3, 1]


def test_reading_ends_after_so_many_bytes_and_says_where_to_go_on(tmp_path: Path) -> None:
    file = opened(tmp_path, most_bytes=10 * len(line(10)))
    file.write([line(number) for number in range(10, 40)])
    *seen, go_on = numbers(file, budget=5 * len(line(10)))
    while go_on > 10:
        more = numbers(file, before=go_on, budget=5 * len(line(10)))
        if more[-1] == 10:
            seen += more
            break
        *more, go_on = more
        assert more
        seen += more
    assert seen == list(range(39, 9, -1))


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=100), max_size=50))
def test_lines_back_are_the_lines_reversed(texts: Sequence[str]) -> None:
    data = "".join(f"{text * 200}\n" for text in texts).encode()
    assert list(lines_back(io.BytesIO(data), len(data))) == [one for one in reversed(data.split(b"\n")) if one]


@given(st.lists(st.integers(0, 3_000), max_size=200), st.integers(0, 400))
def test_a_place_is_found_by_halving(sizes: list[int], wanted: int) -> None:
    lines = [line(2 * index + 1, "x" * size) for index, size in enumerate(sizes)]
    data = b"".join(lines)
    place = place_of(io.BytesIO(data), len(data), wanted)
    before = [one for index, one in enumerate(lines) if 2 * index + 1 < wanted]
    assert place == len(b"".join(before))
    assert len(data) < BLOCK_BYTES or place <= len(data)


def test_entries_are_read_on_from_a_number(tmp_path: Path) -> None:
    file = opened(tmp_path, most_bytes=4 * len(line(10)), most_files=10)
    file.write([line(number) for number in range(10, 30)])
    with file.reading() as files:
        assert [entry.number for entry in entries_on(files, 12, 5)] == [13, 14, 15, 16, 17]
        assert [entry.number for entry in entries_on(files, 0, 100)] == list(range(10, 30))
        assert entries_on(files, 29, 5) == []
