"""Database — one PostgreSQL database, used from the event loop without ever blocking it.

Theory of operation. As with SQLite, one thread owns the connection that writes and takes the waiting jobs: those jobs share one
transaction and one sync of the server's disk, each in a savepoint of its own. Reads run beside it on connections that cannot
write. Every job belongs to a tenant, and tenants are served in turn: see `lane.py`.

Rules:
- A transaction is SERIALIZABLE: work may read and then write as if it ran alone, beside other writers. One that contradicts
  another is run again, the whole batch, for `OUTAGE_SECONDS`: a node that froze in the middle of a transaction contradicts all
  others until the server ends that.
- A connection that is lost before COMMIT has stored nothing: the batch runs again on a new one. One that is lost during COMMIT
  may have; the server is asked until it answers, however long it is away. Until then the commit is neither confirmed nor
  refused, and later writes wait. The answer is the mark that each transaction leaves in the row of its writer: the number of
  one that was lost in a crash, or is not on the standby that has taken over, is given to another.
- One AgentVM uses a database at a time: the connection that writes holds a lock of the server, so that a server that lost it to
  another cannot write any more. Nodes of a cluster hold that lock together, and each transaction begins with the fence: the row
  of the own node, locked, which shows that it has not been declared dead.
- Without a server the jobs of a batch and reads wait `OUTAGE_SECONDS` for it, then fail with `StoreFailed`: a turn reads, too.
- No read takes longer than `LIGHT_SECONDS`, and a connection to a machine that does not answer ends (`connection.py`).
"""

import random
import threading
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, closing
from typing import TypeVar

import anyio.to_thread
import psycopg
from psycopg import errors

from agentvm.errors import AgentVMError, DataDirInUse, MigrationUnknown, StoreFailed
from agentvm.errors.cluster import FENCED, NodeFenced
from agentvm.log import get_logger
from agentvm.model.ids import TenantId
from agentvm.model.node import DatabaseState
from agentvm.storage.engines import lane
from agentvm.storage.engines.lane import HEAVY_WALL_SECONDS, Lane, StatementEnded
from agentvm.storage.engines.postgres.checks import check_server, describe_server, explained
from agentvm.storage.engines.postgres.connection import (
    SAVEPOINT,
    PostgresConnection,
    Raw,
    ReadingConnection,
    connect,
)
from agentvm.storage.engines.postgres.database_locks import (
    RETRY_INTERVAL_SECONDS,
    connect_node,
    connect_waiting,
    connect_writer,
)
from agentvm.storage.engines.postgres.failures import fail, roll_back, roll_back_open
from agentvm.storage.engines.postgres.migrations import load_migrations, migrate, require_known
from agentvm.storage.sql.connection import Scrubbed
from agentvm.storage.sql.nodes import register

T = TypeVar("T")

logger = get_logger(__name__)

Work = lane.Work[PostgresConnection, T]
LaneJob = lane.LaneJob[PostgresConnection, T]

CAPACITY_MAX = 1024
READERS_MAX = 4
OUTAGE_SECONDS = 30.0
RETRY_SECONDS = 0.000_5
RETRY_MAX_SECONDS = 0.1
"""The pause before a contradicted transaction is run again, at most: it doubles each time up to the second of these."""
LIGHT_SECONDS = 30.0

# Several commands to a text: each text is one round trip.
_BEGIN = (
    "BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO agentvm_commits (writer, mark) VALUES ({writer}, {mark}) "
    f"ON CONFLICT (writer) DO UPDATE SET mark = excluded.mark RETURNING pg_current_xact_id()::text{{fence}}; "
    f"SAVEPOINT {SAVEPOINT}"
)
# Before the savepoint: its lock is held until the end of the transaction.
_FENCE = "; SELECT state FROM nodes WHERE node_id = {node_id} FOR SHARE"
_NEXT = f"RELEASE {SAVEPOINT}; SAVEPOINT {SAVEPOINT}"
_LIGHT = f"SET statement_timeout = {int(LIGHT_SECONDS * 1000)}"
_SIZE = "SELECT pg_database_size(current_database())"
_STATUS = "SELECT pg_xact_status($1::xid8)"
_MARK = "SELECT mark FROM agentvm_commits WHERE writer = $1"
_DROP_MARKS = "DELETE FROM agentvm_commits WHERE writer <> 0 AND abs(writer) NOT IN (SELECT node_id FROM nodes)"
_UNKNOWN = "It is not known whether this was stored: the connection was lost during the commit, and the server stops"
_LOST = (errors.OperationalError, errors.InterfaceError)
_RETRIED = (errors.SerializationFailure, errors.DeadlockDetected)
# What a job can raise by its own fault. Anything else is a bug in this package; it ends the thread and fails whoever waits.
_JOB_ERRORS = (psycopg.Error, StatementEnded, AgentVMError, ValueError, TypeError, OverflowError, MemoryError, RecursionError)


class PostgresDatabase:
    """Runs work on a PostgreSQL database; obtained from `open_database`, used from the event loop that opened it."""

    def __init__(
        self,
        writer: Lane[PostgresConnection],
        readers: Lane[PostgresConnection],
        tenant_id: TenantId | None = None,
        node_id: int = 0,
    ) -> None:
        self._writer = writer
        self._readers = readers
        self.tenant_id = tenant_id
        self.node_id = node_id

    def of(self, tenant_id: TenantId | None, /) -> "PostgresDatabase":
        return PostgresDatabase(self._writer, self._readers, tenant_id, self.node_id)

    def of_node(self, node_id: int) -> "PostgresDatabase":
        return PostgresDatabase(self._writer, self._readers, self.tenant_id, node_id)

    @property
    def waiting(self) -> int:
        return self._writer.waiting + self._readers.waiting

    async def write(self, work: Work[T], /) -> T:
        return await self._writer.submit(work, self.tenant_id)

    async def read(self, work: Work[T], /, *, heavy: bool = False, unhurried: bool = False) -> T:
        return await self._readers.submit(work, self.tenant_id, heavy=heavy, unhurried=unhurried)

    async def describe(self) -> DatabaseState:
        return await self.read(describe_server)

    async def size_bytes(self) -> int:
        return await self.read(lambda connection: int(connection.fetch(_SIZE)[0][0]))

    async def scrub(self, first: int, /) -> Scrubbed | None:
        """Does nothing: PostgreSQL overwrites free space when it vacuums, and offers no other way."""
        return Scrubbed(None, 0)


@asynccontextmanager
async def open_database(
    url: str, *, readers: int = READERS_MAX, capacity: int = CAPACITY_MAX
) -> AsyncGenerator[PostgresDatabase]:
    """A migrated database. `StoreFailed` or `MigrationUnknown` when it cannot be."""
    async with _open_lanes(url, readers, capacity, shared=False) as (database, _):
        yield database


@asynccontextmanager
async def open_node(url: str, name: str, version: str) -> AsyncGenerator[tuple[PostgresDatabase, PostgresDatabase]]:
    """A migrated database that other nodes use as well, of a new node; and beside it the one in which the node renews itself.

    The first is behind the fence. The second has a connection of its own, so that no long commit keeps the node from renewing.
    """
    async with (
        _open_lanes(url, READERS_MAX, CAPACITY_MAX, shared=True) as (database, writing),
        _open_lanes(url, 1, CAPACITY_MAX, shared=True) as (beats, renewing),
    ):
        node_id = await register(beats, name, version)
        writing.raise_fence(node_id)
        renewing.writer = -node_id
        await beats.write(lambda connection: connection.execute(_DROP_MARKS))
        yield database.of_node(node_id), beats.of_node(node_id)


@asynccontextmanager
async def _open_lanes(
    url: str, readers: int, capacity: int, *, shared: bool
) -> AsyncGenerator[tuple[PostgresDatabase, "Batches"]]:
    connections = await anyio.to_thread.run_sync(_connect, url, readers, shared)
    writing, reading = Batches(url, shared), Reads(url)
    writer = Lane(writing.serve, connections[:1], name="postgres-writer", batch=capacity, capacity=capacity, reads=False)
    reading_lane = Lane(reading.serve, connections[1:], name="postgres-reader", batch=1, capacity=capacity, reads=True)
    try:
        yield PostgresDatabase(writer, reading_lane), writing
    finally:
        writer.refuse()
        writing.closing.set()
        await reading_lane.aclose()
        await writer.aclose()


class Batches:
    """Runs the jobs of a batch in one transaction, until its outcome is known."""

    def __init__(self, url: str, shared: bool) -> None:
        self._url, self._shared = url, shared
        self._fence = ""
        self.writer = 0
        """The number under which it leaves its marks: 0 until a node has its own."""
        self._mark = time.time_ns()
        self.closing = threading.Event()
        """Set when the server stops: then an outcome that stays unknown is waited for no longer than for a server."""

    def raise_fence(self, node_id: int) -> None:
        """From now on nothing is committed once that node was declared dead: `NodeFenced`."""
        self._fence, self.writer = _FENCE.format(node_id=int(node_id)), node_id

    def serve(self, connection: PostgresConnection, jobs: Iterable[LaneJob[object]]) -> None:
        pending = list(jobs)
        try:
            self._commit(connection, pending)
        except (psycopg.Error, AgentVMError) as error:
            for job in pending:
                if job.error is None:
                    fail(job, "The database failed and nothing was stored", error)

    def _commit(self, connection: PostgresConnection, pending: list[LaneJob[object]]) -> None:
        until = time.monotonic() + OUTAGE_SECONDS
        pause = RETRY_SECONDS
        while True:
            committing = None
            self._mark += 1
            try:
                cursor = connection.raw.execute(_BEGIN.format(writer=self.writer, mark=self._mark, fence=self._fence))
                cursor.nextset()
                number = cursor.fetchall()[0][0]
                cursor.nextset()
                if cursor.description is not None and cursor.fetchall() != [("up",)]:
                    raise NodeFenced(FENCED)
                for place, job in enumerate(pending):
                    if place:
                        connection.raw.execute(_NEXT)
                    _run_in_savepoint(connection, job)
                committing = number
                connection.raw.execute("COMMIT")
                return
            except _RETRIED:
                connection.raw.execute("ROLLBACK")
                if time.monotonic() >= until:
                    raise
                # Of random length: two that contradict each other would meet again.
                time.sleep(random.uniform(0, pause))
                pause = min(2 * pause, RETRY_MAX_SECONDS)
            except _LOST:
                if not connection.raw.closed:
                    roll_back(connection.raw)
                    raise
                if committing is not None and self._was_committed(committing, until):
                    return
                self._reconnect(connection, until)
            except errors.ReadOnlySqlTransaction:
                # Another server may be the one that writes by now: the next batch looks for it.
                connection.raw.close()
                raise
            except (psycopg.Error, NodeFenced):
                roll_back(connection.raw)
                raise

    def _reconnect(self, connection: PostgresConnection, until: float) -> None:
        connection.raw.close()
        newest = load_migrations()[-1][0]
        while True:
            try:
                connection.raw = raw = connect_node(self._url, newest) if self._shared else connect_writer(self._url)
                require_known(raw, newest)
                return
            except MigrationUnknown:
                connection.raw.close()
                raise
            except (*_LOST, DataDirInUse):
                # The server may hold the lock for the lost connection until it has noticed.
                if time.monotonic() >= until:
                    raise
                time.sleep(RETRY_INTERVAL_SECONDS)

    def _was_committed(self, number: str, until: float) -> bool:
        """The fate of a transaction whose connection was lost during COMMIT, once it is known."""
        is_logged = False
        while True:
            try:
                # Without the lock: who has the database by now does not matter for what was stored.
                with closing(connect(self._url)) as raw:
                    if raw.execute(_STATUS, (number,)).fetchall()[0][0] != "in progress":
                        return raw.execute(_MARK, (self.writer,)).fetchall() == [(self._mark,)]
            except errors.DataError:
                # A server that has taken over, and never heard of this transaction.
                return False
            except _LOST as error:
                if not is_logged:
                    logger.error("commit_outcome_unknown", transaction=number, error=str(error))
                is_logged = True
            if self.closing.is_set() and time.monotonic() >= until:
                raise StoreFailed(_UNKNOWN)
            time.sleep(RETRY_INTERVAL_SECONDS)


def _run_in_savepoint(connection: PostgresConnection, job: LaneJob[object]) -> None:
    """Runs the job in the savepoint that was set for it; the savepoint stays."""
    try:
        job.result, job.error = job.work(connection), None
    except (*_RETRIED, errors.ReadOnlySqlTransaction):
        # Of the whole batch.
        raise
    except _JOB_ERRORS as error:
        # Also what the server lacks or limits: that is of this job. On a lost connection the next statement fails.
        fail(job, "The database failed and nothing was stored", error)
        connection.raw.execute(f"ROLLBACK TO {SAVEPOINT}")


class Reads:
    """Runs each read by itself. A connection that was lost is opened again."""

    def __init__(self, url: str) -> None:
        self._url = url

    def serve(self, connection: PostgresConnection, jobs: Iterable[LaneJob[object]]) -> None:
        for job in jobs:
            if job.future.cancelled():
                continue
            try:
                self._read(connection, job)
            except _JOB_ERRORS as error:
                fail(job, "The database could not be read", error)
                if not connection.raw.broken:
                    roll_back(connection.raw)

    def _read(self, connection: PostgresConnection, job: LaneJob[object]) -> None:
        if connection.raw.broken or connection.raw.closed:
            self._reconnect(connection)
        if job.heavy:
            bound_ms = int(HEAVY_WALL_SECONDS * 1000) if job.is_bounded else 0
            connection.raw.execute(f"SET statement_timeout = {bound_ms}")
        try:
            job.result = job.work(connection)
        except _LOST:
            if not connection.raw.broken:
                raise
            # The server has gone and may be back: once more, on a new connection.
            self._reconnect(connection)
            job.result = job.work(connection)
        finally:
            if job.heavy and not connection.raw.broken:
                roll_back_open(connection.raw)
                connection.raw.execute(_LIGHT)

    def _reconnect(self, connection: PostgresConnection) -> None:
        connection.raw.close()
        until = time.monotonic() + OUTAGE_SECONDS
        while True:
            try:
                connection.raw = connect_reader(self._url)
                return
            except _LOST:
                # Another server may be about to take over.
                if time.monotonic() >= until:
                    raise
                time.sleep(RETRY_INTERVAL_SECONDS)


def connect_reader(url: str) -> Raw:
    raw = connect(url)
    raw.execute("SET default_transaction_read_only = on")
    raw.execute(_LIGHT)
    return raw


def _connect(url: str, readers: int, shared: bool) -> tuple[PostgresConnection, ...]:
    opened: list[Raw] = []
    try:
        opened.append(connect_migrated(url, shared=shared))
        with explained():
            opened += [connect_reader(url) for _ in range(readers)]
    except AgentVMError:
        for raw in opened:
            raw.close()
        raise
    first, *others = opened
    return (PostgresConnection(first), *map(ReadingConnection, others))


def connect_migrated(url: str, *, shared: bool = False) -> Raw:
    """The connection that writes, to a database with the schema of this AgentVM; as `open_database` raises."""
    with explained():
        raw = connect_waiting(url, load_migrations()[-1][0] if shared else None)
        try:
            check_server(raw)
            migrate(raw, load_migrations())
        except (psycopg.Error, AgentVMError):
            raw.close()
            raise
        return raw
