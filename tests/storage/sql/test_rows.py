import re

import anyio
import pytest
from tests.conformance.accounts import tenant
from tests.conformance.records import IMAGE, SESSION, image, message, turn
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.errors import NotFound, StoreFailed
from agentvm.model.ids import TenantId
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase, Work
from agentvm.storage.sql import rows, sessions
from agentvm.storage.sql.accounts import feedback, ledger
from agentvm.storage.sql.rows import refuse_deleted
from agentvm.storage.sql.sessions import retention
from agentvm.storage.sql.store import Store


def run(sql: str) -> Work[None]:
    def work(connection: SqliteConnection) -> None:
        connection.execute(sql)

    return work


async def test_images_of_one_definition_share_it_in_memory_too(store: Store) -> None:
    with anyio.fail_after(60):
        home = await settle(store, image("a"), image("b"))
        first, second = await home.list_images()
        assert first.definition is second.definition


async def test_a_row_that_cannot_be_decoded_fails_its_reader_only(database: SqliteDatabase, store: Store) -> None:
    with anyio.fail_after(60):
        home = await settle(store, image())
        await home.log(SESSION).record(messages=[message("m1")], turns=[turn("t1")], now=2)
        await database.write(run("UPDATE all_messages SET body = x'00'"))
        with pytest.raises(StoreFailed):
            await home.list_messages(SESSION)
        assert len(await home.log(SESSION).list_turns()) == 1
        await database.write(run("UPDATE snapshots SET body = x'00'"))
        with pytest.raises(StoreFailed):
            await home.get_image(IMAGE)
        assert await home.get_session(SESSION) is not None


async def test_only_a_deleted_tenant_is_refused(database: SqliteDatabase, store: Store) -> None:
    for each in (ACME, RIVAL):
        await store.directory.add_tenant(tenant(each))
    await store.directory.delete_tenant(ACME, now=9)
    for living in (RIVAL, TenantId("never added")):
        await database.read(lambda connection, each=living: refuse_deleted(connection, each))  # type: ignore[misc]
    with pytest.raises(NotFound, match="Tenant not found: acme"):
        await database.read(lambda connection: refuse_deleted(connection, ACME))


@pytest.mark.parametrize("sql", [rows.TURN, ledger._TREE_USE, feedback._DROP, sessions._SUCCEED])
async def test_what_has_an_id_is_found_without_a_look_at_all_that_its_tenant_has(database: SqliteDatabase, sql: str) -> None:
    def plan(connection: SqliteConnection) -> list[str]:
        numbers = [int(number) for number in re.findall(r"\?(\d)", sql)]
        named = dict.fromkeys(("tenant", "root", "own"))
        values = named if ":tenant" in sql else (None,) * max(numbers, default=sql.count("?"))
        return [str(detail) for *_, detail in connection.fetch(f"EXPLAIN QUERY PLAN {sql}", values)]

    with anyio.fail_after(60):
        steps = await database.read(plan)
    assert [
        step for step in steps if step.endswith("(tenant_id=?)") or re.match(r"SCAN (sessions|turns|images|s|t|l)\b", step)
    ] == []


async def test_a_start_finds_quarantined_sessions_by_their_index(database: SqliteDatabase) -> None:
    def plan(connection: SqliteConnection) -> list[str]:
        return [str(detail) for *_, detail in connection.fetch(f"EXPLAIN QUERY PLAN {rows.QUARANTINED}")]

    with anyio.fail_after(60):
        assert await database.read(plan) == ["SCAN s USING INDEX sessions_in_quarantine"]


@pytest.mark.parametrize("sql", [retention._EXPIRING, retention._EXPIRING_STATELESS, retention._WITH_REWOUND])
async def test_retention_looks_only_at_what_may_have_expired(database: SqliteDatabase, sql: str) -> None:
    names = {*re.findall(r":(\w+)", sql)}

    def plan(connection: SqliteConnection) -> list[str]:
        return [str(detail) for *_, detail in connection.fetch(f"EXPLAIN QUERY PLAN {sql}", dict.fromkeys(names))]

    with anyio.fail_after(60):
        steps = await database.read(plan)
    assert [step for step in steps if re.match(r"(SCAN|SEARCH) s\b", step) and step.endswith("(tenant_id=?)")] == []
    assert [step for step in steps if re.match(r"SCAN (s|w)\b", step)] == []
