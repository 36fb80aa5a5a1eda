"""Engines — lets tests that open a SQLite store have one in PostgreSQL instead: `pytest --engine postgres`."""

import itertools
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import apsw
import psycopg
from psycopg.rows import TupleRow
from tests.provision.postgres import Postgres

from agentvm.storage.engines.postgres.database import PostgresDatabase, open_database
from agentvm.storage.engines.sqlite import opening

NUMBERS = itertools.count()
READERS_MAX = 4
"""Connections that a store reads with: as many as let one tenant take two and leave two to others."""
_urls_by_file: dict[Path, str] = {}
"""The databases in place of files of SQLite, while a test has them."""
_new_urls: list[Callable[[], str]] = []
"""What makes one more of them."""


@contextmanager
def a_database(server: Postgres, *, of: str = "migrated") -> Iterator[str]:
    """The address of a copy of a database of the server; of `migrated`, which has the whole schema and is empty."""
    name = f"db_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {of}")
        yield server.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


class EmptiedDatabase:
    """One database with the whole schema that tests have one after the other: to empty it costs a twentieth of a new one.

    Only for tests that leave the schema as it is.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True)
        # Neither foreign keys nor the triggers of append-only tables shall hold the rows.
        self._connection.execute("SET session_replication_role = replica")
        self._tables = _tables_of(self._connection)
        self._filled = f"SELECT {', '.join(f'EXISTS (SELECT FROM {name})' for name in self._tables)}"

    def close(self) -> None:
        self._connection.close()

    def empty(self) -> None:
        """Removes every row, and begins every sequence anew."""
        execute = self._connection.execute
        filled = execute(self._filled).fetchone()
        assert filled is not None
        for name in itertools.compress(self._tables, filled):
            execute(f"DELETE FROM {name}")
        execute(
            "SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) "
            "FROM pg_sequences WHERE last_value IS NOT NULL"
        )


@contextmanager
def an_emptied_database(server: Postgres) -> Iterator[EmptiedDatabase]:
    """A database of a server that has `migrated`."""
    with a_database(server) as url:
        database = EmptiedDatabase(url)
        yield database
        database.close()


@contextmanager
def stored_in_postgres(server: Postgres) -> Iterator[None]:
    """Until it is left, each file that a store is opened in is a database of the server; in memory is a new one each time."""
    urls = _urls_by_file
    with ExitStack() as databases:
        databases.callback(urls.clear)
        _new_urls.append(lambda: databases.enter_context(a_database(server)))
        databases.callback(_new_urls.clear)

        @asynccontextmanager
        async def open_instead(path: Path | None, *, readers: int, capacity: int) -> AsyncIterator[PostgresDatabase]:
            url = urls.get(path) if path is not None else None
            if url is None:
                url = databases.enter_context(a_database(server))
            if path is not None:
                urls[path] = url
            async with open_database(url, readers=min(readers, READERS_MAX), capacity=capacity) as opened:
                yield opened

        with patch.object(opening, "open_database", open_instead):
            yield


def _tables_of(connection: "psycopg.Connection[TupleRow]") -> list[str]:
    names = connection.execute("SELECT relname FROM pg_stat_user_tables WHERE relname <> 'agentvm_schema'")
    return [str(name) for (name,) in names.fetchall()]


def url_of(path: Path) -> str | None:
    """Returns the address of the database in place of a file; None where the file itself is the database."""
    return _urls_by_file.get(path)


def photograph(path: Path, copy: Path) -> None:
    """Keeps what a store has committed by now, as a crash would leave it, in whatever engine."""
    url = _urls_by_file.get(path)
    if url is None:
        copy.parent.mkdir(exist_ok=True)
        for suffix in ("", "-wal"):
            if (source := Path(f"{path}{suffix}")).exists():
                shutil.copy(source, f"{copy}{suffix}")
        return
    _urls_by_file[copy] = _new_urls[-1]()
    with psycopg.connect(url) as source_rows, psycopg.connect(_urls_by_file[copy]) as target:
        source_rows.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        target.execute("SET session_replication_role = replica")
        for table in _tables_of(source_rows):
            with (
                source_rows.cursor().copy(f"COPY {table} TO STDOUT") as rows,
                target.cursor().copy(f"COPY {table} FROM STDIN") as taken,
            ):
                for part in rows:
                    taken.write(part)
        sequences = source_rows.execute("SELECT sequencename, last_value FROM pg_sequences WHERE last_value IS NOT NULL")
        for name, last in sequences.fetchall():
            target.execute("SELECT setval(%s::regclass, %s)", (name, last))


def damage(path: Path, statement: str, *values: bytes | str) -> None:
    """Changes what is stored, in whatever engine, behind the back of a store that is closed."""
    url = _urls_by_file.get(path)
    if url is None:
        with closing(apsw.Connection(str(path))) as file:
            file.pragma("foreign_keys", False)
            file.execute(statement, values)
    else:
        with psycopg.connect(url) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(statement.replace("?", "%s").encode(), values)
