import pytest
from msgspec import structs
from tests.conformance.records import HOME, SESSION, image
from tests.conformance.retention import answered as answered_in
from tests.conformance.retention import asked, turn_of
from tests.conformance.sessions import answered, said
from tests.conformance.store import ACME, settle

from agentvm.model.ids import MessageId
from agentvm.model.message import Message
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.sessions import old_turns
from agentvm.storage.sql.sessions.old_turns import find_old_turns
from agentvm.storage.sql.store import Store


async def old(store: Store, database: SqliteDatabase, before: int | None, *messages: Message) -> list[tuple[str, ...]]:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=messages, now=1)
    found = await database.read(lambda connection: find_old_turns(connection, 1, before))
    return [turn.message_ids for turn in found]


async def test_without_turns_a_turn_is_what_follows_a_users_message(
    store: Store, database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_turns, "PAGE_MESSAGES", 2)
    told = [answered("hi", "hi", 1), said("u1", "a", 2), answered("a1", "b", 3), said("u2", "c", 4), answered("a2", "d", 9)]
    assert await old(store, database, 5, *told) == [("hi",), ("u1", "a1")]


async def test_what_was_copied_from_another_session_goes_by_what_its_messages_say(
    store: Store, database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_turns, "AHEAD_MESSAGES", 1)
    told = [asked("t1", 1), asked("t2", 2), asked("t3", 8), answered_in("t1", 9), answered_in("t2", 4)]
    assert await old(store, database, 5, *told) == [("t2-u", "t2-a")]


async def test_a_question_stays_as_long_as_a_later_turn_answers_it(store: Store, database: SqliteDatabase) -> None:
    await settle(store, image())
    first, again = turn_of(SESSION, "t1", 1, 2), turn_of(SESSION, "t2", 1, 9)
    log = store.tenant(ACME).container(HOME).log(SESSION)
    again = structs.replace(again, message_id=MessageId("t1-u"))
    await log.record(messages=[asked("t1", 1), answered_in("t2", 9)], turns=[first, again], now=9)
    assert await database.read(lambda connection: find_old_turns(connection, 1, 5)) == ()


async def test_what_cannot_be_read_goes_with_what_was_said_before_it(store: Store, database: SqliteDatabase) -> None:
    await old(store, database, None, said("u1", "a", 1))

    def spoil(connection: SqliteConnection) -> None:
        connection.execute("INSERT INTO all_messages (session_key, message_id, body) VALUES (1, 'broken', x'00')")

    await database.write(spoil)
    found = await database.read(lambda connection: find_old_turns(connection, 1, 5))
    assert [turn.message_ids for turn in found] == [("u1", "broken")]
