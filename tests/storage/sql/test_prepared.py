"""Every statement that a module of the store declares can be prepared on both engines, also one that no test runs."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import apsw
import apsw.ext
import psycopg

import agentvm.storage.sql
from agentvm.storage.engines.postgres.connection import connect
from agentvm.storage.engines.postgres.statement import translate
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.migrations import load_migrations, migrate

STATEMENT = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\b")
INCOMPLETE = re.compile(r"\{\w*\}|\b(AND|WHERE|IN|ON|SET|FROM|BY|VALUES)\s*$|^INSERT INTO \w+ \([^()]*\)$")
"""Texts that their module completes: with a part in braces, or at the end."""


def declared() -> Iterator[tuple[str, str]]:
    """The name and the text of every constant that is a whole statement, or of one in a tuple."""
    package = agentvm.storage.sql
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            texts = value if isinstance(value, tuple) else (value,)
            for number, text in enumerate(texts):
                if isinstance(text, str) and STATEMENT.match(text) and not INCOMPLETE.search(text):
                    part = f"[{number}]" if isinstance(value, tuple) else ""
                    yield f"{module.name.removeprefix(package.__name__ + '.')}.{name}{part}", text


STATEMENTS = dict(declared())
_RECALLED = ("summary", "beyond", "max_bytes", "current_bytes")
NUMBERS: dict[str, tuple[str, ...]] = {
    "importing._BEGIN": ("1", "3", "4", "5"),
    "sessions.summaries._NEWEST_FIRST": _RECALLED,
    "sessions.summaries._OLDEST_FIRST": _RECALLED,
}
"""Arguments that are numbers, of statements whose text does not say so; the engine sends every number with its type."""
BIGINT_OID = 20


def refused_by_postgres(raw: "psycopg.Connection[tuple[object, ...]]", sql: str, numbers: tuple[str, ...] = ()) -> str | None:
    """Why PostgreSQL does not prepare it."""
    text, names = translate(sql)
    arguments = names or sorted(set(re.findall(r"\$(\d+)", text)), key=int)
    types = [BIGINT_OID if name in numbers else 0 for name in arguments] if numbers else None
    result = raw.pgconn.prepare(b"", text.encode(), types)
    return None if result.status == psycopg.pq.ExecStatus.COMMAND_OK else result.error_message.decode().splitlines()[0]


def refused_by_sqlite(connection: apsw.Connection, sql: str) -> str | None:
    """Why SQLite does not prepare it."""
    try:
        apsw.ext.query_info(connection, sql)
    except apsw.SQLError as error:
        return str(error)
    return None


def test_postgresql_prepares_every_statement(database_url: str) -> None:
    with connect(database_url) as raw:
        refused = {name: refused_by_postgres(raw, sql, NUMBERS.get(name, ())) for name, sql in STATEMENTS.items()}
        assert refused_by_postgres(raw, "SELECT absent FROM sessions") == 'ERROR:  column "absent" does not exist'
    assert {name: reason for name, reason in refused.items() if reason is not None} == {}


def test_sqlite_prepares_every_statement() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, load_migrations())
    # Registers the functions of the dialect.
    SqliteConnection(connection)
    refused = {name: refused_by_sqlite(connection, sql) for name, sql in STATEMENTS.items()}
    assert refused_by_sqlite(connection, "SELECT absent FROM sessions") == "no such column: absent"
    assert {name: reason for name, reason in refused.items() if reason is not None} == {}


def test_the_statements_of_all_modules_are_found() -> None:
    assert {"nodes._TAKE", "accounts.ledger._LIST", "sessions.listing._SEEN"} <= STATEMENTS.keys()
    assert NUMBERS.keys() <= STATEMENTS.keys()
    assert len(STATEMENTS) > 600
