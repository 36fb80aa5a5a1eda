"""What comes in beside everything else: in pieces, seen by nobody, and all of it or nothing."""

import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from tests.conformance.erasing import ALICE, BOB, erase, person
from tests.conformance.records import HOME, SESSION, default_session, image, turn
from tests.conformance.sessions import said
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.errors import Conflict, StoreFailed
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.message import Message
from agentvm.storage.carry import Carried, Said
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import SqliteDatabase, open_database
from agentvm.storage.sessions import MessageSearch, SessionQuery
from agentvm.storage.sql.arriving import _Coming, arrive, drop_left
from agentvm.storage.sql.store import Store

pytestmark = pytest.mark.anyio

Meanwhile = Callable[[], Coroutine[Any, Any, None]]

TABLES = ("containers", "images", "snapshots", "sessions", "all_messages", "message_facts", "turns")


def messages(first: int, count: int) -> tuple[Message, ...]:
    return tuple(said(f"m{number}", f"heron {number}", number) for number in range(first, first + count))


async def counts(database: SqliteDatabase) -> dict[str, int]:
    return await database.read(
        lambda connection: {table: connection.fetch(f"SELECT count(*) FROM {table}", ())[0][0] for table in TABLES}
    )


async def test_others_commit_in_between_and_nobody_sees_what_is_not_all_there() -> None:
    more = threading.Event()

    def load() -> Iterator[Carried]:
        yield image()
        yield default_session(image())
        yield Said(messages(0, 300), (turn("t1", outcome="completed", ended=2),))
        assert more.wait(20)
        yield Said(messages(300, 300))

    async with open_store(None) as store:
        neighbour = await settle(store, image(), tenant=RIVAL)
        tenant = store.tenant(ACME)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.carrier(ACME).add, load, 7)
                for number in range(20):
                    await neighbour.log(SESSION).record(messages=[said(f"n{number}", "hello", 1)], now=2)
                assert await tenant.list_containers() == ()
                assert await tenant.find_session(SESSION) is None
                assert (await tenant.sessions(None).list(SessionQuery())).total == 0
                assert await found(store) == 0
                more.set()
        assert await found(store) == 600
        assert len(await tenant.container(HOME).list_messages(SESSION)) == 600
        assert await tenant.container(HOME).get_image(image().image_id) == image()


async def found(store: Store) -> int:
    return (await store.tenant(ACME).sessions((HOME,)).search(MessageSearch(text="heron", now=9))).total


async def test_what_breaks_off_leaves_nothing_behind() -> None:
    def load() -> Iterator[Carried]:
        yield image()
        yield default_session(image())
        yield Said(messages(0, 300), (turn("t1", outcome="completed", ended=2),))
        raise StoreFailed("the file is gone")

    async with open_database(None) as database:
        with pytest.raises(StoreFailed):
            await arrive(database, ACME, load, 7)
        assert set((await counts(database)).values()) == {0}


async def test_what_a_crash_has_left_is_dropped_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    async with open_database(path) as database:
        coming = _Coming(ACME, TenantId("importing:1"), 7, {})
        carried: tuple[Carried, ...] = (image(), default_session(image()), Said(messages(0, 300)))
        for piece in coming.pieces(iter(carried)):
            for work in piece:
                await database.write(work)
        assert (await counts(database))["all_messages"] == 300
    async with open_store(path) as store:
        home = await settle(store, image())
        await home.log(SESSION).record(messages=messages(0, 1), now=2)
    async with open_database(path) as database:
        await drop_left(database)
        assert (await counts(database))["all_messages"] == 1


def importing_while(meanwhile: Meanwhile) -> Callable[[], Iterator[Carried]]:
    """An import into `HOME` during which something else happens, from beginning to end."""

    def load() -> Iterator[Carried]:
        yield image("img_new")
        yield default_session(image("img_new"))
        yield Said(messages(0, 300))
        anyio.from_thread.run(meanwhile)
        yield Said(messages(300, 10))

    return load


async def refused(store: Store, database: SqliteDatabase, meanwhile: Meanwhile, left: int) -> None:
    with anyio.fail_after(20), pytest.raises(Conflict, match="The container home was deleted"):
        await store.carrier(ACME).add(importing_while(meanwhile), 7)
    found = await counts(database)
    assert (found["containers"], found["images"], found["sessions"], found["all_messages"]) == (left, left, left, 0)


async def test_a_container_that_was_erased_meanwhile_does_not_come_back(database: SqliteDatabase, store: Store) -> None:
    await settle(store, image())

    async def delete() -> None:
        await store.erasing.delete_container(ACME, HOME, now=9)
        await erase(store)

    await refused(store, database, delete, left=0)
    # What comes later knows that it is gone.
    await store.carrier(ACME).add(lambda: iter((image(), default_session(image()))), 10)
    assert await store.tenant(ACME).list_containers() == (HOME,)


async def test_a_container_that_was_erased_and_made_anew_gets_nothing_of_before(database: SqliteDatabase, store: Store) -> None:
    await settle(store, image())

    async def make_anew() -> None:
        await store.erasing.delete_container(ACME, HOME, now=9)
        await erase(store)
        await settle(store, image())

    await refused(store, database, make_anew, left=1)


async def test_a_container_that_is_reached_late_is_known_from_the_start(database: SqliteDatabase, store: Store) -> None:
    await settle(store, image())
    elsewhere = image("img_first", ContainerId("elsewhere"))

    async def delete() -> None:
        await store.erasing.delete_container(ACME, HOME, now=9)
        await erase(store)

    def load() -> Iterator[Carried]:
        yield elsewhere
        yield default_session(elsewhere)
        yield Said(messages(0, 1))
        anyio.from_thread.run(delete)
        yield image()
        yield default_session(image())

    with pytest.raises(Conflict, match="The container home was deleted"):
        await store.carrier(ACME).add(load, 7)
    assert await store.tenant(ACME).list_containers() == ()


async def test_a_deleted_user_gets_no_container_back(database: SqliteDatabase, store: Store) -> None:
    users = store.accounts(ACME).users
    await users.add(person(ALICE), [HOME])

    async def delete() -> None:
        await users.delete(ALICE, now=9)
        await erase(store)

    # There is no container yet: the import would make it.
    await refused(store, database, delete, left=0)
    # Deleted before anything was written: the file was still being read.
    await refused(store, database, anyio.lowlevel.checkpoint, left=0)
    # To be bound to it is to have it again.
    await users.add(person(BOB))
    await users.bind(BOB, HOME)
    await store.carrier(ACME).add(importing_while(anyio.lowlevel.checkpoint), 11)
    assert await store.tenant(ACME).list_containers() == (HOME,)
