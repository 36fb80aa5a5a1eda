from collections.abc import AsyncGenerator

import pytest

from agentvm.storage.engines.postgres.database import PostgresDatabase, open_database


@pytest.fixture
async def database(database_url: str) -> AsyncGenerator[PostgresDatabase]:
    async with open_database(database_url, readers=2) as opened:
        yield opened
