"""Imports: in pieces beside everything else, seen by nobody before all of it is there, and all of it or nothing."""

import io
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from tests.conformance.attachments import digest_of, referring
from tests.conformance.erasing import ALICE, BOB, erase, person
from tests.conformance.records import HOME, SESSION, default_session, image, session, turn
from tests.conformance.sessions import said
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.errors import Conflict, StoreFailed
from agentvm.model.ids import ContainerId, MessageId, RewindId
from agentvm.model.message import Message
from agentvm.storage.attachments import Upload
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.carry import Attached, Carried, Continued, Present, SessionContent
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import SqliteDatabase, open_database
from agentvm.storage.sessions import MessageSearch, SessionQuery, TurnQuery
from agentvm.storage.sql.importing import import_archive
from agentvm.storage.sql.store import Store

Meanwhile = Callable[[], Coroutine[Any, Any, None]]

TABLES = ("containers", "images", "snapshots", "sessions", "all_messages", "message_facts", "turns", "arrivals")


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
        yield SessionContent(messages(0, 300), (turn("t1", outcome="completed", ended=2),))
        assert more.wait(20)
        yield SessionContent(messages(300, 300))

    async with open_store(None) as store:
        neighbour = await settle(store, image(), tenant=RIVAL)
        tenant = store.tenant(ACME)
        with anyio.fail_after(60):
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
        yield SessionContent(messages(0, 300), (turn("t1", outcome="completed", ended=2),))
        raise StoreFailed("the file is gone")

    async with open_database(None) as database:
        with pytest.raises(StoreFailed):
            await import_archive(database, ACME, load, 7)
        assert set((await counts(database)).values()) == {0}


def importing_while(meanwhile: Meanwhile) -> Callable[[], Iterator[Carried]]:
    """An import into `HOME` during which something else happens, from beginning to end."""

    def load() -> Iterator[Carried]:
        yield image("img_new")
        yield default_session(image("img_new"))
        yield SessionContent(messages(0, 300))
        anyio.from_thread.run(meanwhile)
        yield SessionContent(messages(300, 10))

    return load


async def refused(store: Store, database: SqliteDatabase, meanwhile: Meanwhile, left: int) -> None:
    with anyio.fail_after(60), pytest.raises(Conflict, match="The container home was deleted"):
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
        await store.tenant(ACME).container(HOME).create(10)
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
        yield SessionContent(messages(0, 1))
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


async def test_a_container_that_somebody_creates_meanwhile_is_theirs_whatever_becomes_of_the_import(store: Store) -> None:
    async def create() -> None:
        assert await store.tenant(ACME).container(HOME).get() is None
        assert await store.tenant(ACME).container(HOME).create(8)
        assert await store.tenant(ACME).list_containers() == (HOME,)

    def load() -> Iterator[Carried]:
        yield from importing_while(create)()
        raise StoreFailed("the file is gone")

    with anyio.fail_after(60), pytest.raises(StoreFailed):
        await store.carrier(ACME).add(load, 7)
    assert await store.tenant(ACME).list_containers() == (HOME,)
    assert await store.tenant(ACME).container(HOME).list_images() == ()
    await store.carrier(ACME).add(importing_while(anyio.lowlevel.checkpoint), 9)
    assert len(await store.tenant(ACME).container(HOME).list_images()) == 1


async def test_a_file_that_somebody_uploads_meanwhile_is_theirs_whatever_becomes_of_the_import(store: Store) -> None:
    await settle(store, image())
    files = store.tenant(ACME).container(HOME).attachments
    body = b"x" * 1_000
    file = Attached(digest_of(body), len(body), Upload(media_type="text/plain"), body)

    async def upload() -> None:
        assert await files.get(file.digest) is None
        assert await files.sizes([file.digest]) == {}
        assert await files.claim([file.digest], 8) == frozenset()
        await files.add(io.BytesIO(body), Upload(media_type="text/plain", name="mine.txt"), 8)

    def load() -> Iterator[Carried]:
        yield Present(image())
        yield session("s2")
        yield file
        yield SessionContent((referring("m1", body),))
        anyio.from_thread.run(upload)
        raise StoreFailed("the file is gone")

    with anyio.fail_after(60), pytest.raises(StoreFailed):
        await store.carrier(ACME).add(load, 7)
    kept = await files.get(file.digest)
    assert kept is not None
    assert kept.name == "mine.txt"
    assert await files.delete(file.digest)


async def test_messages_that_continue_a_session_are_seen_at_once_by_every_reader(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=messages(0, 2), now=2)
    tenant = store.tenant(ACME)

    async def look() -> None:
        assert len(await home.list_messages(SESSION)) == 2
        assert len((await home.log(SESSION).recall()).messages) == 2
        assert await home.log(SESSION).list_turns() == ()
        assert (await tenant.sessions(None).turns(TurnQuery(now=9))).items == ()
        assert await found(store) == 2
        listed = await tenant.sessions(None).get(SESSION)
        assert listed is not None
        assert listed.session.preview == "heron 1"

    def load() -> Iterator[Carried]:
        yield Present(image())
        yield Continued(default_session(image()), MessageId("m1"))
        yield SessionContent(messages(2, 300), (turn("t1", outcome="completed", ended=2),))
        anyio.from_thread.run(look)
        yield SessionContent(messages(302, 8))

    with anyio.fail_after(60):
        await store.carrier(ACME).add(load, 7)
    assert [message.id for message in await home.list_messages(SESSION)] == [f"m{number}" for number in range(310)]
    assert len((await home.log(SESSION).recall()).messages) == 310
    assert [turn.turn_id for turn in await home.log(SESSION).list_turns()] == ["t1"]
    assert await found(store) == 310
    listed = await tenant.sessions(None).get(SESSION)
    assert listed is not None
    assert (listed.session.preview, listed.session.last_message_at, listed.unread) == ("heron 309", 309, 0)


@pytest.mark.parametrize("happens", ["early", "late"])
async def test_a_session_that_goes_on_during_the_import_is_refused(store: Store, happens: str) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=messages(0, 2), now=2)

    async def go_on() -> None:
        await home.log(SESSION).record(messages=[said("own", "mine", 3)], now=3)

    def load() -> Iterator[Carried]:
        yield Present(image())
        yield Continued(default_session(image()), MessageId("m1"))
        yield SessionContent(messages(2, 10))
        if happens == "early":
            anyio.from_thread.run(go_on)
        yield SessionContent(messages(12, 10))
        if happens == "late":
            anyio.from_thread.run(go_on)

    with anyio.fail_after(60), pytest.raises(Conflict, match="continued in the meantime"):
        await store.carrier(ACME).add(load, 7)
    assert [message.id for message in await home.list_messages(SESSION)] == ["m0", "m1", "own"]
    assert await found(store) == 2


async def test_a_rewind_during_the_import_is_seen_too(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=messages(0, 2), now=2)

    async def take_back() -> None:
        rewind = Rewinding(RewindId("r"), [MessageId("m1")], 3)
        await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=3, rewind=rewind)])

    def load() -> Iterator[Carried]:
        yield Present(image())
        yield Continued(default_session(image()), MessageId("m1"))
        yield SessionContent(messages(2, 10))
        anyio.from_thread.run(take_back)

    with anyio.fail_after(60), pytest.raises(Conflict, match="continued in the meantime"):
        await store.carrier(ACME).add(load, 7)
    assert [message.id for message in await home.list_messages(SESSION)] == ["m0"]


async def test_turns_alone_leave_the_time_of_a_continued_session_as_it_was(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=messages(0, 2), now=2)
    ended = turn("t1", outcome="completed", ended=2)
    load = (Present(image()), Continued(default_session(image()), MessageId("m1")), SessionContent((), (ended,)))
    await store.carrier(ACME).add(lambda: iter(load), 7)
    session = await home.get_session(SESSION)
    assert session is not None
    assert (session.last_message_at, session.preview) == (1, "heron 1")
    assert [each.turn_id for each in await home.log(SESSION).list_turns()] == ["t1"]
