import io
from functools import partial

import pytest
from tests.conformance.erasing import erase, fill, fill_collection
from tests.conformance.records import HOME, image, message, session
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.errors import StoreFailed
from agentvm.model.account import Tenant
from agentvm.model.ids import ERASED_NAME, ContainerId, is_erased_name
from agentvm.storage.attachments import CHUNK_BYTES, Upload
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.erasing.rows import pseudonym
from agentvm.storage.sql.sessions.dropping import BYTES_MAX, ROWS_MAX
from agentvm.storage.sql.store import Store

OF_CONTAINERS = (
    "containers", "images", "snapshots", "sessions", "all_messages", "message_facts", "turns", "log", "rewinds", "summaries",
    "drafts", "read_marks", "readers", "blobs", "blob_chunks", "attachments", "message_attachments", "erasures",
    "search_pending", "refused_parts", "rewound_ranges", "arriving_messages", "waits", "file_changes", "file_claims",
    "program_calls", "placed_calls", "aliases", "webhook_deliveries", "feedback", "shares",
    "channel_messages", "memories", "store_items", "schedules", "triggers", "runs",
)  # fmt: skip
OF_TENANTS = (
    "users", "bindings", "api_keys", "browser_sessions", "quotas", "quota_parts", "secrets", "secret_grants", "mcp_connections",
    "definitions", "setting_changes", "exports", "resources", "retired_homes", "invitations", "identities", "preferences",
    "webhooks", "channels", "collections", "collection_documents", "knowledge_indexes", "knowledge_chunks", "knowledge_reads",
    "knowledge_signs",
)  # fmt: skip


async def count(database: SqliteDatabase, *tables: str) -> dict[str, int]:
    def read(connection: SqliteConnection) -> dict[str, int]:
        return {table: connection.fetch(f"SELECT count(*) FROM {table}", ())[0][0] for table in tables}

    return await database.read(read)


async def test_an_erased_container_leaves_no_row_in_any_table_but_the_ledger(database: SqliteDatabase, store: Store) -> None:
    await fill(store)
    assert (await count(database, "ledger"))["ledger"] == 1
    await store.erasing.delete_container(ACME, HOME, now=9)
    await erase(store)
    assert await count(database, *OF_CONTAINERS) == dict.fromkeys(OF_CONTAINERS, 0)
    assert (await count(database, "ledger"))["ledger"] == 1


async def test_every_table_that_names_a_tenant_is_erased_or_said_to_stay(database: SqliteDatabase) -> None:
    def named(connection: SqliteConnection) -> set[str]:
        query = """
        SELECT t.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
        WHERE t.type = 'table' AND c.name IN ('tenant_id', 'session_key', 'scope')
        """
        return {name for (name,) in connection.fetch(query)}

    # Notices have ids alone, and are dropped after ten minutes.
    stay = {"asked", "audit", "credits", "ledger", "notices", "tenants", "wallets"}
    shadows = {"resource_fts"}
    assert await database.read(named) - stay - shadows == (set(OF_CONTAINERS) | set(OF_TENANTS)) & await database.read(named)


async def test_an_erased_tenant_leaves_its_number_and_no_name(database: SqliteDatabase, store: Store) -> None:
    await store.directory.add_tenant(
        Tenant(tenant_id=ACME, slug="acme", name="Acme Corp", description="d", plan="p", created_at=1, updated_at=1)
    )
    await fill(store)
    await fill_collection(store, ACME)
    await store.accounts(ACME).quotas.add_exported(5, 0)
    await store.directory.delete_tenant(ACME, now=9)
    await erase(store)
    assert await count(database, *OF_CONTAINERS, *OF_TENANTS) == dict.fromkeys((*OF_CONTAINERS, *OF_TENANTS), 0)
    left = await database.read(lambda connection: connection.fetch("SELECT slug, name, description, plan FROM tenants"))
    assert left == [(ACME, ACME, None, None)]


async def test_one_commit_drops_no_more_than_it_may(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("long"), [message(f"m{number}") for number in range(3 * ROWS_MAX)])
    await store.erasing.delete_container(ACME, HOME, now=9)
    (erasure,) = await store.erasing.pending()
    dropped: list[int] = []
    while (step := await store.erasing.advance(erasure)).more:
        dropped.append(step.messages)
    assert max(dropped) <= ROWS_MAX
    assert sum(dropped) == 3 * ROWS_MAX


async def test_a_large_file_goes_in_pieces_and_the_same_bytes_can_be_uploaded_meanwhile(
    database: SqliteDatabase, store: Store
) -> None:
    content = bytes(BYTES_MAX + 3 * CHUNK_BYTES)
    home, other = await settle(store), await settle(store, tenant=RIVAL)
    await home.attachments.add(io.BytesIO(content), Upload(media_type="text/plain"), now=1)
    await store.erasing.delete_container(ACME, HOME, now=9)
    (erasure,) = await store.erasing.pending()
    chunks = [(await count(database, "blob_chunks"))["blob_chunks"]]
    added = False
    while (await store.erasing.advance(erasure)).more:
        chunks.append((await count(database, "blob_chunks"))["blob_chunks"])
        if not added and chunks[-1] < chunks[0]:
            kept, added = await other.attachments.add(io.BytesIO(content), Upload(media_type="text/plain"), now=2)
            assert added
    assert await other.attachments.read(kept.digest, 0) == bytes(CHUNK_BYTES)
    assert (await count(database, "blobs"))["blobs"] == 1
    assert chunks[-1] == chunks[0] == len(content) // CHUNK_BYTES


async def test_a_call_that_is_still_to_be_entered_loses_the_name_of_its_container_too(
    database: SqliteDatabase, store: Store
) -> None:
    await fill(store)

    def ask(connection: SqliteConnection) -> None:
        connection.execute(
            "INSERT INTO asked VALUES ('acme', 'k', 'c', 1, NULL, ?, 'i', 's', 't', 'd', 'm', 'p', 0, 0, 1, 0, NULL)", (HOME,)
        )

    await database.write(ask)
    await store.erasing.delete_container(ACME, HOME, now=9)
    await erase(store)
    query = "SELECT container_id FROM asked UNION SELECT container_id FROM ledger"
    names = await database.read(lambda connection: connection.fetch(query))
    assert len(names) == 1
    assert names[0][0].startswith(ERASED_NAME)


@pytest.mark.parametrize("of_tenant", [False, True])
async def test_a_container_whose_own_name_begins_like_an_erased_one_loses_it_too(
    database: SqliteDatabase, store: Store, of_tenant: bool
) -> None:
    named = ContainerId("erased-love-letters")
    await fill(store)

    def enter(connection: SqliteConnection) -> None:
        connection.execute(
            "INSERT INTO asked VALUES ('acme', 'k', 'c', 1, NULL, ?, 'i', 's', 't', 'd', 'm', 'p', 0, 0, 1, 0, NULL)", (named,)
        )
        connection.execute("UPDATE ledger SET container_id = ?", (named,))

    await settle(store, container=named)
    await database.write(enter)
    if of_tenant:
        await store.directory.add_tenant(Tenant(tenant_id=ACME, slug="acme", name="Acme", created_at=1, updated_at=1))
        await store.directory.delete_tenant(ACME, now=9)
    else:
        await store.erasing.delete_container(ACME, named, now=9)
    await erase(store)
    query = "SELECT container_id FROM asked UNION SELECT container_id FROM ledger"
    names = await database.read(lambda connection: connection.fetch(query))
    assert [is_erased_name(name) for (name,) in names] == [True]


async def test_bytes_that_were_uploaded_and_not_needed_go_too(database: SqliteDatabase, store: Store) -> None:
    home, other = await settle(store), await settle(store, tenant=RIVAL)
    for container in (other, home):
        # The second brings bytes that the first has: they are stored all the same, and then given up.
        await container.attachments.add(io.BytesIO(b"the same"), Upload(media_type="text/plain"), now=1)
    assert (await count(database, "blobs"))["blobs"] == 2
    await store.erasing.delete_container(ACME, HOME, now=9)
    await erase(store)
    assert (await count(database, "blobs"))["blobs"] == 1
    (kept,) = (await other.attachments.list()).items
    assert await other.attachments.read(kept.digest, 0) == b"the same"


async def test_the_ledger_changes_in_nothing_but_the_name_of_an_erased_container(
    database: SqliteDatabase, store: Store
) -> None:
    await fill(store)
    for change in ("price = 0", "container_id = 'other'", "price = 0, container_id = 'erased-x'", "user_id = NULL"):
        with pytest.raises(StoreFailed, match="append-only"):
            await database.write(partial(update, change=change))
    await database.write(partial(update, change="container_id = 'erased-x'"))


def update(connection: SqliteConnection, change: str) -> None:
    connection.execute(f"UPDATE ledger SET {change}")


def test_a_pseudonym_is_the_same_for_one_container_and_tells_nothing_of_it() -> None:
    assert pseudonym(b"salt", "user-alice") == pseudonym(b"salt", "user-alice")
    assert len({pseudonym(salt, name) for salt in (b"a", b"b") for name in ("user-alice", "user-bob")}) == 4
    assert pseudonym(b"a", "user-alice").startswith(ERASED_NAME)
