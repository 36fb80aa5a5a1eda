"""Log writer — a thread that writes entries to the log file, so that nobody who logs waits for a disk.

What waits for it is bounded. An entry for which there is no room, or no disk, is lost and counted, and the next entries that
can be written say how many.
"""

import threading
from collections import deque
from collections.abc import Sequence

import msgspec

from agentvm.log import get_logger
from agentvm.observability.log_entry import LogEntry
from agentvm.observability.log_file import LogFile

logger = get_logger(__name__)

ROOM = 1_000
"""Entries that may wait."""


SEVERE = ("warning", "error", "critical")


def _line(entry: LogEntry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


class LogWriter:
    """Writes to one file, and warnings to another as well.

    Its thread begins with the first entry: a server that says nothing has none.
    """

    def __init__(self, file: LogFile, warnings: LogFile | None = None, *, room: int = ROOM) -> None:
        self.file = file
        self.warnings = warnings
        """For those of the entries that are warnings or worse, once more."""
        self.lost = 0
        """Entries that are in no file, since the start."""
        self._told = 0
        self._room = room
        self._waiting: deque[LogEntry] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = self._closing = self._failing = False

    def put(self, entry: LogEntry) -> None:
        """From any thread; never waits for the disk, never raises."""
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
        """Waits until all that was put is written or lost; False when that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def close(self, seconds: float) -> None:
        """Writes what waits, for so long, and ends."""
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
            lost, failed_before = self.lost - self._told, self._failing
            self._failing = error is not None
            if error is None:
                self._told = self.lost
        if error is not None and not failed_before:
            # Once: what is logged about it has to be written too.
            logger.error("log_not_written", error=error.strerror or type(error).__name__, remedy="make room on the disk")
        elif error is None and lost:
            logger.warning("log_entries_lost", count=lost)
