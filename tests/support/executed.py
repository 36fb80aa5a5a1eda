"""Executed statements — notes what the store asks of its database while tests run, so that all of it can be prepared on both
engines.

Each process of tests has its own notes. The types of arguments belong to them: PostgreSQL is told them, and cannot guess all.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apsw
import apsw.ext
from tests.provision.postgres import postgres

from agentvm.storage.engines.postgres.connection import PostgresConnection, connect
from agentvm.storage.engines.postgres.migrations import load_migrations, migrate
from agentvm.storage.engines.postgres.statement import translate
from agentvm.storage.engines.sqlite import migrations as of_sqlite
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.sql.connection import SNAPSHOT, SNAPSHOT_END

STORE = "agentvm.storage.sql."
BIGINT, BYTEA, FLOAT, UNKNOWN = 20, 17, 701, 0
TYPES: Mapping[type, int] = {bool: BIGINT, int: BIGINT, bytes: BYTEA, float: FLOAT}
"""What PostgreSQL is told of an argument. Of a text and of nothing it is told nothing."""

Executed = dict[str, list[int]]
"""Texts, each with the types of its arguments in their order."""

executed: Executed = {}


def note_statements() -> None:
    """Notes what the modules of the store execute on any engine, until the process ends."""
    for engine in (SqliteConnection, PostgresConnection):
        for name in ("fetch", "execute", "many"):
            setattr(engine, name, _noting(getattr(engine, name), is_many=name == "many"))


def _noting(function: Callable[..., Any], *, is_many: bool) -> Callable[..., Any]:
    def noting(connection: object, sql: str, args: Any = (), /) -> Any:
        if sql not in executed and str(sys._getframe(1).f_globals.get("__name__")).startswith(STORE):
            args = [*args] if is_many else args
            if not is_many or args:
                executed[sql] = types(sql, args[0] if is_many else args)
        return function(connection, sql, args)

    return noting


def types(sql: str, args: Sequence[Any] | Mapping[str, Any]) -> list[int]:
    return [TYPES.get(type(value), UNKNOWN) for value in translate(sql).arguments(args)]


def refused(statements: Executed) -> list[str]:
    """The statements that an engine does not prepare, and why. `Unavailable` without a PostgreSQL."""
    texts = {sql: given for sql, given in statements.items() if sql not in (SNAPSHOT, SNAPSHOT_END)}
    return [*_refused_by_sqlite(texts), *_refused_by_postgres(texts)]


def _refused_by_sqlite(statements: Executed) -> list[str]:
    raw = apsw.Connection(":memory:")
    of_sqlite.migrate(raw, of_sqlite.load_migrations())
    # Registers the functions of the dialect.
    SqliteConnection(raw)
    problems = []
    for sql in statements:
        try:
            apsw.ext.query_info(raw, sql)
        except apsw.SQLError as error:
            problems.append(f"SQLite: {error}: {sql}")
    return problems


def _refused_by_postgres(statements: Executed) -> list[str]:
    problems = []
    with postgres() as server, connect(server.url()) as raw:
        migrate(raw, load_migrations())
        for sql, given in statements.items():
            result = raw.pgconn.prepare(b"", translate(sql).text.encode(), given)
            if result.error_message:
                problems.append(f"PostgreSQL: {result.error_message.decode().splitlines()[0]}: {sql}")
    return problems
