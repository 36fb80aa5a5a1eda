from pathlib import Path
from typing import Any

import anyio
import apsw
from tests.conformance import readers
from tests.conformance.records import IMAGE, SESSION, image
from tests.conformance.store import ACME, bound_append_cost, settle

from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.storage.base import ReaderPlace
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


def _scanned(event: dict[str, Any]) -> int:
    # The search reads its own few settings once.
    steps: int = event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]
    return 0 if "message_fts_config" in event["sql"] else steps


async def test_an_append_to_a_long_session_takes_as_many_steps_as_to_a_short_one(
    database: SqliteDatabase, store: Store
) -> None:
    steps = 0

    def look(event: dict[str, Any]) -> None:
        assert _scanned(event) == 0

    def count() -> bool:
        # One by one: the statements that the search runs within itself report what they have done in all their life.
        nonlocal steps
        steps += 1
        return False

    def watch(connection: SqliteConnection) -> None:
        connection.raw.trace_v2(apsw.SQLITE_TRACE_PROFILE, look)
        connection.raw.set_progress_handler(count, 1)

    await database.write(watch)
    with anyio.fail_after(60):
        await bound_append_cost(store, lambda: steps)


async def test_an_append_to_a_long_session_writes_as_many_pages_as_to_a_short_one(
    database: SqliteDatabase, store: Store, tmp_path: Path
) -> None:
    # Without checkpoints the log only grows, by exactly the pages that were written.
    await database.write(lambda connection: connection.raw.wal_autocheckpoint(0))
    with anyio.fail_after(60):
        await bound_append_cost(store, lambda: (tmp_path / "agentvm.db-wal").stat().st_size)


async def test_no_scan_of_all_readers_is_needed_to_save_take_trim_or_forget_one(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image(), image("img_2"))
    tenant = store.tenant(ACME)
    for number in range(50):
        await tenant.save_reader(f"reader-{number}", {SESSION: ReaderPlace(None, 1), readers.OTHER: ReaderPlace(None, 2)})
    scanned = 0

    def count(event: dict[str, Any]) -> None:
        nonlocal scanned
        scanned += _scanned(event)

    await database.write(lambda connection: connection.raw.trace_v2(apsw.SQLITE_TRACE_PROFILE, count))
    await tenant.save_reader("reader-1", {SESSION: ReaderPlace(None, 1)})
    await tenant.take_reader("reader-2")
    await store.trim_log(1, 10**9)
    await home.delete_image(IMAGE)
    assert scanned == 0


async def test_a_tenant_is_only_a_name_until_it_stores_something(store: Store) -> None:
    with anyio.fail_after(60):
        assert await store.tenant(TenantId("nobody")).list_containers() == ()


async def test_every_store_of_a_tenant_waits_in_that_tenants_turn(store: Store) -> None:
    tenant_id = TenantId("tnt_a")
    tenant = store.tenant(tenant_id)
    container = tenant.container(ContainerId("c"))
    accounts = store.accounts(tenant_id)
    scoped: list[object] = [
        tenant,
        container,
        container.attachments,
        container.log(SessionId("s")),
        tenant.sessions(None),
        tenant.drafts("", None),
        tenant.retention(),
        store.resources(tenant_id),
        store.carrier(tenant_id),
        store.settings(tenant_id),
        store.definitions(tenant_id),
        *(getattr(accounts, name) for name in vars(accounts) if not name.startswith("_")),
    ]
    assert len(scoped) > 14
    assert {each._database.tenant_id for each in scoped} == {tenant_id}  # type: ignore[attr-defined]
    assert store.settings(None)._database.tenant_id is None
