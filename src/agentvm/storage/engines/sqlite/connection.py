"""Connection — an APSW connection as the queries of the store use it."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from agentvm.errors import ConstraintFailed
from agentvm.storage.sql.connection import Args, Row, storable


class SqliteConnection:
    """Implements `agentvm.storage.sql.connection.Connection`. `raw` is for the engine itself."""

    __slots__ = ("_changes", "_execute", "raw")

    def __init__(self, raw: apsw.Connection) -> None:
        self.raw = raw
        self._execute = raw.execute
        self._changes = raw.changes
        # SQLite's own `lower` knows only ASCII.
        raw.create_scalar_function("casefold", _casefold, 1, deterministic=True)

    def fetch(self, sql: str, args: Args = (), /) -> list[Row]:
        """All rows: a cursor that stays open would hold its reader at an old state of the database."""
        try:
            return self._execute(sql, storable(args)).fetchall()
        except apsw.ConstraintError as error:
            raise ConstraintFailed(str(error)) from error

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


def _casefold(*values: Any) -> str | None:
    return None if values[0] is None else str(values[0]).casefold()
