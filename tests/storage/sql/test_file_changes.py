"""Bytes of files go when nothing refers to them, and not before."""

from itertools import pairwise

from tests.conformance.records import HOME, SESSION, image, message, session
from tests.conformance.session_files import change as commit_change
from tests.conformance.session_files import contents, rewind
from tests.conformance.store import ACME, settle

from agentvm.model.ids import MessageId, SessionId
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.attachments import DROPPED_MAX
from agentvm.storage.sql.file_changes import copy_files, trim_versions
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


async def states(database: SqliteDatabase, path: str = "a") -> list[int]:
    """The positions of the changes of a file, the oldest first; messages count from 1 here."""
    rows = await database.read(lambda connection: connection.fetch(_STATES, (path,)))
    return [int(position) for (position,) in rows]


_STATES = """
SELECT CASE WHEN position = 0 THEN 0 ELSE (SELECT count(*) FROM all_messages AS m WHERE m.position <= f.position) END
FROM file_changes AS f WHERE path = ? ORDER BY position
"""


async def test_the_oldest_states_of_a_file_go_and_a_rewind_has_the_oldest_that_is_kept(
    database: SqliteDatabase, store: Store
) -> None:
    home = await settle(store, image())
    for number in range(1, 7):
        await commit_change(store, {"a": b"%d" % number, "b": b"same"} if number < 3 else {"a": b"%d" % number}, f"m{number}")
    await home.files(SESSION).trim(("a", "b", "missing"), 3)
    assert (await states(database), await states(database, "b")) == ([0, 5, 6], [1, 2])
    while await store.collect(10_000_000, grace=1):
        pass
    # 4, 5, 6, and `same`.
    assert await blobs(database) == 4
    for taken, content in (("m6", b"5"), ("m5", b"4"), ("m4", b"4"), ("m3", b"4")):
        await rewind(store, taken)
        assert (await contents(home))["a"] == content
    await rewind(store, "m2", "m1")
    assert await contents(home) == {"a": b"4"}


async def test_states_that_were_rewound_never_stand_again_and_the_one_that_stands_is_kept(
    database: SqliteDatabase, store: Store
) -> None:
    home = await settle(store, image())
    await commit_change(store, {"a": b"1"}, "m1")
    for number in range(2, 6):
        await commit_change(store, {"a": b"%d" % number}, f"m{number}")
        await rewind(store, f"m{number}")
    await home.files(SESSION).trim(("a",), 2)
    assert await contents(home) == {"a": b"1"}
    assert len(await states(database)) == 2
    await home.files(SESSION).trim(("a",), 1)
    assert await contents(home) == {"a": b"1"}
    await commit_change(store, {"a": None}, "m9")
    await home.files(SESSION).trim(("a",), 1)
    assert (await contents(home), await states(database)) == ({}, [])


async def test_many_states_go_in_slices(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    count = 2 * DROPPED_MAX + 20
    for number in range(count):
        await commit_change(store, {"a": b"%d" % number}, f"m{number}")
    rows = await database.read(lambda connection: connection.fetch("SELECT session_key FROM file_changes LIMIT 1"))
    sizes = [count]
    while sizes[-1] > 5:
        await database.write(lambda connection: trim_versions(connection, rows[0][0], ["a"], 5))
        sizes.append(len(await states(database)))
    assert [before - after for before, after in pairwise(sizes)] == [DROPPED_MAX - 1, DROPPED_MAX - 1, 17]
    assert await contents(home) == {"a": b"%d" % (count - 1)}
    await home.files(SESSION).trim(("a",), 2)
    assert len(await states(database)) == 2


async def test_a_fork_keeps_its_own_states(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    for number in range(1, 5):
        await commit_change(store, {"a": b"%d" % number}, f"m{number}")
    fork = SessionId("fork")
    await home.add_session(session("fork"), [message(f"m{number}") for number in range(1, 4)])
    messages = [MessageId(f"m{number}") for number in range(1, 4)]
    await database.write(lambda connection: copy_files(connection, (ACME, HOME), SESSION, fork, messages))
    await home.files(SESSION).trim(("a",), 1)
    while await store.collect(10_000_000, grace=1):
        pass
    assert await contents(home) == {"a": b"4"}
    files = home.files(fork)
    bodies = [await files.read_all(change.digest or "") for delta in await files.versions("a", 10) for change in delta.changes]
    assert bodies == [b"3", b"2", b"1"]
