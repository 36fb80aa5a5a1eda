"""Store conformance — what the store must do on every engine, as plain functions over an empty store.

`bound_append_cost` is no part of the suite: it also needs to know how the database counts its work.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from msgspec import structs

from agentvm.errors import ContainerNotFound, ImageNotFound, InvalidInput, SessionNotFound, StoreFailed
from agentvm.model.definition import Definition
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId, TurnId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.usage import Usage
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.store import Store
from tests.conformance.records import EVERY_KIND, HOME, IMAGE, SESSION, default_session, image, message, session, turn

E = TypeVar("E", bound=Exception)

ACME, RIVAL = TenantId("acme"), TenantId("rival")
ODD = (
    "'; DROP TABLE images; --",
    'a"b`c]',
    "100%_\\*?",
    "北京 🦀 e\u0301",
    "\u202eabc",
    " lead and trail ",
    "NULL",
    "x" * 10_000,
)


async def settle(store: Store, *images: Image, tenant: TenantId = ACME, container: str = HOME) -> ContainerStore:
    """A container of the store that exists and holds the images."""
    scope = store.tenant(tenant).container(ContainerId(container))
    await scope.create(now=1)
    for each in images:
        await scope.add_image(each, default_session(each))
    return scope


async def check_nothing_is_there_before_it_is_made(store: Store) -> None:
    tenant = store.tenant(ACME)
    home = tenant.container(HOME)
    assert await tenant.list_containers() == ()
    assert await tenant.find_image(IMAGE) is None
    assert await tenant.find_session(SESSION) is None
    assert await home.get() is None
    assert await home.get_image(IMAGE) is None
    assert await home.list_images() == ()
    assert await home.update_image(IMAGE, name="n", description=None, now=2) is None
    assert await home.delete_image(IMAGE) is False
    assert await home.get_session(SESSION) is None
    assert await home.list_sessions(IMAGE) == ()
    assert await home.set_title(SESSION, "t", now=2) is None
    assert await home.list_messages(SESSION) == ()
    assert await home.log(SESSION).list_turns() == ()


async def check_creating_a_container_twice_keeps_the_first(store: Store) -> None:
    home = store.tenant(ACME).container(HOME)
    assert await home.create(now=5) is True
    assert await home.create(now=6) is False
    found = await home.get()
    assert found is not None
    assert (found.container_id, found.created_at, found.updated_at) == (HOME, 5, 5)


async def check_containers_are_listed_oldest_first(store: Store) -> None:
    for name, now in (("b", 2), ("c", 2), ("a", 1), ("d", 3)):
        await store.tenant(ACME).container(ContainerId(name)).create(now)
    tenant = store.tenant(ACME)
    assert await tenant.list_containers() == ("a", "b", "c", "d")
    first, cursor = await tenant.page_containers(None, 3)
    assert first == ("a", "b", "c")
    assert await tenant.page_containers(cursor, 3) == (("d",), None)
    assert await tenant.page_containers(None, 4) == (("a", "b", "c", "d"), None)
    for wrong in ("", "x", "1-", "1-2-3", "-1-5", "9" * 30):
        try:
            await tenant.page_containers(wrong, 3)
        except InvalidInput:
            continue
        raise AssertionError(f"{wrong!r} is taken for a cursor")


async def check_an_image_comes_back_as_it_was(store: Store) -> None:
    definition = Definition(name="helper", description="d", system_prompt="s", model="echo/x", tools=(), max_tokens=7)
    config = ImageConfig(name="n", tools=("a", "b"), variables={"x": {"command": ["y"], "n": 1.5, "null": None}})
    built = structs.replace(image(definition=definition, now=3), config=config, description="about")
    home = await settle(store, built)
    assert await home.get_image(IMAGE) == built
    assert await home.list_images() == (built,)
    assert await home.get_session(SESSION) == default_session(built)


async def check_images_are_listed_newest_first(store: Store) -> None:
    home = await settle(store, image("b", now=2), image("c", now=2), image("a", now=1), image("d", now=3))
    assert [each.image_id for each in await home.list_images()] == ["d", "c", "b", "a"]


async def check_sessions_are_listed_oldest_first(store: Store) -> None:
    home = await settle(store, image(now=1), image("other", now=1))
    for name, now in (("late", 9), ("tie", 1), ("middle", 5)):
        await home.add_session(session(name, now=now))
    assert [each.session_id for each in await home.list_sessions(IMAGE)] == [SESSION, "tie", "middle", "late"]
    assert [each.session_id for each in await home.list_sessions(ImageId("other"))] == ["other-default"]


async def check_things_are_found_in_their_container(store: Store) -> None:
    await settle(store, image("one", "a"), container="a")
    await settle(store, image("two", "b"), container="b")
    tenant = store.tenant(ACME)
    assert await tenant.find_image(ImageId("one")) == "a"
    assert await tenant.find_image(ImageId("two")) == "b"
    assert await tenant.find_session(SessionId("two-default")) == "b"
    assert await store.tenant(RIVAL).find_image(ImageId("one")) is None
    assert await store.tenant(RIVAL).find_session(SessionId("two-default")) is None


async def check_tenants_never_mix(store: Store) -> None:
    """The same ids everywhere: only the tenant differs."""
    ours = await settle(store, image(), tenant=ACME)
    theirs = await settle(store, image(definition=Definition(name="secret")), tenant=RIVAL)
    await ours.log(SESSION).record(messages=[message("m1", "ours")], turns=[turn("t1")], now=2)
    await theirs.log(SESSION).record(messages=[message("m1", "theirs")], turns=[turn("t1", outcome="failed", ended=9)], now=3)
    await ours.update_image(IMAGE, name="renamed", description=None, now=4)
    assert await ours.list_messages(SESSION) == (message("m1", "ours"),)
    assert await theirs.list_messages(SESSION) == (message("m1", "theirs"),)
    assert await ours.log(SESSION).list_turns() == (turn("t1"),)
    assert await store.tenant(ACME).find_turn(TurnId("t1")) == turn("t1")
    assert await store.tenant(ACME).find_turn(TurnId("gone")) is None
    assert await store.tenant(RIVAL).find_turn(TurnId("t1")) == turn("t1", outcome="failed", ended=9)
    assert [(each.name, each.definition_name) for each in await ours.list_images()] == [("renamed", "helper")]
    assert [(each.name, each.definition_name) for each in await theirs.list_images()] == [(image().name, "secret")]
    assert await ours.delete_image(IMAGE) is True
    assert await theirs.list_messages(SESSION) == (message("m1", "theirs"),)
    assert await store.tenant(RIVAL).find_session(SESSION) == HOME


async def check_a_container_is_matched_exactly(store: Store) -> None:
    await settle(store, image(container="a"), container="a")
    for name in ("a:b", "A", "a ", "", "a%", "*"):
        other = await settle(store, container=name)
        assert await other.get_image(IMAGE) is None
        assert await other.list_images() == ()
        assert await other.update_image(IMAGE, name="stolen", description=None, now=2) is None
        assert await other.delete_image(IMAGE) is False
        assert await other.get_session(SESSION) is None
        assert await other.list_sessions(IMAGE) == ()
        assert await other.set_title(SESSION, "stolen", now=2) is None
        assert await raises(SessionNotFound, other.log(SESSION).record(messages=[message("m1")], now=2))
        assert await raises(ImageNotFound, other.add_session(session("s2")))
    own = store.tenant(ACME).container(ContainerId("a"))
    assert await own.list_images() == (image(container="a"),)
    assert await own.list_sessions(IMAGE) == (default_session(image(container="a")),)
    assert await own.list_messages(SESSION) == ()


async def check_an_update_changes_what_is_given(store: Store) -> None:
    home = await settle(store, image(), image("other"))
    renamed = await home.update_image(IMAGE, name="new", description=None, now=5)
    described = await home.update_image(IMAGE, name=None, description="about", now=6)
    assert renamed is not None
    assert described is not None
    assert (renamed.name, renamed.description, renamed.updated_at) == ("new", None, 5)
    assert (described.name, described.description, described.updated_at) == ("new", "about", 6)
    assert await home.get_image(IMAGE) == described
    assert await home.get_image(ImageId("other")) == image("other")


async def check_a_title_is_set_and_cleared(store: Store) -> None:
    home = await settle(store, image())
    titled = await home.set_title(SESSION, "Trip", now=5)
    assert titled is not None
    assert (titled.title, titled.updated_at) == ("Trip", 5)
    assert await home.get_session(SESSION) == titled
    cleared = await home.set_title(SESSION, None, now=6)
    assert cleared is not None
    assert cleared.title is None


async def check_every_kind_of_message_comes_back_in_order(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=EVERY_KIND[:4], now=2)
    await home.log(SESSION).record(messages=EVERY_KIND[4:], now=2)
    assert await home.list_messages(SESSION) == EVERY_KIND


async def check_a_message_is_appended_once(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[message("m1"), message("m2"), message("m1", "again")], now=2)
    await home.log(SESSION).record(messages=[message("m2", "changed"), message("m3")], now=3)
    assert await home.list_messages(SESSION) == (message("m1"), message("m2"), message("m3"))


async def check_a_message_id_may_recur_in_another_session(store: Store) -> None:
    home = await settle(store, image())
    await home.add_session(session("second"))
    await home.log(SESSION).record(messages=[message("m1", "first")], now=2)
    await home.log(SessionId("second")).record(messages=[message("m1", "second")], now=2)
    assert await home.list_messages(SESSION) == (message("m1", "first"),)
    assert await home.list_messages(SessionId("second")) == (message("m1", "second"),)


async def check_concurrent_appends_keep_every_message(store: Store) -> None:
    home = await settle(store, image())

    async def append(writer: int) -> None:
        for number in range(10):
            await home.log(SESSION).record(messages=[message(f"{writer}-{number}")], now=2)

    async with anyio.create_task_group() as tasks:
        for writer in range(20):
            tasks.start_soon(append, writer)
    stored = [each.id for each in await home.list_messages(SESSION)]
    assert sorted(stored) == sorted(f"{writer}-{number}" for writer in range(20) for number in range(10))
    for writer in range(20):
        own = [each for each in stored if each.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}" for number in range(10)]


async def check_recording_touches_the_session_and_its_image(store: Store) -> None:
    home = await settle(store, image(now=1), image("other", now=1))
    await home.log(SESSION).record(messages=[message("m1")], now=7)
    assert [(each.image_id, each.updated_at) for each in await home.list_images()] == [("other", 1), (IMAGE, 7)]
    assert [each.updated_at for each in await home.list_sessions(IMAGE)] == [7]
    assert [each.updated_at for each in await home.list_sessions(ImageId("other"))] == [1]


async def check_a_turn_ends_once(store: Store) -> None:
    home = await settle(store, image())
    usage = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3)
    await home.log(SESSION).record(messages=[message("m1")], turns=[turn("t2", at=2), turn("t1", at=1)], now=2)
    assert await home.log(SESSION).list_turns() == (turn("t1", at=1), turn("t2", at=2))
    ended = turn("t1", at=1, outcome="completed", usage=usage, ended=5)
    await home.log(SESSION).record(turns=[ended], now=5)
    await home.log(SESSION).record(turns=[turn("t1", at=1), turn("t1", at=1, outcome="failed", ended=6)], now=6)
    assert await home.log(SESSION).list_turns() == (ended, turn("t2", at=2))


async def check_a_session_that_is_gone_takes_nothing(store: Store) -> None:
    home = await settle(store, image())
    await home.delete_image(IMAGE)
    assert await raises(SessionNotFound, home.log(SESSION).record(messages=[message("m1")], turns=[turn("t1")], now=2))
    assert await home.list_messages(SESSION) == ()
    assert await home.log(SESSION).list_turns() == ()


async def check_deleting_an_image_removes_everything_of_it(store: Store) -> None:
    home = await settle(store, image(), image("other"))
    await home.add_session(session("second"))
    for each in (SESSION, SessionId("second"), SessionId("other-default")):
        await home.log(each).record(messages=[message("m1")], turns=[turn("t1")], now=2)
    assert await home.delete_image(IMAGE) is True
    assert await home.delete_image(IMAGE) is False
    assert await store.tenant(ACME).find_image(IMAGE) is None
    for gone in (SESSION, SessionId("second")):
        assert await store.tenant(ACME).find_session(gone) is None
        assert await home.get_session(gone) is None
    assert len(await home.list_messages(SessionId("other-default"))) == 1
    assert len(await home.log(SessionId("other-default")).list_turns()) == 1
    # The same ids again start empty: nothing was left behind.
    await home.add_image(image(), default_session(image()))
    assert await home.list_sessions(IMAGE) == (default_session(image()),)
    assert await home.list_messages(SESSION) == ()
    assert await home.log(SESSION).list_turns() == ()


async def check_a_shared_snapshot_outlives_all_but_its_last_image(store: Store) -> None:
    ours = await settle(store, image(), image("twin"))
    theirs = await settle(store, image(), tenant=RIVAL)
    await ours.delete_image(IMAGE)
    assert await ours.get_image(ImageId("twin")) == image("twin")
    await ours.delete_image(ImageId("twin"))
    assert await theirs.get_image(IMAGE) == image()
    await theirs.delete_image(IMAGE)
    await theirs.add_image(image(), default_session(image()))
    assert await theirs.get_image(IMAGE) == image()


async def check_a_failed_write_leaves_nothing_behind(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[message("m1")], now=2)
    before = await home.list_images()
    # The image is new, its default session's id is taken.
    assert await raises(StoreFailed, home.add_image(image("new"), session(SESSION, "new")))
    assert await raises(StoreFailed, home.add_image(image(), session("fresh")))
    assert await raises(StoreFailed, home.add_session(session(SESSION)))
    assert await home.list_images() == before
    assert await home.list_sessions(ImageId("new")) == ()
    assert await store.tenant(ACME).find_session(SessionId("fresh")) is None
    assert await home.list_messages(SESSION) == (message("m1"),)


async def check_nothing_is_added_to_what_is_not_there(store: Store) -> None:
    home = store.tenant(ACME).container(HOME)
    assert await raises(ContainerNotFound, home.add_image(image(), default_session(image())))
    await home.create(now=1)
    assert await raises(ImageNotFound, home.add_session(session("s1")))
    assert await store.tenant(ACME).find_image(IMAGE) is None
    assert await store.tenant(ACME).find_session(SessionId("s1")) is None


async def check_odd_ids_and_texts_are_only_text(store: Store) -> None:
    for odd in ODD:
        home = await settle(store, image(odd, odd), tenant=TenantId(odd), container=odd)
        of_image = SessionId(f"{odd}-default")
        await home.log(of_image).record(messages=[message(odd, odd)], now=2)
        await home.update_image(ImageId(odd), name=odd, description=odd, now=2)
        await home.set_title(of_image, odd, now=2)
        assert await home.list_messages(of_image) == (message(odd, odd),)
        assert await store.tenant(TenantId(odd)).list_containers() == (odd,)
        assert await store.tenant(TenantId(odd)).find_image(ImageId(odd)) == odd
        assert [(each.image_id, each.name, each.description) for each in await home.list_images()] == [(odd, odd, odd)]
        assert [each.title for each in await home.list_sessions(ImageId(odd))] == [odd]


async def bound_append_cost(store: Store, cost: Callable[[], int], *, length: int = 10_000) -> None:
    """An append to a session of `length` messages costs what it cost when the session was short.

    `cost` says how much work the database has done so far, in a unit of its own: steps, rows, pages; not time.
    """
    home = await settle(store, image())

    async def append(number: int) -> int:
        before = cost()
        await home.log(SESSION).record(messages=[message(f"m{number}", "x" * 200)], now=2)
        return cost() - before

    await home.log(SESSION).record(messages=[message(f"m{number}") for number in range(100)], now=2)
    short = max([await append(number) for number in range(100, 120)])
    await home.log(SESSION).record(messages=[message(f"m{number}") for number in range(120, length)], now=2)
    long = max([await append(number) for number in range(length, length + 20)])
    assert len(await home.list_messages(SESSION)) == length + 20
    assert 0 < long <= 2 * short, f"an append cost {short} in a short session and {long} in one of {length} messages"


async def raises(expected: type[Exception], call: Awaitable[object]) -> bool:
    """Whether the call fails with the expected class; any other failure passes through."""
    try:
        await call
    except expected:
        return True
    return False


async def failure(expected: type[E], call: Awaitable[object]) -> E:
    """The error that the call fails with."""
    try:
        await call
    except expected as error:
        return error
    raise AssertionError(f"there was no {expected.__name__}")
