from pathlib import Path

import pytest

from agentvm.errors import StoreFailed
from agentvm.storage.engines.sqlite.datadir import lock_data_dir
from agentvm.storage.engines.sqlite.placing import PLACING, STAGED, finish_placing, make_stage, place, rename

OLD = {
    "agentvm.db": "old db",
    "agentvm.db-wal": "old wal",
    "agentvm.db-shm": "old shm",
    "server.key": "old key",
    "notes": "mine",
}
NEW = {"agentvm.db": "new db", "server.key": "new key"}


class PowerCut(Exception):
    pass


class Flaky:
    """Renames so many times, then the power is gone."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, source: Path, target: Path) -> None:
        if self.left == 0:
            raise PowerCut
        self.left -= 1
        rename(source, target)


def prepared(directory: Path) -> Path:
    directory.mkdir()
    for name, text in OLD.items():
        (directory / name).write_text(text)
    stage = make_stage(directory)
    for name, text in NEW.items():
        (stage / name).write_text(text)
    return directory


def texts(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir() if path.is_file()}


def test_new_files_take_the_place_of_old_ones_which_are_kept(tmp_path: Path) -> None:
    directory = prepared(tmp_path / "data")
    kept = place(directory)
    assert texts(directory) == {**NEW, "notes": "mine"}
    assert kept == directory / "replaced-1"
    assert texts(kept) == {name: text for name, text in OLD.items() if name != "notes"}
    assert {path.name for path in directory.iterdir() if path.is_dir()} == {"replaced-1"}


def test_a_crash_after_any_step_leaves_the_old_or_can_be_finished(tmp_path: Path) -> None:
    steps = 0
    while True:
        directory = prepared(tmp_path / str(steps))
        flaky = Flaky(steps)
        try:
            place(directory, flaky)
            break
        except PowerCut:
            steps += 1
        # The next start of a server finishes it, before it looks at anything.
        with lock_data_dir(directory):
            there = {name: text for name, text in texts(directory).items() if name != "agentvm.lock"}
        assert there == (OLD if steps == 1 else {**NEW, "notes": "mine"}), steps
        assert not (directory / PLACING).exists()
    assert steps > 6


def test_a_crash_while_finishing_can_be_finished_too(tmp_path: Path) -> None:
    directory = prepared(tmp_path / "data")
    with pytest.raises(PowerCut):
        place(directory, Flaky(1))
    cuts = 0
    while (directory / PLACING).exists():
        try:
            finish_placing(directory, Flaky(1))
        except PowerCut:
            cuts += 1
    assert texts(directory) == {**NEW, "notes": "mine"}
    assert texts(directory / "replaced-1") == {name: text for name, text in OLD.items() if name != "notes"}
    assert cuts > 3


def test_an_empty_directory_keeps_nothing_aside(tmp_path: Path) -> None:
    (make_stage(tmp_path) / "agentvm.db").write_text("new")
    assert place(tmp_path) is None
    assert [path.name for path in tmp_path.iterdir()] == ["agentvm.db"]


def test_each_replacement_has_a_folder_of_its_own(tmp_path: Path) -> None:
    for number in range(3):
        (make_stage(tmp_path) / "agentvm.db").write_text(str(number))
        place(tmp_path)
    assert texts(tmp_path / "replaced-2") == {"agentvm.db": "1"}
    assert finish_placing(tmp_path) is None


def test_what_an_earlier_try_staged_is_dropped(tmp_path: Path) -> None:
    (make_stage(tmp_path) / "half").write_text("x")
    assert list(make_stage(tmp_path).iterdir()) == []
    assert (tmp_path / STAGED).is_dir()


def test_what_cannot_be_moved_is_said(tmp_path: Path) -> None:
    directory = prepared(tmp_path / "data")

    def refuse(source: Path, target: Path) -> None:
        raise OSError("no")

    rename(directory / STAGED, directory / PLACING)
    with pytest.raises(StoreFailed, match="again to continue"):
        finish_placing(directory, refuse)
