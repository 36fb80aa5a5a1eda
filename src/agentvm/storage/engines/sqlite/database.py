"""Database — one SQLite file, used from the event loop without ever blocking it.

Theory of operation. SQLite has one writer at a time and pays for each commit with a sync of the disk. So one thread owns the
only writing connection and takes the waiting jobs: those jobs share one transaction and one sync, each in a savepoint of its
own, so that one that fails does not take its neighbours with it. The callers hear the outcome after COMMIT. Reads run beside it
on threads with read-only connections; in WAL mode neither waits for the other. A database in memory belongs to its connection,
so there, as without readers, reads go through the writer as well.

Every job belongs to a tenant, or to the server itself, and tenants are served in turn: see `lane.py`.

Rules:
- Work is a plain function of a connection. It runs in a thread, reads its cursors to the end and never touches the transaction
  (BEGIN, COMMIT, SAVEPOINT ...).
- At most `capacity` jobs are accepted at a time, and half as many of one tenant; a further caller waits on the event loop.
- A caller that is cancelled stops waiting. Its read is dropped, or interrupted; its write may still commit.
- An error of COMMIT fails every job of the batch with `StoreFailed`. The transaction is rolled back and the next batch starts
  afresh, so writes succeed again as soon as the disk does.
- Where one job makes SQLite drop the whole transaction, as one that no longer fits on the disk does, the jobs of the batch run
  again one by one. Work must therefore bear being run twice.
- Leaving the context refuses new work, finishes accepted jobs, then closes the connections and joins the threads.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
import apsw

from agentvm.errors import AgentVMError, StoreFailed
from agentvm.model.ids import TenantId
from agentvm.model.node import DatabaseState
from agentvm.storage.engines import lane
from agentvm.storage.engines.lane import Lane, StatementEnded
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.datadir import DATABASE
from agentvm.storage.engines.sqlite.migrations import create, create_file, distrust_schema, load_migrations, migrate
from agentvm.storage.engines.sqlite.placing import COMPANIONS
from agentvm.storage.engines.sqlite.private import make_private, restrict_to_owner
from agentvm.storage.engines.sqlite.slack import BUSY_TIMEOUT_MS, clean_pages
from agentvm.storage.sql.connection import Scrubbed

__all__ = ["SqliteDatabase", "Work", "commit_together", "open_database", "open_readers", "read_one"]

T = TypeVar("T")

Work = lane.Work[SqliteConnection, T]
LaneJob = lane.LaneJob[SqliteConnection, T]

CAPACITY_MAX = 1024
READERS_MAX = 4
_CACHED_STATEMENTS_MAX = 128
_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"

# What a job can raise by its own fault: SQL errors, values SQLite cannot hold, rows that cannot be decoded.
# Anything else is a bug in this package; it ends the thread and fails whoever waits.
_JOB_ERRORS = (apsw.Error, StatementEnded, AgentVMError, ValueError, TypeError, OverflowError, MemoryError, RecursionError)


class SqliteDatabase:
    """Runs work on a SQLite database; obtained from `open_database`, used from the event loop that opened it.

    Work waits in the turn of `tenant_id`; None is the server itself, which has a turn like any tenant.
    """

    node_id = 0
    """A file is used by one server."""

    def __init__(
        self, writer: Lane[SqliteConnection], readers: Lane[SqliteConnection], tenant_id: TenantId | None = None
    ) -> None:
        self._writer = writer
        self._readers = readers
        self.tenant_id = tenant_id

    def of(self, tenant_id: TenantId | None) -> "SqliteDatabase":
        """The same database for the work of one tenant. Every store of a tenant has its own."""
        return SqliteDatabase(self._writer, self._readers, tenant_id)

    @property
    def waiting(self) -> int:
        """Jobs that no thread has taken yet."""
        return sum(lane.waiting for lane in {self._writer, self._readers})

    async def write(self, work: Work[T]) -> T:
        """Runs the work in a transaction and returns when it is committed and synced; a failure leaves nothing behind."""
        return await self._writer.submit(work, self.tenant_id)

    async def apart(self, work: Work[T]) -> T:
        """Runs the work on the connection that writes, outside of a transaction, for statements that SQLite refuses within
        one."""
        return await self._writer.submit(work, self.tenant_id, apart=True)

    async def describe(self) -> DatabaseState:
        return DatabaseState(engine="sqlite", version=apsw.sqlite_lib_version(), name=DATABASE)

    async def size_bytes(self) -> int:
        return await self.read(lambda connection: int(connection.fetch(_SIZE)[0][0]))

    async def scrub(self, first: int, /) -> Scrubbed | None:
        """Overwrites free space in some pages of the file; None while a reader of an older state is in the way."""
        return await self.apart(lambda connection: clean_pages(connection.raw, first))

    async def read(self, work: Work[T], *, heavy: bool = False, unhurried: bool = False) -> T:
        """Runs the work on a read-only connection; it sees every write that was acknowledged before.

        `heavy` is for work that may take long: it does not keep light reads waiting, and `QueryTimeout` ends it after a while;
        `unhurried` is for background work that reads all data of a tenant, and has no time limit.
        """
        return await self._readers.submit(work, self.tenant_id, heavy=heavy, unhurried=unhurried)


@asynccontextmanager
async def open_database(
    path: Path | None, *, readers: int = READERS_MAX, capacity: int = CAPACITY_MAX
) -> AsyncGenerator[SqliteDatabase]:
    """A migrated database in the given file, or in memory for None. `StoreFailed` or `MigrationUnknown` when it cannot be."""
    connections = await anyio.to_thread.run_sync(_connect, path, readers)
    writer = Lane(commit_together, connections[:1], name="sqlite-writer", batch=capacity, capacity=capacity, reads=False)
    if len(connections) == 1:
        try:
            yield SqliteDatabase(writer, writer)
        finally:
            await writer.aclose()
        return
    reading_lane = Lane(read_one, connections[1:], name="sqlite-reader", batch=1, capacity=capacity, reads=True)
    try:
        yield SqliteDatabase(writer, reading_lane)
    finally:
        writer.refuse()
        # Readers first: the connection that closes last folds the write-ahead log into the file.
        await reading_lane.aclose()
        await writer.aclose()


@asynccontextmanager
async def open_readers(connect: Callable[[], apsw.Connection]) -> AsyncGenerator[SqliteDatabase]:
    """A database that is only read, with a connection of the caller's own. A write fails with `StoreFailed`."""
    connection = await anyio.to_thread.run_sync(connect)
    lane = Lane(read_one, (SqliteConnection(connection),), name="sqlite-only", batch=1, capacity=CAPACITY_MAX, reads=True)
    try:
        yield SqliteDatabase(lane, lane)
    finally:
        await lane.aclose()


def commit_together(connection: SqliteConnection, jobs: Iterable[LaneJob[object]]) -> None:
    """Runs the jobs in one transaction, all but the first in savepoints; then, one by one, those that need none."""
    apart: list[LaneJob[object]] = []
    _commit(connection, _together(jobs, apart))
    read_one(connection, apart)


def _together(jobs: Iterable[LaneJob[object]], apart: list[LaneJob[object]]) -> Iterator[LaneJob[object]]:
    """Yields the jobs that share the transaction; the others are added to `apart`."""
    for job in jobs:
        if job.apart:
            apart.append(job)
        else:
            yield job


def _commit(connection: SqliteConnection, jobs: Iterable[LaneJob[object]]) -> None:
    coming, pending, is_durable = iter(jobs), list[LaneJob[object]](), True
    try:
        while is_durable and (job := next(coming, None)) is not None:
            pending.append(job)
            if len(pending) > 1:
                is_durable = _run_in_savepoint(connection, job)
            elif not _run_first(connection, job):
                pending.clear()
        if is_durable and pending:
            connection.raw.execute("COMMIT")
    except apsw.Error as error:
        _roll_back(connection)
        for job in (*pending, *coming):
            if job.error is None:
                job.fail("The database failed and nothing was stored", error)
        return
    if not is_durable:
        # The last of them has failed, perhaps only because it was too much together with the others.
        for job in (*pending, *coming):
            _commit(connection, (job,))


def _run_first(connection: SqliteConnection, job: LaneJob[object]) -> bool:
    """Begins a transaction with the job; returns whether there is one.

    Nothing came before it that a failure must leave alone, so it needs no savepoint, for which SQLite copies each page that
    the job changes. Most transactions have one job.
    """
    connection.raw.execute("BEGIN IMMEDIATE")
    try:
        job.result, job.error = job.work(connection), None
    except _JOB_ERRORS as error:
        job.fail("The database failed and nothing was stored", error)
        _roll_back(connection)
        return False
    return True


def _run_in_savepoint(connection: SqliteConnection, job: LaneJob[object]) -> bool:
    """Whether the transaction is still there: on a full disk SQLite drops all of it, the neighbours' work included."""
    connection.raw.execute("SAVEPOINT job")
    try:
        job.result, job.error = job.work(connection), None
    except _JOB_ERRORS as error:
        job.fail("The database failed and nothing was stored", error)
        if not connection.raw.in_transaction:
            return False
        connection.raw.execute("ROLLBACK TO job")
    connection.raw.execute("RELEASE job")
    return True


def _roll_back(connection: SqliteConnection) -> None:
    if connection.raw.in_transaction:
        try:
            connection.raw.execute("ROLLBACK")
        except apsw.Error:
            # SQLite reports the error that made it roll back; being outside a transaction is what counts.
            return


def read_one(connection: SqliteConnection, jobs: Iterable[LaneJob[object]]) -> None:
    """Runs each job by itself; a single statement sees one consistent state of the database."""
    for job in jobs:
        if job.future.cancelled():
            continue
        try:
            job.result = job.work(connection)
        except _JOB_ERRORS as error:
            job.fail("The database could not be read", error)


def _connect(path: Path | None, readers: int) -> tuple[SqliteConnection, ...]:
    opened: list[apsw.Connection] = []
    try:
        # Absolute, so that no file name is taken for one of SQLite's special names.
        filename = ":memory:" if path is None else str(path.absolute())
        if path is not None:
            create_file(path, load_migrations())
            _keep_private(path)
        opened.append(apsw.Connection(filename, statementcachesize=_CACHED_STATEMENTS_MAX))
        _prepare(opened[0], in_memory=path is None)
        for _ in range(0 if path is None else readers):
            flags = apsw.SQLITE_OPEN_READONLY
            opened.append(apsw.Connection(filename, flags=flags, statementcachesize=_CACHED_STATEMENTS_MAX))
            opened[-1].set_busy_timeout(BUSY_TIMEOUT_MS)
            distrust_schema(opened[-1])
    except (apsw.Error, AgentVMError) as error:
        for connection in opened:
            connection.close()
        if isinstance(error, AgentVMError):
            raise
        raise StoreFailed(f"Cannot open the database {path or 'in memory'}: {error}") from error
    return tuple(map(SqliteConnection, opened))


def _keep_private(path: Path) -> None:
    """Files that SQLite creates beside a database get the mode of the database."""
    make_private(path)
    for ending in COMPANIONS:
        restrict_to_owner(path.with_name(path.name + ending))


def _prepare(connection: apsw.Connection, *, in_memory: bool) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    distrust_schema(connection)
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
    # Savepoints keep the pages before a change: in a file these are 26 more pages a turn, and deleted data lies on in it.
    connection.pragma("temp_store", 2)
