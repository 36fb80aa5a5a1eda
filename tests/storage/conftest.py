"""Where stores under test live."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import apsw
import pytest
from tests.storage.sql.commits import Commits

from agentvm.storage.engines.sqlite.database import SqliteDatabase, open_database
from agentvm.storage.sql.store import Store


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
