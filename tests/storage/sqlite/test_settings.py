from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import apsw
import pytest

from agentvm.errors import StoreFailed
from agentvm.storage.base import Store
from agentvm.storage.sqlite import SqliteStore, open_store
from agentvm.storage.sqlite.database import Database
from agentvm.testing.conformance import settings

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("place", ["file", "memory"])
@pytest.mark.parametrize("check", settings.CHECKS)
async def test_settings_conform(check: Callable[[Store], Awaitable[None]], place: str, tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with open_store(tmp_path / "agentvm.db" if place == "file" else None) as store:
            await check(store)


@pytest.mark.parametrize("statement", ["UPDATE setting_changes SET actor = 'nobody'", "DELETE FROM setting_changes"])
async def test_the_database_refuses_to_change_a_change(statement: str, database: Database, store: SqliteStore) -> None:
    await store.settings(None).append(settings.change())

    def tamper(connection: apsw.Connection) -> None:
        connection.execute(statement)

    with pytest.raises(StoreFailed, match="append-only"):
        await database.write(tamper)
    assert await store.settings(None).read() == (settings.change(),)
