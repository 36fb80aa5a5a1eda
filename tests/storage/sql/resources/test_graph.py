import anyio
import apsw
import pytest
from tests.conformance.resources import on, publication, put, version_id
from tests.conformance.store import ACME, RIVAL

from agentvm.errors.resource import ResourceCycle
from agentvm.model.ids import TenantId
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.resources import graph
from agentvm.storage.sql.store import Store


async def test_a_closure_is_one_statement_that_looks_at_no_other_version(database: SqliteDatabase, store: Store) -> None:
    await put(store, publication("0"))
    for number in range(1, 20):
        await put(store, publication(str(number), dependencies=[on(version_id(str(number - 1)))]))
    steps: list[int] = []

    def count(event: dict[str, dict[str, int]]) -> None:
        steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"])

    def read(connection: SqliteConnection) -> int:
        connection.raw.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
        found = len(graph.read_closure(connection, ACME, version_id("19"), 99))
        connection.raw.trace_v2(0, None)
        return found

    assert await database.write(read) == 20
    # One asks whether it may be read, the other reads.
    assert steps == [0, 0]


async def test_a_chain_that_leads_out_of_view_and_back_is_followed(store: Store) -> None:
    """What somebody in view is locked to can be read by everybody, however far down it is."""
    await put(store, publication("leaf", visibility="public"))
    await put(store, publication("middle", visibility="public", dependencies=[on(version_id("leaf"))]))
    await put(store, publication("top", visibility="public", dependencies=[on(version_id("middle"))]))
    ours, theirs = store.resources(ACME), store.resources(RIVAL)
    for name in ("leaf", "middle"):
        await ours.delete((await ours.find("prompts", name)).resource_id, force=True, now=2)  # type: ignore[union-attr]
    assert len(await theirs.closure(version_id("top"), limit=9)) == 3
    assert len(await theirs.closure(version_id("leaf"), limit=9)) == 1
    await ours.delete((await ours.find("prompts", "top")).resource_id, force=True, now=2)  # type: ignore[union-attr]
    assert await theirs.closure(version_id("leaf"), limit=9) == {}


async def test_a_wide_graph_is_checked_for_cycles_in_no_time(store: Store) -> None:
    """Every layer refers to all of the one before: the number of ways grows without bound, that of places does not."""
    with anyio.fail_after(60):
        before: list[str] = []
        for layer in range(12):
            names = [f"l{layer}-{place}" for place in range(3)]
            for name in names:
                below = [on(version_id(each), each, floating=True) for each in before]
                await put(store, publication(name, dependencies=below))
            before = names
        back = [on(version_id(before[0]), floating=True)]
        with pytest.raises(ResourceCycle) as caught:
            await put(store, publication("l0-0", "1.1.0", dependencies=back))
    path = caught.value.details["path"]
    assert isinstance(path, list)
    assert (len(path), path[0], path[-1]) == (13, "resource://prompts/l0-0", "resource://prompts/l0-0")


async def test_nobody_reads_by_a_version_id_that_is_not_theirs(database: SqliteDatabase, store: Store) -> None:
    await put(store, publication())
    asked = [TenantId("acme"), TenantId("rival"), TenantId("")]
    answers = [await database.read(lambda c, of=of: graph.is_readable(c, of, version_id())) for of in asked]  # type: ignore[misc]
    assert answers == [True, False, False]
