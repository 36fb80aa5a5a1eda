"""Connection — a psycopg connection as the queries of the store use it."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import TextLoader

from agentvm.errors import ConstraintFailed
from agentvm.storage.base import SessionWrite
from agentvm.storage.engines.lane import StatementEnded
from agentvm.storage.engines.postgres.commits import Bodies, BodiesDumper, Commit
from agentvm.storage.engines.postgres.search import TsvectorIndex
from agentvm.storage.engines.postgres.statement import translate
from agentvm.storage.sql.connection import SNAPSHOT, SNAPSHOT_END, Args, Connection, Row, storable
from agentvm.storage.sql.session_write import AddedTogether, PreparedWrite

PREPARED_MAX = 500
CONNECT_SECONDS = 10
SAVEPOINT = "job"
"""The savepoint in which each work runs."""

Raw = psycopg.Connection[Row]


class TruthLoader(Loader):
    """Truth values as numbers, as every table has them."""

    def load(self, data: Any) -> int:
        return int(bytes(data) == b"t")


# A machine that has vanished without a word is noticed within half a minute. The address may say something else.
_DEFAULTS: dict[str, int] = {
    "connect_timeout": CONNECT_SECONDS, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}  # fmt: skip


def connect(url: str) -> Raw:
    """A connection outside of any transaction."""
    settings: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(url)}
    raw = psycopg.connect(
        **settings | {"application_name": "agentvm", "client_encoding": "utf-8"},
        autocommit=True,
        cursor_factory=psycopg.RawCursor,
    )
    raw.prepare_threshold = 2
    raw.prepared_max = PREPARED_MAX
    # A statement would else be prepared once for each magnitude of each number.
    raw.adapters.register_dumper(int, Int8Dumper)
    raw.adapters.register_dumper(Bodies, BodiesDumper)
    raw.adapters.register_loader("bool", TruthLoader)
    raw.adapters.register_loader("json", TextLoader)
    return raw


class PostgresConnection:
    """Implements `agentvm.storage.sql.connection.Connection`. `raw` is for the engine itself."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.search = TsvectorIndex(self)

    def fetch(self, sql: str, args: Args = (), /) -> list[Row]:
        cursor = self._run(sql, args)
        return [] if cursor.description is None else cursor.fetchall()

    def execute(self, sql: str, args: Args = (), /) -> int:
        return max(self._run(sql, args).rowcount, 0)

    def many(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        statement = translate(sql)
        arguments = [statement.arguments(storable(row)) for row in rows]
        if arguments:
            try:
                self.raw.cursor().executemany(statement.text, arguments)
            except psycopg.Error as error:
                raise _translated(error) from error

    def add_together(
        self,
        carried: Sequence[SessionWrite],
        prepared: Sequence[PreparedWrite],
        entry: bytes | None,
        node_id: int,
        again: Callable[[Connection], None],
        /,
    ) -> AddedTogether | None:
        added = Commit(carried, prepared, entry, node_id).add(self.raw)
        if added is None:
            self.raw.execute(f"ROLLBACK TO {SAVEPOINT}")
            again(self)
        return added

    def _run(self, sql: str, args: Args) -> psycopg.Cursor[Row]:
        statement = translate(sql)
        try:
            return self.raw.execute(statement.text, statement.arguments(storable(args)))
        except psycopg.Error as error:
            raise _translated(error) from error

    def watch(self, is_over: Callable[[], bool], /) -> None:
        """Does nothing: in PostgreSQL a statement that takes too long ends by `statement_timeout`."""

    def close(self) -> None:
        """Gives locks back first: the server notices the end of a connection only after a while."""
        with suppress(psycopg.Error):
            self.raw.execute("SELECT pg_advisory_unlock_all()")
        self.raw.close()


class ReadingConnection(PostgresConnection):
    """A connection outside of transactions: a statement sees one state, and so do those of a snapshot."""

    def execute(self, sql: str, args: Args = (), /) -> int:
        if sql == SNAPSHOT:
            sql = "BEGIN ISOLATION LEVEL REPEATABLE READ"
        elif sql == SNAPSHOT_END:
            sql = "COMMIT"
        return super().execute(sql, args)


def words_of(error: psycopg.Error) -> str:
    """The words of an error for clients: without values of rows, statements, and the address of the server."""
    return error.diag.message_primary or "there is no connection to the database; see the log of the server"


def _translated(error: psycopg.Error) -> Exception:
    """The error that the store knows; another one as it is."""
    match error:
        case errors.IntegrityError():
            return ConstraintFailed(words_of(error))
        case errors.QueryCanceled():
            return StatementEnded(words_of(error))
        case errors.NumericValueOutOfRange():
            return OverflowError(words_of(error))
        case errors.DataError():
            return ValueError(words_of(error))
        case _:
            return error
