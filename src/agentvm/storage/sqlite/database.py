"""Database — one SQLite file, used from the event loop without ever blocking it.

Theory of operation. SQLite has one writer at a time and pays for each commit with a sync of the disk. So one thread
owns the only writing connection and takes everything that waits: those jobs share one transaction and one sync, each in
a savepoint of its own, so that one that fails does not take its neighbours with it. The callers hear the outcome after
COMMIT. Reads run beside it on threads with read-only connections; in WAL mode neither waits for the other. A database
in memory belongs to its connection, so there, as without readers, reads go through the writer as well.

Rules:
- Work is a plain function of a connection. It runs in a thread, reads its cursors to the end and never touches the
  transaction (BEGIN, COMMIT, SAVEPOINT ...).
- At most `capacity` jobs are accepted at a time; a further caller waits on the event loop.
- A caller that is cancelled stops waiting; its job is not called back. A cancelled write may therefore still commit.
- An error of COMMIT fails every job of the batch with `StoreFailed`. The transaction is rolled back and the next batch
  starts afresh, so writes succeed again as soon as the disk does.
- Where one job makes SQLite drop the whole transaction, as one that no longer fits on the disk does, the jobs of the
  batch run again one by one. Work must therefore bear being run twice.
- Leaving the context refuses new work, finishes what was accepted, then closes the connections and joins the threads.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

import anyio
import anyio.to_thread
import apsw
import msgspec

from agentvm.errors import AgentVMError, RecordUnreadable, StoreFailed
from agentvm.log import get_logger
from agentvm.storage.sqlite.migrations import create, load_migrations, migrate

logger = get_logger(__name__)

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]

DEFAULT_CAPACITY = 1024
DEFAULT_READERS = 2
BUSY_TIMEOUT_MS = 5_000
_STATEMENT_CACHE = 128

# What a job can raise by its own fault: SQL errors, values SQLite cannot hold, rows that cannot be decoded.
# Anything else is a bug in this package; it ends the thread and fails whoever waits.
_JOB_ERRORS = (apsw.Error, AgentVMError, ValueError, TypeError, OverflowError, MemoryError, RecursionError)


class _Job(Generic[T]):
    """One piece of work, whose outcome the thread writes and the event loop hands to the waiter."""

    __slots__ = ("apart", "error", "future", "result", "work")

    def __init__(self, work: Work[T], future: asyncio.Future[T], *, apart: bool = False) -> None:
        self.work = work
        self.future = future
        self.apart = apart
        """Whether it runs outside of a transaction."""
        self.result: T
        self.error: AgentVMError | None = None

    def fail(self, complaint: str, cause: BaseException) -> None:
        if isinstance(cause, AgentVMError):
            self.error = cause
        else:
            # One exception each: waiters in different tasks would otherwise share a traceback.
            kind = RecordUnreadable if isinstance(cause, msgspec.DecodeError) else StoreFailed
            self.error = kind(f"{complaint}: {cause}")
            self.error.__cause__ = cause

    def deliver(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        elif hasattr(self, "result"):
            self.future.set_result(self.result)
        else:
            self.future.set_exception(StoreFailed("The database thread stopped; see the log of the server"))


class _Lane:
    """A bounded queue and the threads that serve it, each with a connection of its own."""

    def __init__(
        self,
        serve: Callable[[apsw.Connection, Sequence[_Job[object]]], None],
        connections: Sequence[apsw.Connection],
        *,
        name: str,
        batch: int,
        capacity: int,
    ) -> None:
        self._serve = serve
        self._batch = batch
        self._loop = asyncio.get_running_loop()
        self._room = anyio.Semaphore(capacity, fast_acquire=True)
        # Unbounded as such: `_room` bounds it. None tells one thread to stop.
        self._queue: SimpleQueue[_Job[object] | None] = SimpleQueue()
        self._closed = False
        self._running = len(connections)
        self._stopped = anyio.Event()
        # Daemons, because a process that dies without leaving the context must not hang; SQLite survives that.
        self._threads = tuple(
            threading.Thread(target=self._run, args=(connection,), name=f"{name}-{number}", daemon=True)
            for number, connection in enumerate(connections)
        )
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that no thread has taken yet."""
        return self._queue.qsize()

    async def submit(self, work: Work[T], *, apart: bool = False) -> T:
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise StoreFailed("The database is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(work, future, apart=apart))  # type: ignore[arg-type]  # jobs of all result types share the queue
        return await future

    def refuse(self) -> None:
        """From now on no work is accepted."""
        self._closed = True

    async def aclose(self) -> None:
        """Finishes what was accepted, then ends the threads; not interruptible, because half a shutdown is none."""
        self.refuse()
        with anyio.CancelScope(shield=True):
            for _ in self._threads:
                self._queue.put(None)
            await self._stopped.wait()
        for thread in self._threads:
            thread.join()

    def _run(self, connection: apsw.Connection) -> None:
        jobs: list[_Job[object]] = []
        try:
            while jobs := self._take():
                self._serve(connection, jobs)
                self._loop.call_soon_threadsafe(self._deliver, jobs)
        finally:
            try:
                connection.close()
            except apsw.Error as error:
                # A disk that fails cannot take the write-ahead log into the file; the next start does it.
                logger.error("database_not_folded", error=str(error))
            finally:
                self._loop.call_soon_threadsafe(self._thread_ended, jobs)

    def _take(self) -> list[_Job[object]]:
        """Waits for the first job and takes what waits behind it; empty when the thread shall end."""
        job = self._queue.get()
        jobs = []
        try:
            while job is not None:
                jobs.append(job)
                if len(jobs) == self._batch:
                    return jobs
                job = self._queue.get_nowait()
        except Empty:
            return jobs
        if jobs:
            # These come first; the order to stop is read again afterwards.
            self._queue.put(None)
        return jobs

    def _deliver(self, jobs: Sequence[_Job[object]]) -> None:
        for job in jobs:
            self._room.release()
            job.deliver()

    def _thread_ended(self, unfinished: Sequence[_Job[object]]) -> None:
        self._deliver(unfinished)
        self._running -= 1
        if self._running == 0:
            self._closed = True
            while not self._queue.empty():
                job = self._queue.get_nowait()
                if job is not None:
                    self._deliver((job,))
            self._stopped.set()


class Database:
    """Runs work on a SQLite database; obtained from `open_database`, used from the event loop that opened it."""

    def __init__(self, writer: _Lane, readers: _Lane) -> None:
        self._writer = writer
        self._readers = readers

    @property
    def waiting(self) -> int:
        """Jobs that no thread has taken yet."""
        return sum(lane.waiting for lane in {self._writer, self._readers})

    async def write(self, work: Work[T]) -> T:
        """Runs the work in a transaction and returns when it is committed and synced; a failure leaves nothing behind."""
        return await self._writer.submit(work)

    async def apart(self, work: Work[T]) -> T:
        """Runs the work on the connection that writes, outside of a transaction: for what SQLite does not do within one."""
        return await self._writer.submit(work, apart=True)

    async def read(self, work: Work[T]) -> T:
        """Runs the work on a read-only connection; it sees every write that was acknowledged before."""
        return await self._readers.submit(work)


@asynccontextmanager
async def open_database(
    path: Path | None, *, readers: int = DEFAULT_READERS, capacity: int = DEFAULT_CAPACITY
) -> AsyncGenerator[Database]:
    """A migrated database in the given file, or in memory for None. `StoreFailed` or `MigrationUnknown` when it cannot be."""
    connections = await anyio.to_thread.run_sync(_connect, path, readers)
    writer = _Lane(commit_together, connections[:1], name="sqlite-writer", batch=capacity, capacity=capacity)
    if len(connections) == 1:
        try:
            yield Database(writer, writer)
        finally:
            await writer.aclose()
        return
    beside = _Lane(read_one, connections[1:], name="sqlite-reader", batch=1, capacity=capacity)
    try:
        yield Database(writer, beside)
    finally:
        writer.refuse()
        # Readers first: the connection that closes last folds the write-ahead log into the file.
        await beside.aclose()
        await writer.aclose()


@asynccontextmanager
async def open_readers(connect: Callable[[], apsw.Connection]) -> AsyncGenerator[Database]:
    """A database that is only read, with a connection of the caller's own. A write fails with `StoreFailed`."""
    lane = _Lane(read_one, (await anyio.to_thread.run_sync(connect),), name="sqlite-only", batch=1, capacity=DEFAULT_CAPACITY)
    try:
        yield Database(lane, lane)
    finally:
        await lane.aclose()


def commit_together(connection: apsw.Connection, jobs: Sequence[_Job[object]]) -> None:
    """Runs the jobs in one transaction, each in its own savepoint; then, one by one, those that need none."""
    together = [job for job in jobs if not job.apart]
    if together:
        _commit(connection, together)
    read_one(connection, [job for job in jobs if job.apart])


def _commit(connection: apsw.Connection, jobs: Sequence[_Job[object]]) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
        kept = all(_run_in_savepoint(connection, job) for job in jobs)
        if kept:
            connection.execute("COMMIT")
    except apsw.Error as error:
        _roll_back(connection)
        for job in jobs:
            if job.error is None:
                job.fail("The database failed and nothing was stored", error)
        return
    if not kept and len(jobs) > 1:
        for job in jobs:
            _commit(connection, (job,))


def _run_in_savepoint(connection: apsw.Connection, job: _Job[object]) -> bool:
    """Whether the transaction is still there: on a full disk SQLite drops all of it, the neighbours' work included."""
    connection.execute("SAVEPOINT job")
    try:
        job.result, job.error = job.work(connection), None
    except _JOB_ERRORS as error:
        job.fail("The database failed and nothing was stored", error)
        if not connection.in_transaction:
            return False
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")
    return True


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        try:
            connection.execute("ROLLBACK")
        except apsw.Error:
            # SQLite reports the error that made it roll back; being outside a transaction is what counts.
            return


def read_one(connection: apsw.Connection, jobs: Sequence[_Job[object]]) -> None:
    """Runs each job by itself; a single statement sees one consistent state of the database."""
    for job in jobs:
        try:
            job.result = job.work(connection)
        except _JOB_ERRORS as error:
            job.fail("The database could not be read", error)


def _connect(path: Path | None, readers: int) -> tuple[apsw.Connection, ...]:
    opened: list[apsw.Connection] = []
    try:
        # Absolute, so that no file name is taken for one of SQLite's special names.
        filename = ":memory:" if path is None else str(path.absolute())
        opened.append(apsw.Connection(filename, statementcachesize=_STATEMENT_CACHE))
        _prepare(opened[0], in_memory=path is None)
        for _ in range(0 if path is None else readers):
            flags = apsw.SQLITE_OPEN_READONLY
            opened.append(apsw.Connection(filename, flags=flags, statementcachesize=_STATEMENT_CACHE))
            opened[-1].set_busy_timeout(BUSY_TIMEOUT_MS)
    except (apsw.Error, AgentVMError) as error:
        for connection in opened:
            connection.close()
        if isinstance(error, AgentVMError):
            raise
        raise StoreFailed(f"Cannot open the database {path or 'in memory'}: {error}") from error
    return tuple(opened)


def _prepare(connection: apsw.Connection, *, in_memory: bool) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.pragma("foreign_keys", True)
    connection.transaction_mode = "IMMEDIATE"
    # Before anything is changed: a database from a newer AgentVM stays as it is.
    migrations = load_migrations()
    mode = connection.pragma("journal_mode", "wal") if connection.pragma("user_version") <= len(migrations) else None
    if mode not in (None, "memory" if in_memory else "wal"):
        raise StoreFailed(f"The database cannot use a write-ahead log here (journal mode {mode}): use a local disk")
    # What is deleted is overwritten: rows in their pages, and pages that nothing uses any more.
    connection.pragma("secure_delete", True)
    connection.pragma("synchronous", "full")
    # macOS acknowledges a plain fsync before the data is on the disk; elsewhere these do nothing.
    connection.pragma("fullfsync", True)
    connection.pragma("checkpoint_fullfsync", True)
    (create if in_memory else migrate)(connection, migrations)
