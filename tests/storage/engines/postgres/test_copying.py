"""A copy in PostgreSQL holds what the SQLite database held, or it does not exist."""

import os
from pathlib import Path

import anyio
import anyio.to_thread
import apsw
import psycopg
import pytest
from tests.conformance.records import HOME, SESSION, default_session, image, message
from tests.conformance.session_search import ids
from tests.conformance.sessions import mine
from tests.conformance.store import ACME
from tests.conformance.suite import CHECKS, Check

from agentvm.errors import Conflict, DataDirInUse, NotFound, StoreFailed
from agentvm.storage.base import CopiedTable
from agentvm.storage.engine import DATABASE, copy_to_postgres, lock_data_dir, open_store
from agentvm.storage.engines.postgres import copying
from agentvm.storage.engines.postgres.connection import PostgresConnection, connect
from agentvm.storage.engines.postgres.database import open_database
from agentvm.storage.engines.postgres.database_locks import connect_writer
from agentvm.storage.engines.postgres.opening import open_store as open_postgres
from agentvm.storage.sql.store import Store

SOME = CHECKS if os.environ.get("AVM_COPY_ALL") else CHECKS[3::24]
"""Checks whose traces are copied: a few for every day. A few of all leave nothing."""


def silent(label: str, done: int, of: int) -> None: ...


async def copy(data_dir: Path, url: str) -> dict[str, int]:
    """The rows of each table that was copied."""
    with anyio.fail_after(60):
        copied: tuple[CopiedTable, ...] = await anyio.to_thread.run_sync(copy_to_postgres, data_dir, url, silent)
    return {table.name: table.rows for table in copied}


async def say(store: Store, *messages: tuple[str, str]) -> None:
    await store.tenant(ACME).container(HOME).log(SESSION).record(messages=[message(*one) for one in messages], now=2)


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """A data directory with three messages, of which one is not in the search yet."""
    async with open_store(tmp_path / DATABASE) as store:
        home = store.tenant(ACME).container(HOME)
        await home.create(1)
        await home.add_image(image(), default_session(image()))
        await say(store, ("m1", "Herons nest in May"), ("m2", "北京烤鸭 " * 3_000))
        assert await ids(mine(store), "heron") == ["m1"]
        await say(store, ("m3", "And herons again"))
    return tmp_path


async def counted(url: str) -> int:
    async with open_database(url, readers=1) as database:
        rows = await database.read(lambda connection: connection.fetch("SELECT count(*) FROM all_messages"))
    return int(rows[0][0])


async def test_a_server_goes_on_with_the_copy_and_finds_what_was_said(data_dir: Path, database_url: str) -> None:
    copied = await copy(data_dir, database_url)
    assert (copied["sessions"], copied["all_messages"], copied["search_pending"]) == (1, 3, 1)
    async with open_postgres(database_url, readers=1) as store:
        assert await ids(mine(store), "烤鸭") == ["m2"]
        assert await ids(mine(store), "herons") == ["m3", "m1"]
        await say(store, ("m4", "Later"))
        listed = await store.tenant(ACME).container(HOME).list_messages(SESSION)
    assert [one.id for one in listed] == ["m1", "m2", "m3", "m4"]
    with apsw.Connection(str(data_dir / DATABASE)) as source:
        assert source.execute("SELECT count(*) FROM all_messages").fetchall() == [(3,)]


@pytest.mark.parametrize("check", SOME, ids=lambda check: check.__name__)
async def test_whatever_is_stored_is_copied(check: Check, tmp_path: Path, database_url: str) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await check(store)
    assert len(await copy(tmp_path, database_url)) > 50


async def test_triggers_and_numbers_go_on_after_the_copy(data_dir: Path, database_url: str) -> None:
    with apsw.Connection(str(data_dir / DATABASE)) as source:
        source.execute("INSERT INTO audit (tenant_id, at, actor, action, target, result) VALUES ('t', 1, 'a', 'b', 'c', 'd')")
        # A place that was given once is not given again.
        source.execute("DELETE FROM all_messages WHERE message_id = 'm3'")
    await copy(data_dir, database_url)
    async with open_postgres(database_url, readers=1) as store:
        await say(store, ("m4", "Later"))
    async with open_database(database_url, readers=1) as database:
        places = await database.read(lambda connection: connection.fetch("SELECT position FROM all_messages ORDER BY position"))
        assert places == [(1,), (2,), (4,)]
        with pytest.raises(StoreFailed, match="append-only"):
            await database.write(lambda connection: connection.execute("DELETE FROM audit"))


async def test_a_target_with_data_a_used_source_and_a_missing_one_are_refused(data_dir: Path, database_url: str) -> None:
    with pytest.raises(NotFound, match="no database in"):
        await copy(data_dir / "other", database_url)
    with lock_data_dir(data_dir), pytest.raises(DataDirInUse, match="in use by another AgentVM server"):
        await copy(data_dir, database_url)
    await copy(data_dir, database_url)
    with pytest.raises(Conflict, match="not empty"):
        await copy(data_dir, database_url)


async def test_a_database_that_a_server_uses_is_refused(
    data_dir: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentvm.storage.engines.postgres.database_locks.LOCK_SECONDS", 0)
    with connect_writer(database_url), pytest.raises(DataDirInUse, match="another AgentVM"):
        await copy(data_dir, database_url)


@pytest.mark.parametrize(("version", "remedy"), [(1, "Start this AgentVM on it once"), (9_999, "newer AgentVM")])
async def test_a_source_of_another_release_is_refused(data_dir: Path, database_url: str, version: int, remedy: str) -> None:
    with apsw.Connection(str(data_dir / DATABASE)) as source:
        source.pragma("user_version", version)
    with pytest.raises(Conflict, match=remedy):
        await copy(data_dir, database_url)


async def test_a_damaged_source_leaves_nothing_behind(data_dir: Path, database_url: str) -> None:
    with apsw.Connection(str(data_dir / DATABASE)) as source:
        source.execute("UPDATE all_messages SET body = x'7b' WHERE message_id = 'm1'")
    with pytest.raises(StoreFailed, match="Nothing was copied"):
        await copy(data_dir, database_url)
    assert await counted(database_url) == 0


async def test_a_row_that_arrives_changed_is_noticed_and_nothing_is_copied(
    data_dir: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        # What a proxy, a rule or a trigger of somebody else's might do.
        connection.execute(
            "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.title = 'x'; RETURN NEW; END $$;"
            "CREATE TRIGGER change BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION change()"
        )
    monkeypatch.setattr(copying, "_set_triggers", lambda raw, tables, state: None)
    with pytest.raises(StoreFailed, match="table sessions has 1 rows in SQLite and 1 in PostgreSQL, and they differ"):
        await copy(data_dir, database_url)
    assert await counted(database_url) == 0


async def test_an_old_text_with_a_character_that_postgresql_refuses_is_copied_without_it(
    data_dir: Path, database_url: str
) -> None:
    with apsw.Connection(str(data_dir / DATABASE)) as source:
        source.execute("UPDATE sessions SET title = ?", ("a\0b",))
    await copy(data_dir, database_url)
    # Without the lock of a server: that of the copy goes a moment after its connection.
    raw = connect(database_url)
    assert PostgresConnection(raw).fetch("SELECT title FROM sessions") == [("a\ufffdb",)]
    raw.close()
