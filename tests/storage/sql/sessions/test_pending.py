"""Words follow the messages into the search: fairly, in small commits, once, and before whoever asks for them."""

from pathlib import Path

import anyio
import pytest
from tests.conformance.records import HOME, SESSION, image, message, session
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.errors import StoreFailed
from agentvm.model.ids import MessageId, RewindId, SessionId, TenantId
from agentvm.model.message import Message
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase, Work, open_database
from agentvm.storage.sessions import MessageSearch
from agentvm.storage.sql.sessions.pending import PIECE_BYTES, cut_some, index_pending, put_in
from agentvm.storage.sql.store import Store


def pending(connection: SqliteConnection) -> list[int]:
    return [int(place) for (place,) in connection.fetch("SELECT position FROM search_pending ORDER BY position")]


async def record(store: Store, *messages: Message, tenant: TenantId = ACME) -> None:
    await store.tenant(tenant).container(HOME).log(SESSION).record(messages=messages, now=2)


async def search(store: Store, text: str, tenant: TenantId = ACME) -> list[str]:
    page = await store.tenant(tenant).sessions((HOME,)).search(MessageSearch(text=text))
    return [found.message_id for found in page.items]


async def test_a_commit_only_notes_a_message_and_a_search_of_its_owner_takes_it_in(
    store: Store, database: SqliteDatabase
) -> None:
    await settle(store, image())
    await settle(store, image(), tenant=RIVAL)
    await record(store, message("m1", "hello"), message("m2", "!?"))
    await record(store, message("m3", "hello"), tenant=RIVAL)
    assert await database.read(pending) == [1, 2, 3]
    assert await search(store, "hello") == ["m1"]
    # What others said is left for later.
    assert await database.read(pending) == [3]


async def test_a_message_that_two_have_cut_is_put_in_once(store: Store, database: SqliteDatabase) -> None:
    await settle(store, image())
    await record(store, message("m1", "hello"))
    first = await database.read(cut_some)
    second = await database.read(cut_some)
    assert len(first.messages) == len(second.messages) == 1
    for some in (first, second):
        await database.write(lambda connection, some=some: put_in(connection, some.messages))  # type: ignore[misc]
    assert await search(store, "hello") == ["m1"]
    assert not await index_pending(database)


async def test_a_message_that_went_after_it_was_cut_is_not_put_in(store: Store, database: SqliteDatabase) -> None:
    home = await settle(store, image())
    await record(store, message("m1", "hello"), message("m2", "hello"))
    some = await database.read(cut_some)
    taken = Rewinding(RewindId("r"), [MessageId("m2")], 3)
    write = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=3, rewind=taken)
    await store.commit([write])
    assert await database.read(pending) == [1]
    await home.delete_image(image().image_id)
    assert await database.read(pending) == []
    await database.write(lambda connection: put_in(connection, some.messages))

    def left(connection: SqliteConnection) -> int:
        connection.execute("INSERT INTO message_fts (message_fts, rank) VALUES ('integrity-check', 0)")
        return int(connection.fetch("SELECT count(*) FROM message_fts")[0][0])

    assert await database.write(left) == 0


async def test_tenants_are_taken_in_turn_however_many_messages_one_has(store: Store, database: SqliteDatabase) -> None:
    await settle(store, image())
    await settle(store, image(), tenant=RIVAL)
    for number in range(3):
        await record(store, *[message(f"m{number}-{each}", f"word{each}") for each in range(500)])
    await record(store, message("late", "hello"), tenant=RIVAL)
    piece = await index_pending(database)
    assert piece is not None
    assert piece.more
    assert 1_501 not in await database.read(pending)
    assert len(await database.read(pending)) > 1_000


async def test_a_batch_holds_little_text_and_at_least_one_message(store: Store, database: SqliteDatabase) -> None:
    await settle(store, image())
    await record(
        store,
        *[message(f"m{number}", "word " * (PIECE_BYTES // 10 - 50)) for number in range(3)],
        message("n", "x " * PIECE_BYTES),
    )
    sizes = []
    while await database.read(pending):
        some = await database.read(cut_some)
        sizes.append((len(some.messages), some.more))
        await database.write(lambda connection, some=some: put_in(connection, some.messages))  # type: ignore[misc]
    assert sizes == [(2, True), (1, True), (1, False)]


async def test_what_a_crash_has_left_is_taken_in_after_the_next_start(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with open_store(tmp_path / "a.db") as store:
            await settle(store, image())
            await record(store, message("m1", "hello"))
        async with open_database(tmp_path / "a.db") as database:
            store = Store(database)
            assert await database.read(pending) == [1]
            while await store.tend_search():
                pass
            assert await database.read(pending) == []
            assert await search(store, "hello") == ["m1"]


async def test_a_message_that_cannot_be_read_keeps_no_other_from_being_found(store: Store, database: SqliteDatabase) -> None:
    await settle(store, image())
    await record(store, message("m1", "hello"), message("m2", "hello"))
    await database.write(lambda connection: connection.fetch("UPDATE all_messages SET body = x'00' WHERE position = 1"))
    assert await index_pending(database)
    assert await database.read(pending) == []
    assert await database.read(lambda connection: connection.fetch("SELECT rowid FROM message_fts")) == [(2,)]


async def test_a_search_still_answers_while_the_disk_takes_nothing(
    store: Store, database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settle(store, image())
    await record(store, message("m1", "hello"))
    assert await search(store, "hello") == ["m1"]
    await record(store, message("m2", "hello"))

    async def fail(self: SqliteDatabase, work: Work[object]) -> object:
        raise StoreFailed("full")

    monkeypatch.setattr(SqliteDatabase, "write", fail)
    assert await search(store, "hello") == ["m1"]


async def test_a_long_fork_is_found_without_being_noted(store: Store, database: SqliteDatabase) -> None:
    home = await settle(store, image())
    await home.add_session(session("fork"), [message(f"m{number}", f"hello {number}") for number in range(300)])
    await home.add_session(session("short"), [message("one", "short hello")])
    assert len(await database.read(pending)) == 1
    sessions = store.tenant(ACME).sessions((HOME,))
    found = await sessions.search(MessageSearch(text="hello 299", session_id=SessionId("fork")))
    assert [each.message_id for each in found.items] == ["m299"]
    assert await search(store, "short") == ["one"]
