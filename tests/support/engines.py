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
