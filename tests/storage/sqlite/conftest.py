"""Where stores under test live."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from agentvm.storage.sqlite import SqliteStore
from agentvm.storage.sqlite.database import Database, open_database


@pytest.fixture
async def database(anyio_backend: str, tmp_path: Path) -> AsyncGenerator[Database]:
    async with open_database(tmp_path / "agentvm.db") as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> SqliteStore:
    return SqliteStore(database)
