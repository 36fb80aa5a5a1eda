import pytest
from msgspec import structs
from tests.conformance.log import chunk, write
from tests.conformance.records import HOME, SESSION, image, message, session, turn
from tests.conformance.store import ACME, settle

from agentvm.errors import SessionNotFound
from agentvm.model.ids import SessionId, TurnId
from agentvm.model.usage import Usage
from agentvm.storage.base import SessionWrite
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.session_write import PIECE_BYTES, PIECE_MESSAGES, cut, prepare
from agentvm.storage.sql.store import Store


def turns(*given: object) -> SessionWrite:
    return SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=7, turns=given)  # type: ignore[arg-type]


async def test_everything_of_a_write_is_added_and_its_session_touched(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    both = structs_of(write(text="m1", log=chunk(1, 2)), turn("t1"))
    await database.write(prepare(both))
    assert await home.list_messages(SESSION) == (message("m1"),)
    assert await home.log(SESSION).list_turns() == (turn("t1"),)
    assert await home.log(SESSION).read(0, 1) == (chunk(1, 2),)
    found = await home.get_session(SESSION)
    assert found is not None
    assert found.updated_at == 7


def structs_of(base: SessionWrite, *given: object) -> SessionWrite:
    return SessionWrite(
        tenant_id=base.tenant_id,
        container_id=base.container_id,
        session_id=base.session_id,
        now=base.now,
        messages=base.messages,
        turns=given,  # type: ignore[arg-type]
        chunk=base.chunk,
    )


async def test_an_ended_turn_stays_as_it_is_and_attempts_only_grow(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    used = Usage(input_tokens=1, output_tokens=2)
    for attempts in (0, 2, 1):
        await database.write(prepare(turns(structs.replace(turn("t1"), attempts=attempts))))
    (begun,) = await home.log(SESSION).list_turns()
    assert begun.attempts == 2
    await database.write(prepare(turns(turn("t1", outcome="failed", usage=used, ended=9))))
    await database.write(prepare(turns(turn("t1", outcome="completed", ended=10))))
    (ended,) = await home.log(SESSION).list_turns()
    assert (ended.outcome, ended.usage, ended.ended_at, ended.attempts) == ("failed", used, 9, 2)


async def test_a_session_that_is_gone_takes_nothing(database: SqliteDatabase, store: Store) -> None:
    await settle(store, image())
    with pytest.raises(SessionNotFound):
        await database.write(prepare(write(SessionId("gone"), text="m1")))


async def test_in_a_deleted_session_a_turn_ends_and_none_begins(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store, image())
    other = structs.replace(session("s2"), title="deleted")
    await home.add_session(other)
    running = structs.replace(turn("t1"), outcome=None, ended_at=None, session_id=SessionId("s2"))

    def of_other(*given: object) -> SessionWrite:
        return SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SessionId("s2"), now=7, turns=given)  # type: ignore[arg-type]

    await database.write(prepare(of_other(running)))
    assert await store.tenant(ACME).sessions((HOME,)).delete(SessionId("s2"), 8) is not None
    with pytest.raises(SessionNotFound):
        await database.write(prepare(of_other(structs.replace(running, turn_id=TurnId("t2"), client_key=None))))
    await database.write(prepare(of_other(structs.replace(running, outcome="interrupted", ended_at=9))))
    assert [(one.turn_id, one.outcome) for one in await home.log(SessionId("s2")).list_turns()] == [("t1", "interrupted")]


def test_a_piece_is_no_more_than_the_writer_takes_at_a_time() -> None:
    assert [len(piece) for piece in cut([message(f"m{number}") for number in range(2 * PIECE_MESSAGES + 1)])] == [
        PIECE_MESSAGES,
        PIECE_MESSAGES,
        1,
    ]
    assert [len(piece) for piece in cut([message(f"m{number}", "x" * (PIECE_BYTES // 2)) for number in range(3)])] == [1, 1, 1]
    assert cut([]) == []
