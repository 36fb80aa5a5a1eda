"""Connection — an APSW connection as the queries of the store use it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apsw

from agentvm.errors import ConstraintFailed
from agentvm.log import get_logger
from agentvm.storage.engines.lane import StatementEnded
from agentvm.storage.engines.sqlite.search import Fts5Index
from agentvm.storage.sql.connection import Args, Row, storable

logger = get_logger(__name__)

CHECK_STEPS_MAX = 50_000
"""Steps of a statement after which SQLite asks whether to continue."""


class SqliteConnection:
    """Implements `agentvm.storage.sql.connection.Connection`. `raw` is for the engine itself."""

    __slots__ = ("_changes", "_execute", "raw", "search")

    def __init__(self, raw: apsw.Connection) -> None:
        self.raw = raw
        self._execute = raw.execute
        self._changes = raw.changes
        self.search = Fts5Index(self, raw)
        # SQLite's own `lower` knows only ASCII.
        raw.create_scalar_function("casefold", _casefold, 1, deterministic=True)

    def fetch(self, sql: str, args: Args = (), /) -> list[Row]:
        """All rows: a cursor that stays open would hold its reader at an old state of the database."""
        try:
            return self._execute(sql, storable(args)).fetchall()
        except apsw.ConstraintError as error:
            raise ConstraintFailed(str(error)) from error
        except apsw.InterruptError as error:
            raise StatementEnded(str(error)) from error

    def execute(self, sql: str, args: Args = (), /) -> int:
        try:
            self._execute(sql, storable(args))
        except apsw.ConstraintError as error:
            raise ConstraintFailed(str(error)) from error
        return self._changes()

    def many(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        try:
            self.raw.executemany(sql, map(storable, rows))
        except apsw.ConstraintError as error:
            raise ConstraintFailed(str(error)) from error

    def add_together(self, *commit: object) -> None:
        """Statement by statement is as fast, where the database is in the process."""

    def watch(self, is_over: Callable[[], bool], /) -> None:
        self.raw.set_progress_handler(is_over, CHECK_STEPS_MAX)

    def close(self) -> None:
        try:
            self.raw.close()
        except apsw.Error as error:
            # A disk that fails cannot take the write-ahead log into the file; the next start does it.
            logger.error("database_not_folded", error=str(error))


def _casefold(*values: Any) -> str | None:
    return None if values[0] is None else str(values[0]).casefold()
