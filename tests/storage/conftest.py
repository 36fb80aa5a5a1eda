"""Where stores under test live."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import apsw
import pytest
from tests.storage.sql.commits import Commits
from tests.support.engines import EmptiedDatabase

from agentvm.storage.engine import open_store
from agentvm.storage.engines.postgres.database import PostgresDatabase
from agentvm.storage.engines.postgres.database import open_database as open_postgres
from agentvm.storage.engines.sqlite.database import SqliteDatabase, open_database
from agentvm.storage.sql.store import Store


@pytest.fixture
async def database(anyio_backend: str, tmp_path: Path) -> AsyncGenerator[SqliteDatabase]:
    async with open_database(tmp_path / "agentvm.db") as opened:
        yield opened


ON_BOTH_ENGINES = {
    "test_aliases", "test_asked", "test_browser_sessions", "test_channels", "test_connections", "test_feedback", "test_grants",
    "test_identities", "test_invitations", "test_placed_calls", "test_preferences", "test_programs", "test_schedules",
    "test_secrets", "test_session_files", "test_wait_links", "test_waits", "test_webhooks",
}  # fmt: skip
"""Tests of tables that the checks of the store do not touch."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in ON_BOTH_ENGINES and "store" in metafunc.fixturenames:
        metafunc.parametrize("store", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def sqlite_store(database: SqliteDatabase) -> Store:
    return Store(database)


@pytest.fixture
async def memory_store(anyio_backend: str) -> AsyncGenerator[Store]:
    async with open_store(None) as opened:
        yield opened


@pytest.fixture(scope="module")
async def kept_open(anyio_backend: str, emptied_database: EmptiedDatabase) -> AsyncGenerator[PostgresDatabase]:
    """One database for all tests of a module: opening its connections takes longer than most of them."""
    async with open_postgres(emptied_database.url, readers=1) as opened:
        yield opened


@pytest.fixture
def postgres_store(kept_open: PostgresDatabase, emptied_database: EmptiedDatabase) -> Iterator[Store]:
    yield Store(kept_open)
    emptied_database.empty()


@pytest.fixture(scope="module")
async def older_kept_open(anyio_backend: str, older_emptied_database: EmptiedDatabase) -> AsyncGenerator[PostgresDatabase]:
    async with open_postgres(older_emptied_database.url, readers=1) as opened:
        yield opened


@pytest.fixture
def older_postgres_store(older_kept_open: PostgresDatabase, older_emptied_database: EmptiedDatabase) -> Iterator[Store]:
    yield Store(older_kept_open)
    older_emptied_database.empty()


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    """An empty store, in SQLite unless a test says where: its parameter is `sqlite`, `memory` or `postgres`."""
    opened = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_store")
    assert isinstance(opened, Store)
    return opened


@pytest.fixture
def commits() -> Iterator[Commits]:
    watching = Commits()
    apsw.connection_hooks.append(watching.watch)
    yield watching
    apsw.connection_hooks.remove(watching.watch)
