"""Log book — the log of the server: the newest entries in memory, all entries in files, and followers of new entries.

Logging numbers an entry, adds it to the memory and queues it for the writer. The memory holds more entries than the writer's
queue, so an entry that is no longer in memory is in a file, or lost. Without files the log is in memory only.
"""

import asyncio
import functools
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import anyio
import msgspec
from anyio import CapacityLimiter, to_thread
from structlog.typing import EventDict

from agentvm.log import gates, sinks
from agentvm.model.ids import Clock
from agentvm.observability.error_groups import ErrorGroup, group, may_be_error
from agentvm.observability.log_entry import LogEntry, make_entry
from agentvm.observability.log_file import WARNINGS, LogFile, entries_back, entries_on
from agentvm.observability.log_filter import LogFilter, LogScope
from agentvm.observability.log_limit import LogLimit
from agentvm.observability.log_writer import WAITING_ENTRIES_MAX, LogWriter
from agentvm.observability.redact import Redactor

RECENT_ENTRIES_MAX: Final = 2 * WAITING_ENTRIES_MAX
"""Entries in memory, more than in the writer's queue."""

SCAN_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of the files that one search reads; the result has the position to continue from."""
ERROR_SCAN_BYTES_MAX = 128 * 1024 * 1024
"""Bytes of the files that error groups are computed from."""
CATCH_UP_ENTRIES_MAX = 1_000
"""Entries that a follower reads at once to catch up."""
FLUSH_SECONDS = 5.0

NUMBER_MAX = 2**53 - 1
"""An upper bound of the numbers of entries."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Entries, the newest first; `next` is the number to continue below, None at the end."""

    entries: Sequence[LogEntry]
    next: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """The folder and the bounds of the log files; without a folder there are none."""

    folder: Path | None
    most_bytes: int
    most_files: int


class LogBook:
    """The log of this process. While it is open, it receives all entries."""

    def __init__(
        self, clock: Clock, redactor: Redactor, *, entries_max: int = RECENT_ENTRIES_MAX, room: int = WAITING_ENTRIES_MAX
    ) -> None:
        self._clock, self._redactor, self._room = clock, redactor, room
        self._lock = threading.Lock()
        self._recent: deque[LogEntry] = deque(maxlen=entries_max)
        self._last = 0
        self._writer: LogWriter | None = None
        self._folder: Path | None = None
        self._followers: dict[LogFollower, None] = {}
        # Reading files takes CPU time; two readers at once must be enough.
        self._readers = CapacityLimiter(2)

    def take(self, logger: str, method: str, facts: EventDict) -> None:
        """Adds an entry. A sink of `agentvm.log`."""
        entry = make_entry(0, self._clock(), logger, method, facts, self._redactor)
        with self._lock:
            self._last += 1
            entry = _numbered(entry, self._last)
            self._recent.append(entry)
            if self._writer is not None:
                self._writer.put(entry)
            followers = tuple(self._followers)
        for follower in followers:
            follower.wake()

    async def keep(self, files: LogFiles) -> None:
        """Opens, resizes or closes the log files."""
        writer = self._writer
        if writer is not None and files.folder == self._folder:
            for file in (writer.file, writer.warnings):
                if file is not None:
                    file.resize(most_bytes=files.most_bytes, most_files=files.most_files)
            return
        new = None
        if files.folder is not None:
            file = LogFile(files.folder, most_bytes=files.most_bytes, most_files=files.most_files)
            last = await to_thread.run_sync(file.last_number)
            warnings = LogFile(files.folder, most_bytes=files.most_bytes, most_files=files.most_files, name=WARNINGS)
            new = LogWriter(file, warnings, room=self._room)
        with self._lock:
            if new is not None:
                # Entries from before the files were open get numbers after those of earlier processes.
                self._last = max(self._last, last + len(self._recent))
                first = self._last - len(self._recent) + 1
                self._recent = deque(
                    (_numbered(entry, first + index) for index, entry in enumerate(self._recent)), self._recent.maxlen
                )
            self._writer, self._folder = new, files.folder
        if writer is not None:
            await to_thread.run_sync(writer.close, FLUSH_SECONDS)

    async def aclose(self) -> None:
        """Writes the queued entries, and ends the followers."""
        for follower in tuple(self._followers):
            follower.end()
        await self.keep(LogFiles(folder=None, most_bytes=1, most_files=1))

    async def find(self, criteria: LogFilter, scope: LogScope, *, before: int | None = None, limit: int) -> LogPage:
        """Returns the newest visible entries below `before` that match. There may be fewer than `limit` and still a `next`."""
        search = functools.partial(self._find, criteria, scope, NUMBER_MAX if before is None else before, limit)
        return await to_thread.run_sync(search, limiter=self._readers)

    async def errors(self, criteria: LogFilter, scope: LogScope) -> list[ErrorGroup]:
        """Returns the errors in the log, grouped by code and place; the last seen first."""

        def collect() -> list[ErrorGroup]:
            entries = self._back(NUMBER_MAX, ERROR_SCAN_BYTES_MAX, may_be_error)
            return group(
                entry for entry in entries if isinstance(entry, LogEntry) and criteria.matches(entry) and scope.sees(entry)
            )

        return await to_thread.run_sync(collect, limiter=self._readers)

    @contextmanager
    def follow(self, criteria: LogFilter, scope: LogScope, *, after: int | None = None) -> Iterator["LogFollower"]:
        """Follows new entries that match: those above `after`, or from now on."""
        with self._lock:
            start = self._last if after is None else min(after, self._last)
        follower = LogFollower(self, criteria, scope, start)
        with self._lock:
            self._followers[follower] = None
        try:
            yield follower
        finally:
            with self._lock:
                del self._followers[follower]

    @property
    def last(self) -> int:
        """The number of the newest entry."""
        return self._last

    @property
    def lost(self) -> int:
        """Entries since the files were opened that could not be written."""
        return 0 if self._writer is None else self._writer.lost

    async def after(self, number: int) -> list[LogEntry]:
        """Returns some of the entries above a number, the oldest first."""
        with self._lock:
            writer = self._writer
            first = self._recent[0].number if self._recent else self._last + 1
            # The numbers in memory have no gaps, so only new entries are looked at.
            fresh = min(len(self._recent), max(0, self._last - number))
            recent = list(islice(reversed(self._recent), fresh))[::-1]
        if number + 1 < first and writer is not None:
            older = await to_thread.run_sync(_read_on, writer.file, number, limiter=self._readers)
            if older := [entry for entry in older if entry.number < first]:
                return older
        return recent

    def _find(self, criteria: LogFilter, scope: LogScope, before: int, limit: int) -> LogPage:
        page: list[LogEntry] = []
        for entry in self._back(before, SCAN_BYTES_MAX, criteria.may_match):
            if isinstance(entry, int):
                return LogPage(page, entry)
            if scope.sees(entry) and criteria.matches(entry):
                if len(page) == limit:
                    return LogPage(page, page[-1].number)
                page.append(entry)
        return LogPage(page, None)

    def _back(self, before: int, budget: int, maybe: Callable[[bytes], bool]) -> Iterator[LogEntry | int]:
        """Yields the entries below a number, the newest first; at last a number to continue below, if there are more."""
        with self._lock:
            recent, writer = list(self._recent), self._writer
        yield from (entry for entry in reversed(recent) if entry.number < before)
        if writer is not None:
            with ExitStack() as stack:
                files = stack.enter_context(writer.file.reading())
                if writer.warnings is not None:
                    # After the others: entries that are in both were yielded by then, and numbers decrease.
                    files += stack.enter_context(writer.warnings.reading())
                yield from entries_back(files, min(before, recent[0].number) if recent else before, budget, maybe)


def _numbered(entry: LogEntry, number: int) -> LogEntry:
    return msgspec.structs.replace(entry, number=number)


def _read_on(file: LogFile, after: int) -> list[LogEntry]:
    with file.reading() as files:
        return entries_on(files, after, CATCH_UP_ENTRIES_MAX)


class LogFollower:
    """A follower of new entries: each once, in order."""

    def __init__(self, book: LogBook, criteria: LogFilter, scope: LogScope, start: int) -> None:
        self._book, self._criteria, self._scope, self._at = book, criteria, scope, start
        self._loop = asyncio.get_running_loop()
        self._news = anyio.Event()
        self._woken = self._ended = False

    async def take(self) -> list[LogEntry]:
        """Waits for new entries; returns none when the log ends. May be called again after a cancellation."""
        while not self._ended:
            # Before reading: an entry that comes meanwhile wakes it again.
            self._news, self._woken = anyio.Event(), False
            fresh = await self._book.after(self._at)
            if fresh:
                self._at = fresh[-1].number
                if seen := [entry for entry in fresh if self._scope.sees(entry) and self._criteria.matches(entry)]:
                    return seen
            else:
                await self._news.wait()
        return []

    def wake(self) -> None:
        """Wakes the follower. From any thread."""
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                # The event loop is closed, and with it the follower.
                self._ended = True

    def end(self) -> None:
        self._ended = True
        self.wake()
        self._news.set()

    def _wake(self) -> None:
        self._news.set()


@asynccontextmanager
async def open_log_book(clock: Clock, redactor: Redactor) -> AsyncIterator[LogBook]:
    """Opens the log of this process; it is in memory until `keep` opens files."""
    book, limit = LogBook(clock, redactor), LogLimit(clock)
    sinks.append(book.take)
    gates.append(limit.admit)
    try:
        yield book
    finally:
        gates.remove(limit.admit)
        limit.flush()
        with anyio.CancelScope(shield=True):
            await book.aclose()
        sinks.remove(book.take)
