"""Bytes of files go when nothing refers to them, and not before."""

from tests.conformance.records import SESSION, image, message, session
from tests.conformance.session_files import change as commit_change
from tests.conformance.session_files import contents
from tests.conformance.store import ACME, settle

from agentvm.model.ids import SessionId
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.store import Store


async def blobs(database: SqliteDatabase) -> int:
    rows = await database.read(lambda connection: connection.fetch("SELECT count(*) FROM blobs"))
    return int(rows[0][0])


async def test_a_session_that_is_purged_takes_its_files_and_their_bytes(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("second"), [message("m1")])
    await commit_change(store, {"a": bytes(600_000), "b": b"x"}, "m2", session_id=SessionId("second"))
    await store.tenant(ACME).sessions(None).delete(SessionId("second"), 5)
    assert await store.purge_sessions(10)
    while await store.collect(10_000_000, grace=1):
        pass
    assert await home.files(SessionId("second")).list() == ()
    assert await blobs(database) == 0


async def test_bytes_are_claimed_until_their_grace_is_over(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    await home.files(SESSION).put_all((b"claimed",), 100)
    await store.collect(149, grace=50)
    assert await blobs(database) == 1
    await store.collect(150, grace=50)
    assert await blobs(database) == 0


async def test_two_sessions_share_bytes_and_neither_takes_them_from_the_other(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("second"))
    for session_id in (SESSION, SessionId("second")):
        await commit_change(store, {"a": b"same"}, "m1", session_id=session_id)
    await commit_change(store, {"a": None}, "m2", session_id=SessionId("second"))
    await store.tenant(ACME).sessions(None).delete(SessionId("second"), 5)
    await store.purge_sessions(10)
    while await store.collect(10_000_000, grace=1):
        pass
    assert await contents(home) == {"a": b"same"}
    assert await blobs(database) == 1
