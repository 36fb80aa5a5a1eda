"""Log writer — a thread that writes entries to the log file, so that logging never waits for a disk.

Its queue is bounded. An entry that finds the queue or the disk full is lost and counted; a later entry has the count.
"""

import threading
from collections import deque
from collections.abc import Sequence

import msgspec

from agentvm.log import get_logger
from agentvm.observability.log_entry import LogEntry
from agentvm.observability.log_file import LogFile

logger = get_logger(__name__)

WAITING_ENTRIES_MAX = 1_000
"""Entries in the queue."""

SEVERE = ("warning", "error", "critical")


def _line(entry: LogEntry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


class LogWriter:
    """Writes to one file, and warnings to another as well. Its thread starts with the first entry."""

    def __init__(self, file: LogFile, warnings: LogFile | None = None, *, room: int = WAITING_ENTRIES_MAX) -> None:
        self.file = file
        self.warnings = warnings
        """The file of warnings and errors."""
        self.lost = 0
        """Entries since the start that are in no file."""
        self._reported = 0
        self._room = room
        self._waiting: deque[LogEntry] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = self._closing = self._failing = False

    def put(self, entry: LogEntry) -> None:
        """Queues an entry. From any thread; never waits for the disk, never raises."""
        with self._changed:
            if self._closing or len(self._waiting) >= self._room:
                self.lost += 1
                return
            self._waiting.append(entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agentvm-log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Waits until all queued entries are written or lost; returns False after a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def close(self, seconds: float) -> None:
        """Writes the queued entries, with a timeout, and ends the thread."""
        self.flush(seconds)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)
        self.file.close()
        if self.warnings is not None:
            self.warnings.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                batch = list(self._waiting)
                self._waiting.clear()
                self._busy = True
            self._write(batch)

    def _write(self, batch: Sequence[LogEntry]) -> None:
        written, error = self.file.write([_line(entry) for entry in batch])
        if self.warnings is not None:
            severe = [_line(entry) for entry in batch if entry.level in SEVERE]
            if severe:
                _, failed = self.warnings.write(severe)
                error = error or failed
        with self._changed:
            self.lost += len(batch) - written
            lost, failed_before = self.lost - self._reported, self._failing
            self._failing = error is not None
            if error is None:
                self._reported = self.lost
        if error is not None and not failed_before:
            # Once: this entry has to be written, too.
            logger.error("log_not_written", error=error.strerror or type(error).__name__, remedy="make room on the disk")
        elif error is None and lost:
            logger.warning("log_entries_lost", count=lost)
