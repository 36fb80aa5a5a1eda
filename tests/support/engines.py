"""Engines — lets tests that open a SQLite store have one in PostgreSQL instead: `pytest --engine postgres`."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from unittest.mock import patch

import psycopg
from tests.provision.postgres import Postgres

from agentvm.storage.engines.postgres.database import PostgresDatabase, open_database
from agentvm.storage.engines.sqlite import opening

NUMBERS = itertools.count()


@contextmanager
def a_database(server: Postgres) -> Iterator[str]:
    """The address of an empty database with the whole schema, on a server that has `migrated`."""
    name = f"db_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE migrated")
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
        tables = self._connection.execute(
            "SELECT relname FROM pg_stat_user_tables WHERE relname <> 'agentvm_schema'"
        ).fetchall()
        self._tables = [str(name) for (name,) in tables]
        self._filled = f"SELECT {', '.join(f'EXISTS (SELECT FROM {name})' for name in self._tables)}"

    def close(self) -> None:
        self._connection.close()

    def empty(self) -> None:
        """Removes every row, begins every sequence anew, and ends whoever is still connected."""
        execute = self._connection.execute
        execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
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
    urls: dict[Path, str] = {}
    with ExitStack() as databases:

        @asynccontextmanager
        async def open_instead(path: Path | None, *, readers: int, capacity: int) -> AsyncIterator[PostgresDatabase]:
            url = urls.get(path) if path is not None else None
            if url is None:
                url = databases.enter_context(a_database(server))
            if path is not None:
                urls[path] = url
            async with open_database(url, readers=min(readers, 2), capacity=capacity) as opened:
                yield opened

        with patch.object(opening, "open_database", open_instead):
            yield
