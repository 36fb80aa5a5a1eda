"""Where stores under test live."""

import os
from collections.abc import AsyncGenerator, Iterator
from itertools import count
from pathlib import Path

import apsw
import psycopg
import pytest
from tests.provision.postgres import Postgres
from tests.storage.sql.commits import Commits

from agentvm.storage.engines.postgres.connection import connect
from agentvm.storage.engines.postgres.migrations import load_migrations, migrate
from agentvm.storage.engines.sqlite.database import SqliteDatabase, open_database
from agentvm.storage.sql.store import Store

NUMBERS = count()


@pytest.fixture
async def database(anyio_backend: str, tmp_path: Path) -> AsyncGenerator[SqliteDatabase]:
    async with open_database(tmp_path / "agentvm.db") as opened:
        yield opened


@pytest.fixture
def store(database: SqliteDatabase) -> Store:
    return Store(database)


@pytest.fixture
def commits() -> Iterator[Commits]:
    watching = Commits()
    apsw.connection_hooks.append(watching.watch)
    yield watching
    apsw.connection_hooks.remove(watching.watch)


@pytest.fixture(scope="session")
def template(postgres: Postgres) -> str:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE migrated")
    raw = connect(postgres.url("migrated"))
    migrate(raw, load_migrations())
    raw.close()
    return "migrated"


@pytest.fixture
def database_url(postgres: Postgres, template: str) -> Iterator[str]:
    """The address of an empty database with the whole schema."""
    name = f"db_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield postgres.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
