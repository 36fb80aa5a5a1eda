import re
from collections.abc import AsyncGenerator
from functools import partial
from itertools import product
from pathlib import Path

import anyio
import apsw
import pytest
from msgspec import structs
from tests.conformance.records import HOME, IMAGE, SESSION, default_session, image, message, session, turn
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.errors import ImageNotFound
from agentvm.model.definition import Definition
from agentvm.model.ids import SessionId
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase, Work, open_database
from agentvm.storage.sql import rows
from agentvm.storage.sql.session_write import PIECE_MESSAGES
from agentvm.storage.sql.store import Store


@pytest.fixture
async def traced(anyio_backend: str, tmp_path: Path) -> AsyncGenerator[tuple[SqliteDatabase, set[str]]]:
    """A database and the text of every statement it has run since."""
    statements: set[str] = set()

    def note(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        statements.add(sql)
        return True

    def listen(connection: SqliteConnection) -> None:
        connection.raw.exec_trace = note

    async with open_database(tmp_path / "a.db", readers=1) as database:
        await database.write(listen)
        await database.read(listen)
        yield database, statements


async def use_everything(store: Store) -> None:
    home = await settle(store, image(), image("second"))
    await home.add_session(session("more"))
    await home.log(SESSION).record(messages=[message("m1")], turns=[turn("t1")], now=2)
    await home.get()
    await home.get_image(IMAGE)
    await home.list_images()
    await home.update_image(IMAGE, name="n", description="d", now=2)
    await home.get_session(SESSION)
    await home.list_sessions(IMAGE)
    await home.set_title(SESSION, "t", now=2)
    await home.list_messages(SESSION)
    await home.list_recent_messages(SESSION, 1_000)
    await home.log(SESSION).list_turns()
    await store.tenant(ACME).list_containers()
    await store.tenant(ACME).find_containers([("home", "home")])
    await store.tenant(ACME).next_containers("", 10)
    await store.tenant(ACME).find_image(IMAGE)
    await store.tenant(ACME).find_session(SESSION)
    await home.delete_image(IMAGE)


def plan(sql: str) -> Work[list[str]]:
    def work(connection: SqliteConnection) -> list[str]:
        # Without a trace: it would add this statement to those under test.
        connection.raw.exec_trace = None
        numbers = [int(number) for number in re.findall(r"\?(\d)", sql)]
        parameters = (None,) * max(numbers, default=sql.count("?"))
        return [detail for *_, detail in connection.fetch(f"EXPLAIN QUERY PLAN {sql}", parameters)]

    return work


async def test_no_statement_scans_or_sorts_a_table(traced: tuple[SqliteDatabase, set[str]]) -> None:
    database, statements = traced
    with anyio.fail_after(60):
        await use_everything(Store(database))
        examined = [sql for sql in statements if sql.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE"}]
        assert len(examined) >= 20
        for sql in examined:
            steps = await database.write(plan(sql))
            assert [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step] == [], sql


async def test_the_plan_shows_a_scan_where_there_is_one(traced: tuple[SqliteDatabase, set[str]]) -> None:
    database, _ = traced
    with anyio.fail_after(60):
        assert (await database.write(plan("SELECT body FROM messages WHERE message_id = ?")))[0] == "SCAN all_messages"


async def test_every_statement_on_what_tenants_own_names_tenant_and_container(traced: tuple[SqliteDatabase, set[str]]) -> None:
    database, statements = traced
    with anyio.fail_after(60):
        await use_everything(Store(database))
    owned = [sql for sql in statements if any(f" {table} " in f"{sql} " for table in ("containers", "images", "sessions"))]
    # These cannot name both: a tenant looking for the container, and the collector of snapshots, which are shared.
    excused = [sql for sql in owned if sql.startswith(("SELECT container_id FROM", "DELETE FROM snapshots"))]
    assert len(excused) == 5
    for sql in set(owned) - set(excused):
        assert "tenant_id" in sql
        assert "container_id" in sql


def rows_in(table: str) -> Work[int]:
    return lambda connection: int(connection.fetch(f"SELECT count(*) FROM {table}")[0][0])


async def test_a_snapshot_is_stored_once_and_collected_with_its_last_image(database: SqliteDatabase, store: Store) -> None:
    with anyio.fail_after(60):
        ours = await settle(store, image("a"), image("b"), image("c", definition=Definition(name="other")))
        theirs = await settle(store, image("a"), tenant=RIVAL)
        assert await database.read(rows_in("snapshots")) == 2
        for scope, image_id, left in ((ours, "a", 2), (ours, "c", 1), (ours, "b", 1), (theirs, "a", 0)):
            await scope.delete_image(image(image_id).image_id)
            assert await database.read(rows_in("snapshots")) == left


async def test_deleting_an_image_leaves_no_row_behind(database: SqliteDatabase, store: Store) -> None:
    with anyio.fail_after(60):
        home = await settle(store, image())
        await home.add_session(session("more"))
        for each in (SESSION, SessionId("more")):
            await home.log(each).record(messages=[message("m1"), message("m2")], turns=[turn("t1")], now=2)
        await home.delete_image(IMAGE)
        for table in ("images", "sessions", "messages", "turns", "snapshots"):
            assert await database.read(rows_in(table)) == 0


async def test_a_snapshot_under_a_false_digest_is_refused(store: Store) -> None:
    forged = structs.replace(image("forged"), digest=image(definition=Definition(name="victim")).digest)
    with anyio.fail_after(60):
        home = await settle(store)
        with pytest.raises(ValueError, match="digest"):
            await home.add_image(forged, default_session(forged))


async def test_the_scope_decides_the_container_not_the_record(store: Store) -> None:
    with anyio.fail_after(60):
        home = await settle(store, image(container="elsewhere"))
        assert await home.get_image(IMAGE) == image()
        assert await store.tenant(ACME).list_containers() == ("home",)


async def test_a_session_in_which_much_was_said_is_seen_when_all_of_it_is_there(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    long = [message(f"m{number}", "heron") for number in range(5 * PIECE_MESSAGES)]
    seen: set[int] = set()

    async def look() -> None:
        while len(long) not in seen:
            shown = await home.get_session(SessionId("s2"))
            seen.add(0 if shown is None else len(await home.list_messages(SessionId("s2"))))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            await home.add_session(session("s2"), long)
    assert seen <= {0, len(long)}
    assert await home.list_messages(SessionId("s2")) == tuple(long)


async def test_a_long_session_whose_image_goes_meanwhile_goes_with_it(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    long = [message(f"m{number}", "heron") for number in range(50 * PIECE_MESSAGES)]
    refused: list[ImageNotFound] = []

    async def add() -> None:
        try:
            await home.add_session(session("s2"), long)
        except ImageNotFound as error:
            refused.append(error)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add)
            while not await database.read(lambda found: found.fetch("SELECT 1 FROM all_messages LIMIT 1")):
                pass
            await home.delete_image(IMAGE)
    assert len(refused) == 1
    assert await database.read(lambda found: found.fetch("SELECT count(*) FROM all_messages")) == [(0,)]


async def test_what_a_crash_has_left_of_a_long_session_is_dropped_at_the_next_start(tmp_path: Path) -> None:
    async with open_store(tmp_path / "x.db") as store:
        home = await settle(store, image())
        await home.add_session(session("s2"), [message("m1")])
    async with open_database(tmp_path / "x.db") as database:
        begin = "INSERT INTO arrivals (published_at) VALUES (NULL) RETURNING arrival_key"
        ((key,),) = await database.write(lambda found: found.fetch(begin))
        await database.write(lambda found: found.execute("UPDATE sessions SET arrival_key = ? WHERE session_id = 's2'", (key,)))
    async with open_store(tmp_path / "x.db") as store:
        assert await store.tenant(ACME).container(HOME).list_messages(SessionId("s2")) == ()


async def test_a_history_is_the_same_whether_it_is_read_in_one_go_or_again_as_a_heavy_read(tmp_path: Path) -> None:
    async with open_database(tmp_path / "long.db") as database:
        home = await settle(Store(database), image())
        await home.log(SESSION).record(messages=[message(f"m{number}", "x" * number * 5) for number in range(400)], now=1)
        for max_bytes, limit, strict in product((0, 5_000, 40_000, 300_000, 10_000_000), (None, 3, 200, 250), (True, False)):
            read = partial(rows.read_recent_messages, key=(ACME, HOME), session_id=SESSION, max_bytes=max_bytes)
            whole = await database.read(partial(read, limit=limit, strict=strict))
            assert await home.list_recent_messages(SESSION, max_bytes, limit=limit, strict=strict) == whole
