import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from structlog.typing import EventDict

from agentvm import log
from agentvm.observability.log_entry import LogEntry
from agentvm.observability.log_file import LogFile
from agentvm.observability.log_writer import LogWriter


class SlowFile(LogFile):
    """A disk that writes when it is let, and fails when it is told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, most_bytes=10_000, most_files=2)
        self.let, self.begun = threading.Event(), threading.Event()
        self.error: OSError | None = None
        self.lines: list[bytes] = []

    def write(self, lines: Sequence[bytes]) -> tuple[int, OSError | None]:
        self.begun.set()
        assert self.let.wait(60)
        if self.error is not None:
            return 0, self.error
        self.lines += lines
        return len(lines), None


@pytest.fixture
def told() -> Iterator[list[EventDict]]:
    entries: list[EventDict] = []

    def sink(logger: str, level: str, facts: EventDict) -> None:
        entries.append(facts)

    log.sinks.append(sink)
    yield entries
    log.sinks.remove(sink)


def entry(number: int) -> LogEntry:
    return LogEntry(number=number, at=1, level="info", event="e", logger="l")


def test_who_logs_does_not_wait_for_the_disk_and_what_has_no_room_is_counted_and_told(
    tmp_path: Path, told: list[EventDict]
) -> None:
    file = SlowFile(tmp_path)
    writer = LogWriter(file, room=3)
    writer.put(entry(0))
    assert file.begun.wait(60)
    for number in range(1, 6):
        writer.put(entry(number))
    assert writer.lost == 2
    file.let.set()
    assert writer.flush(10)
    assert len(file.lines) == 4
    assert told == [{"event": "log_entries_lost", "count": 2}]
    writer.put(entry(6))
    writer.close(10)
    assert len(file.lines) == 5
    assert len(told) == 1


def test_a_full_disk_is_told_once_and_when_there_is_room_again_how_much_was_lost(tmp_path: Path, told: list[EventDict]) -> None:
    file = SlowFile(tmp_path)
    file.let.set()
    file.error = OSError(28, "No space left on device")
    writer = LogWriter(file)
    for number in range(3):
        writer.put(entry(number))
        assert writer.flush(10)
    assert [(one["event"], one["error"]) for one in told] == [("log_not_written", "No space left on device")]
    file.error = None
    writer.put(entry(3))
    assert writer.flush(10)
    assert told[1:] == [{"event": "log_entries_lost", "count": 3}]
    assert len(file.lines) == 1
    writer.close(10)


def test_a_writer_that_was_closed_takes_nothing_and_one_that_was_never_used_has_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    writer = LogWriter(LogFile(tmp_path / "logs", most_bytes=100, most_files=1))
    assert threading.active_count() == before
    writer.close(10)
    writer.put(entry(1))
    assert writer.lost == 1
    assert not (tmp_path / "logs").exists()
