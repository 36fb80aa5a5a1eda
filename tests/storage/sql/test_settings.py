from pathlib import Path

import apsw
import pytest
from tests.conformance import settings

from agentvm.errors import StoreFailed
from agentvm.storage.engine import open_store, read_file
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


@pytest.mark.parametrize("statement", ["UPDATE setting_changes SET actor = 'nobody'", "DELETE FROM setting_changes"])
async def test_the_database_refuses_to_change_a_change(statement: str, database: SqliteDatabase, store: Store) -> None:
    await store.settings(None).append(settings.change())

    def tamper(connection: SqliteConnection) -> None:
        connection.execute(statement)

    with pytest.raises(StoreFailed, match="append-only"):
        await database.write(tamper)
    assert await store.settings(None).read() == (settings.change(),)


def trace(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.iterdir()}


async def test_a_file_that_nobody_has_open_can_be_read_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a ?#.db"
    assert read_file(path) == ()
    async with open_store(path) as store:
        await store.settings(None).append(settings.change())
        assert [one.revision for one in read_file(path)] == [1]
    before = trace(tmp_path)
    assert [one.revision for one in read_file(path)] == [1]
    assert trace(tmp_path) == before


def test_a_file_that_is_no_database_is_told_and_an_older_one_has_no_changes(tmp_path: Path) -> None:
    odd, old = tmp_path / "odd.db", tmp_path / "old.db"
    odd.write_text("no database, but long enough to look like one" * 20)
    with pytest.raises(StoreFailed, match=r"odd\.db cannot be read"):
        read_file(odd)
    apsw.Connection(str(old)).execute("CREATE TABLE tenants (tenant_id)")
    assert read_file(old) == ()
