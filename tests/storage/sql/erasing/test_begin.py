import pytest
from tests.conformance.records import HOME, IMAGE, SESSION, image, session
from tests.conformance.store import ACME, settle

from agentvm.errors.erasing import ContainerErasing
from agentvm.model.ids import ContainerId, SessionId
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.erasing import begin
from agentvm.storage.sql.erasing.begin import begin_container, choose_home, mark_sessions, refuse_erasing
from agentvm.storage.sql.store import Store

KEY = (ACME, HOME)


async def test_a_container_is_begun_once(database: SqliteDatabase, store: Store) -> None:
    await settle(store, image())
    assert await database.write(lambda connection: begin_container(connection, KEY, 5)) is True
    assert await database.write(lambda connection: begin_container(connection, KEY, 6)) is False
    assert len(await store.erasing.pending()) == 1
    with pytest.raises(ContainerErasing):
        await database.write(lambda connection: refuse_erasing(connection, KEY))


async def test_its_sessions_leave_sight_some_at_a_time_deleted_ones_too(
    database: SqliteDatabase, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(begin, "MARKED_MAX", 1)
    home = await settle(store, image())
    await home.add_session(session("second"))
    await store.tenant(ACME).sessions(None).delete(SESSION, now=2)
    steps = 0
    while await database.write(lambda connection: mark_sessions(connection, KEY)):
        steps += 1
    assert steps == 2
    assert await store.tenant(ACME).find_session(SessionId("second")) is None
    restored = await store.tenant(ACME).sessions(None).restore(SESSION, 3, deleted_after=0)
    assert restored is None
    assert await store.tenant(ACME).find_image(IMAGE) is None


async def test_a_user_is_found_a_home_only_among_those_named(database: SqliteDatabase, store: Store) -> None:
    await settle(store)

    def choose(connection: SqliteConnection) -> list[ContainerId | None]:
        return [choose_home(connection, ACME, homes) for homes in ((), (HOME,), (HOME, ContainerId("free")))]

    assert await database.read(choose) == [None, None, "free"]
