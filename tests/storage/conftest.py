"""Where stores under test live."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import apsw
import pytest
from tests.storage.sql.commits import Commits

from agentvm.storage.engine import open_postgres
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
async def store(request: pytest.FixtureRequest, database: SqliteDatabase) -> AsyncGenerator[Store]:
    if getattr(request, "param", "sqlite") == "sqlite":
        yield Store(database)
    else:
        async with open_postgres(request.getfixturevalue("emptied_url")) as opened:
            yield opened


@pytest.fixture
def commits() -> Iterator[Commits]:
    watching = Commits()
    apsw.connection_hooks.append(watching.watch)
    yield watching
    apsw.connection_hooks.remove(watching.watch)
