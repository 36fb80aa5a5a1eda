"""Log book — what the server has logged: the newest entries in memory, all of them in files, and who follows as they come.

An entry gets its number, goes into the memory, and is left for the writer; that is all that whoever logs waits for. The memory
holds more than may wait for the writer, so what is not in the memory any more is in a file, or lost. Without files the memory
is all there is.
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
from agentvm.observability.log_filter import LogFilter, Sight
from agentvm.observability.log_limit import LogLimit
from agentvm.observability.log_writer import ROOM, LogWriter
from agentvm.observability.redact import Redactor

KEPT: Final = 2 * ROOM
"""Entries in memory. More than may wait for the writer."""

SCAN_BYTES = 16 * 1024 * 1024
"""How much of the files one question reads; the answer says where to go on."""
ERROR_BYTES = 128 * 1024 * 1024
"""How much of them the groups of errors are made of."""
CATCH_UP = 1_000
"""Entries that a follower who is behind reads at once."""
FLUSH_SECONDS = 5.0

BEYOND = 2**53 - 1
"""A number that no entry has."""


@dataclass(frozen=True, slots=True)
class Found:
    """Entries, the newest first; `next` is the number to go on below, None at the end."""

    entries: Sequence[LogEntry]
    next: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """Whether and how entries are kept in files."""

    folder: Path | None
    most_bytes: int
    most_files: int


class LogBook:
    """The log of this process. All that is logged goes into it while it is open."""

    def __init__(self, clock: Clock, redactor: Redactor, *, kept: int = KEPT, room: int = ROOM) -> None:
        self._clock, self._redactor, self._room = clock, redactor, room
        self._lock = threading.Lock()
        self._recent: deque[LogEntry] = deque(maxlen=kept)
        self._last = 0
        self._writer: LogWriter | None = None
        self._folder: Path | None = None
        self._followers: dict[Follower, None] = {}
        # Reading files takes a processor; two at once must be enough for everybody.
        self._readers = CapacityLimiter(2)

    def take(self, logger: str, method: str, facts: EventDict) -> None:
        """A sink; see `agentvm.log`."""
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

    async def keep(self, wanted: LogFiles) -> None:
        """From now on entries are kept like this."""
        writer = self._writer
        if writer is not None and wanted.folder == self._folder:
            for each in (writer.file, writer.warnings):
                if each is not None:
                    each.resize(most_bytes=wanted.most_bytes, most_files=wanted.most_files)
            return
        new = None
        if wanted.folder is not None:
            file = LogFile(wanted.folder, most_bytes=wanted.most_bytes, most_files=wanted.most_files)
            last = await to_thread.run_sync(file.last_number)
            apart = LogFile(wanted.folder, most_bytes=wanted.most_bytes, most_files=wanted.most_files, name=WARNINGS)
            new = LogWriter(file, apart, room=self._room)
        with self._lock:
            if new is not None:
                # Those from before it was open: they come after all that an earlier process wrote.
                self._last = max(self._last, last + len(self._recent))
                first = self._last - len(self._recent) + 1
                self._recent = deque(
                    (_numbered(entry, first + index) for index, entry in enumerate(self._recent)), self._recent.maxlen
                )
            self._writer, self._folder = new, wanted.folder
        if writer is not None:
            await to_thread.run_sync(writer.close, FLUSH_SECONDS)

    async def aclose(self) -> None:
        """Writes what waits; who follows hears the end."""
        for follower in tuple(self._followers):
            follower.end()
        await self.keep(LogFiles(folder=None, most_bytes=1, most_files=1))

    async def find(self, wanted: LogFilter, sight: Sight, *, before: int | None = None, limit: int) -> Found:
        """The newest entries below `before` that are asked for and seen. There may be fewer than `limit` and still a `next`."""
        search = functools.partial(self._find, wanted, sight, BEYOND if before is None else before, limit)
        return await to_thread.run_sync(search, limiter=self._readers)

    async def errors(self, wanted: LogFilter, sight: Sight) -> list[ErrorGroup]:
        """The errors that are still in the log, by what went wrong and where; those seen last are first."""

        def collect() -> list[ErrorGroup]:
            entries = self._back(BEYOND, ERROR_BYTES, may_be_error)
            return group(one for one in entries if isinstance(one, LogEntry) and wanted.matches(one) and sight.sees(one))

        return await to_thread.run_sync(collect, limiter=self._readers)

    @contextmanager
    def follow(self, wanted: LogFilter, sight: Sight, *, after: int | None = None) -> Iterator["Follower"]:
        """For who wants to hear of entries as they come, from those above `after` on, or from now on."""
        with self._lock:
            start = self._last if after is None else min(after, self._last)
        follower = Follower(self, wanted, sight, start)
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
        """Entries that are in no file although they should be, since the files were opened."""
        return 0 if self._writer is None else self._writer.lost

    async def after(self, number: int) -> list[LogEntry]:
        """Some of the entries above a number, the oldest first; none when there are none."""
        with self._lock:
            writer = self._writer
            first = self._recent[0].number if self._recent else self._last + 1
            # The numbers in the memory have no gaps. Whoever is not behind asks for each entry, so nothing else is looked at.
            fresh = min(len(self._recent), max(0, self._last - number))
            recent = list(islice(reversed(self._recent), fresh))[::-1]
        if number + 1 < first and writer is not None:
            older = await to_thread.run_sync(_read_on, writer.file, number, limiter=self._readers)
            if older := [entry for entry in older if entry.number < first]:
                return older
        return recent

    def _find(self, wanted: LogFilter, sight: Sight, before: int, limit: int) -> Found:
        found: list[LogEntry] = []
        for entry in self._back(before, SCAN_BYTES, wanted.may_match):
            if isinstance(entry, int):
                return Found(found, entry)
            if sight.sees(entry) and wanted.matches(entry):
                if len(found) == limit:
                    return Found(found, found[-1].number)
                found.append(entry)
        return Found(found, None)

    def _back(self, before: int, budget: int, maybe: Callable[[bytes], bool]) -> Iterator[LogEntry | int]:
        """The entries below a number, the newest first; ends with a number to go on below when there are more to be read."""
        with self._lock:
            recent, writer = list(self._recent), self._writer
        yield from (entry for entry in reversed(recent) if entry.number < before)
        if writer is not None:
            with ExitStack() as stack:
                files = stack.enter_context(writer.file.reading())
                if writer.warnings is not None:
                    # Behind the others: what is in both was seen by then, and each entry is below the last.
                    files += stack.enter_context(writer.warnings.reading())
                yield from entries_back(files, min(before, recent[0].number) if recent else before, budget, maybe)


def _numbered(entry: LogEntry, number: int) -> LogEntry:
    return msgspec.structs.replace(entry, number=number)


def _read_on(file: LogFile, after: int) -> list[LogEntry]:
    with file.reading() as files:
        return entries_on(files, after, CATCH_UP)


class Follower:
    """Somebody who hears of entries as they come: each once, in their order."""

    def __init__(self, book: LogBook, wanted: LogFilter, sight: Sight, start: int) -> None:
        self._book, self._wanted, self._sight, self._at = book, wanted, sight, start
        self._loop = asyncio.get_running_loop()
        self._news = anyio.Event()
        self._woken = self._ended = False

    async def take(self) -> list[LogEntry]:
        """What has come meanwhile, at least one; none at all when the log ends. To be asked again after a cancellation."""
        while not self._ended:
            # Before looking: what comes while it looks wakes it again.
            self._news, self._woken = anyio.Event(), False
            fresh = await self._book.after(self._at)
            if fresh:
                self._at = fresh[-1].number
                if seen := [entry for entry in fresh if self._sight.sees(entry) and self._wanted.matches(entry)]:
                    return seen
            else:
                await self._news.wait()
        return []

    def wake(self) -> None:
        """From any thread."""
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                # The loop is closed, and with it whoever waited.
                self._ended = True

    def end(self) -> None:
        self._ended = True
        self.wake()
        self._news.set()

    def _wake(self) -> None:
        self._news.set()


@asynccontextmanager
async def open_log_book(clock: Clock, redactor: Redactor) -> AsyncIterator[LogBook]:
    """The log of this process, from now until the `async with` ends; in memory until it is told to `keep` it in files."""
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
