"""Log file — entries as lines of JSON in a few files of bounded size: `agentvm.jsonl`, then `agentvm.jsonl.1` and so on.

One thread writes, others read in the meantime. A reader opens all files at once under the writer's lock, so that a rotation
neither hides a line nor shows one twice. A line that was written only in part, because the disk is full or the process died, is
cut off or skipped. The numbers of entries grow from line to line and from file to file, so a reader finds its place by
bisection.

Warnings and errors are also in separate files (`warnings.jsonl`), so they survive a flood of other entries.
"""

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from agentvm.observability.log_entry import LogEntry

NAME = "agentvm.jsonl"
WARNINGS = "warnings.jsonl"
"""The file of warnings and errors, which survive a flood of other entries."""
BLOCK_BYTES = 64 * 1024

_SUFFIX = re.compile(r"|\.[1-9][0-9]{0,5}")
"""The suffix of a log file; other files may lie beside it."""


class _Numbered(msgspec.Struct):
    number: int


class LogFile:
    """The files of one name in a folder, created with the first line."""

    def __init__(self, folder: Path, *, most_bytes: int, most_files: int, name: str = NAME) -> None:
        self._folder, self._most_bytes, self._most_files = folder, most_bytes, most_files
        self._name = name
        self._lock = threading.Lock()
        self._open: int | None = None
        self._size = 0

    def resize(self, *, most_bytes: int, most_files: int) -> None:
        """Sets the bounds, which apply from the next line on."""
        with self._lock:
            self._most_bytes, self._most_files = most_bytes, most_files

    def write(self, lines: Sequence[bytes]) -> tuple[int, OSError | None]:
        """Writes lines; returns how many were written, and the error if not all were."""
        with self._lock:
            done = 0
            try:
                self._reach()
                while done < len(lines):
                    fitting = self._fitting(lines, done)
                    self._append(b"".join(lines[done : done + fitting]))
                    done += fitting
            except OSError as error:
                return done, error
            return done, None

    def close(self) -> None:
        with self._lock:
            self._leave()

    def last_number(self) -> int:
        """Returns the number of the newest entry; 0 without entries."""
        with self.reading() as files:
            for file in files:
                for line in lines_back(file, _end_of(file)):
                    if (number := _number_of(line)) is not None:
                        return number
        return 0

    @contextmanager
    def reading(self) -> Iterator[list[BinaryIO]]:
        """Opens the files for reading, the newest first."""
        with ExitStack() as stack:
            files: list[BinaryIO] = []
            with self._lock:
                for _, path in self._paths():
                    with suppress(OSError):
                        files.append(stack.enter_context(path.open("rb")))
            yield files

    def _paths(self) -> list[tuple[int, Path]]:
        """Returns the files by age, 0 for the current one. Some may be missing."""
        named = ((path.name.removeprefix(self._name), path) for path in self._folder.glob(f"{self._name}*"))
        return sorted((int(suffix[1:] or 0), path) for suffix, path in named if _SUFFIX.fullmatch(suffix))

    def _reach(self) -> None:
        """Opens the current file, also after another program has moved or removed it."""
        path = self._folder / self._name
        if self._open is not None:
            opened = os.fstat(self._open)
            with suppress(FileNotFoundError):
                if os.path.samestat(opened, path.stat()):
                    return
            self._leave()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._open).st_size
        if self._size and os.pread(self._open, 1, self._size - 1) != b"\n":
            # A process died within a line; the next one must not be appended to it.
            self._append(b"\n")

    def _leave(self) -> None:
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def _fitting(self, lines: Sequence[bytes], start: int) -> int:
        """Returns how many lines fit into the file, at least one; rotates the files if none does."""
        if self._size and self._size + len(lines[start]) > self._most_bytes:
            self._rotate()
        count, size = 1, self._size + len(lines[start])
        while start + count < len(lines) and size + len(lines[start + count]) <= self._most_bytes:
            size += len(lines[start + count])
            count += 1
        return count

    def _append(self, data: bytes) -> None:
        if self._open is None:
            raise OSError("the log file is not open")
        try:
            written = 0
            while written < len(data):
                written += os.write(self._open, data[written:])
        except OSError:
            # Files can be truncated even on a full disk.
            with suppress(OSError):
                os.ftruncate(self._open, self._size)
            raise
        self._size += len(data)

    def _rotate(self) -> None:
        for age, path in reversed(self._paths()):
            if age + 1 >= self._most_files:
                path.unlink(missing_ok=True)
            else:
                path.rename(self._folder / f"{self._name}.{age + 1}")
        self._reach()


def _anything(line: bytes) -> bool:
    return True


def entries_back(
    files: Iterable[BinaryIO], before: int, budget: int, maybe: Callable[[bytes], bool] = _anything
) -> Iterator[LogEntry | int]:
    """Yields entries with numbers below `before`, the newest first, of the lines for which `maybe` holds.

    When `budget` bytes were read and there are more, the last item is the number to continue below.
    """
    for file in files:
        size = _end_of(file)
        for line in lines_back(file, place_of(file, size, before)):
            budget -= len(line) + 1
            if budget <= 0 and (number := _number_of(line)) is not None and number < before:
                yield number + 1
                return
            entry = _entry_of(line) if maybe(line) else None
            # Numbers decrease; entries with wrong numbers are skipped.
            if entry is not None and entry.number < before:
                before = entry.number
                yield entry


def entries_on(files: Sequence[BinaryIO], after: int, limit: int) -> list[LogEntry]:
    """Returns up to `limit` entries with numbers above `after`, the oldest first."""
    entries: list[LogEntry] = []
    for file in reversed(files):
        size = _end_of(file)
        start = place_of(file, size, after + 1)
        file.seek(start)
        for line in file:
            entry = _entry_of(line)
            if entry is not None and entry.number > after:
                after = entry.number
                entries.append(entry)
                if len(entries) >= limit:
                    return entries
    return entries


def lines_back(file: BinaryIO, end: int) -> Iterator[bytes]:
    """Yields the lines before `end`, the last first."""
    rest = b""
    while end > 0:
        start = max(0, end - BLOCK_BYTES)
        file.seek(start)
        block = file.read(end - start) + rest
        end = start
        first, *others = block.split(b"\n")
        for line in reversed(others):
            if line:
                yield line
        rest = first
    if rest:
        yield rest


def place_of(file: BinaryIO, size: int, number: int) -> int:
    """Returns the offset where the entries from `number` on begin."""
    low, high = 0, size
    while high - low > BLOCK_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()
        start = file.tell()
        current = None
        while current is None and file.tell() < high:
            start = file.tell()
            current = _number_of(file.readline())
        if current is None or current >= number:
            high = middle
        else:
            low = start
    file.seek(low)
    if low == 0 and high == 0:
        return 0
    return _step(file, low, number, size)


def _step(file: BinaryIO, low: int, number: int, size: int) -> int:
    """Returns the same offset, searched line by line from an earlier one."""
    place = low
    while place < size:
        current = _number_of(line := file.readline())
        if not line or (current is not None and current >= number):
            break
        place += len(line)
    return place


def _end_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _number_of(line: bytes) -> int | None:
    try:
        return msgspec.json.decode(line, type=_Numbered).number
    except msgspec.MsgspecError:
        return None


def _entry_of(line: bytes) -> LogEntry | None:
    try:
        return msgspec.json.decode(line, type=LogEntry)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
