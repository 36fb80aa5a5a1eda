import pytest
from tests.conformance.records import SESSION, image
from tests.conformance.sessions import ANN, answered, mine, said
from tests.conformance.store import settle

from agentvm.errors import NotFound
from agentvm.model.ids import MessageId
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sessions import MessageQuery
from agentvm.storage.sql.places import write_place
from agentvm.storage.sql.sessions.reading import find, mark, read_messages, standing
from agentvm.storage.sql.store import Store


async def test_a_page_also_says_how_to_go_back(store: Store, database: SqliteDatabase) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[said(f"m{number}", "x") for number in range(5)], now=2)
    first = await database.read(lambda connection: read_messages(connection, 1, MessageQuery(limit=2)))
    assert first.previous is None
    second = await database.read(lambda connection: read_messages(connection, 1, MessageQuery(limit=2, cursor=first.next)))
    back = MessageQuery(order="newest", cursor=second.previous, limit=9)
    assert [one.id for one in (await database.read(lambda connection: read_messages(connection, 1, back))).messages] == [
        "m1",
        "m0",
    ]


async def test_nobody_has_read_further_than_there_is_something(store: Store, database: SqliteDatabase) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[answered("a", "x")], now=2)
    far = write_place(999)
    await database.write(lambda connection: mark(connection, 1, ANN, 3, cursor=far, message_id=None))
    await home.log(SESSION).record(messages=[answered("b", "y")], now=4)
    found = await mine(store).get(SESSION, ANN)
    assert found is not None
    assert found.unread == 1


async def test_a_message_of_another_session_is_not_there(store: Store, database: SqliteDatabase) -> None:
    home = await settle(store, image(), image("other"))
    await home.log(SESSION).record(messages=[said("m", "x")], now=2)
    assert await database.read(lambda connection: find(connection, standing(1), MessageId("m"))) == 1
    with pytest.raises(NotFound, match="no message m"):
        await database.read(lambda connection: find(connection, standing(2), MessageId("m")))


async def test_answers_from_before_they_were_counted_are_not_unread(store: Store, database: SqliteDatabase) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[said("q", "x"), answered("a", "x"), answered("b", "y")], now=2)
    await database.write(lambda connection: connection.fetch("UPDATE sessions SET answers = 0"))
    await database.write(lambda connection: mark(connection, 1, ANN, 3, cursor=None, message_id=MessageId("q")))
    found = await mine(store).get(SESSION, ANN)
    assert found is not None
    assert found.unread == 0
