"""Session conformance — what the store must do on every engine: lists, keeping, pages and marks."""

from typing import Any

from msgspec import structs

from agentvm.errors import ImageNotFound, InvalidInput, NotFound
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage
from agentvm.model.session import Fork, Session
from agentvm.storage.sessions import MessageQuery, SessionQuery, SessionReader
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.sessions import SessionStore
from agentvm.storage.sql.store import Store
from tests.conformance.records import EVERY_KIND, HOME, IMAGE, SESSION, image, session, turn
from tests.conformance.store import ACME, ODD, RIVAL, raises, settle

ANN = SessionReader("ann")


def said(message_id: str, text: str, at: int = 1) -> Message:
    return UserMessage(id=MessageId(message_id), timestamp=at, role="user", content=text)


def answered(message_id: str, text: str, at: int = 1) -> Message:
    return AssistantMessage(id=MessageId(message_id), timestamp=at, role="assistant", content=(TextPart(text=text),))


def mine(store: Store, *containers: str) -> SessionStore:
    return store.tenant(ACME).sessions([ContainerId(name) for name in containers or (HOME,)])


async def several(store: Store, *names: str) -> ContainerStore:
    """A container with these sessions besides the default one, each with one message, the last the newest."""
    home = await settle(store, image())
    for at, name in enumerate(names, start=10):
        await home.add_session(session(name, now=at))
        await home.log(SessionId(name)).record(messages=[said(f"{name}-1", f"first of {name}", at)], now=at)
    return home


async def names(sessions: SessionStore, **wanted: Any) -> list[str]:
    return [item.session.session_id for item in (await sessions.list(SessionQuery(**wanted))).items]


async def check_sessions_are_listed_by_what_was_last_said_and_pinned_ones_first(store: Store) -> None:
    home = await several(store, "a", "b", "c")
    sessions = mine(store)
    assert await names(sessions) == ["c", "b", "a", SESSION]
    await home.log(SessionId("a")).record(messages=[said("a-2", "again", 20)], now=20)
    assert await names(sessions) == ["a", "c", "b", SESSION]
    for name in ("b", SESSION):
        await sessions.keep(SessionId(name), pinned=True, now=30)
    assert await names(sessions) == ["b", SESSION, "a", "c"]
    await sessions.keep(SessionId("b"), pinned=False, now=31)
    assert await names(sessions) == [SESSION, "a", "c", "b"]


async def check_a_session_tells_what_was_done_with_it(store: Store) -> None:
    home = await settle(store, image())
    forked = Fork(session_id=SESSION, message_id=MessageId("m"))
    await home.add_session(structs.replace(session("f"), forked_from=forked))
    sessions = mine(store)
    found = await sessions.get(SessionId("f"))
    assert found is not None
    assert found.session == structs.replace(session("f"), forked_from=forked)
    assert await names(mine(store), forked_from=SESSION) == ["f"]
    assert await names(mine(store), forked_from=SessionId("f")) == []
    assert (found.unread, found.cursor) == (0, None)
    kept = await sessions.keep(SessionId("f"), pinned=True, archived=True, now=5)
    assert kept is not None
    assert (kept.pinned_at, kept.archived_at, kept.updated_at) == (5, 5, 5)
    again = await sessions.keep(SessionId("f"), pinned=True, archived=False, now=6)
    assert again is not None
    assert (again.pinned_at, again.archived_at) == (5, None)
    assert await sessions.keep(SessionId("f"), now=7) == again == await home.get_session(SessionId("f"))
    assert await sessions.keep(SessionId("gone"), pinned=True, now=8) is None


async def check_the_last_that_was_said_is_shown(store: Store) -> None:
    home = await settle(store, image())
    long = "北京 " + "x" * 1000
    for messages in ([said("1", "hello\n\n  you", 3)], [answered("2", long, 4), *EVERY_KIND[3:5]], [answered("3", " ", 1)]):
        await home.log(SESSION).record(messages=messages, now=9)
    found = await mine(store).get(SESSION)
    assert found is not None
    assert found.session.preview is not None
    assert found.session.preview.startswith("北京 xxx")
    assert len(found.session.preview) < 200
    assert found.session.last_message_at == 5


async def check_lists_are_narrowed(store: Store) -> None:
    home = await several(store, "a", "b", "c")
    await home.add_image(image("other", now=2), session("other-default", "other", now=2))
    sessions = mine(store)
    await home.set_title(SessionId("a"), "Straßenbahn 上海", now=11)
    await sessions.keep(SessionId("b"), archived=True, now=12)
    await sessions.keep(SessionId("c"), pinned=True, now=12)
    assert await names(sessions) == ["c", "a", "other-default", SESSION]
    assert await names(sessions, archived=True) == ["b"]
    assert await names(sessions, archived=None) == ["c", "b", "a", "other-default", SESSION]
    assert await names(sessions, pinned=True) == ["c"]
    assert await names(sessions, pinned=False) == ["a", "other-default", SESSION]
    assert await names(sessions, image_id=ImageId("other")) == ["other-default"]
    assert await names(sessions, since=10, until=12) == ["a"]
    for text in ("STRASSEN", "上海", "bahn 上"):
        assert await names(sessions, title=text) == ["a"], text
    for text in ODD:
        assert await names(sessions, title=text) == [], text


async def check_pages_hold_each_session_once_and_know_the_total(store: Store) -> None:
    home = await several(store, "a", "b", "c", "d")
    sessions = mine(store)
    await sessions.keep(SessionId("a"), pinned=True, now=30)
    found, after, totals = [], None, set()
    while True:
        page = await sessions.list(SessionQuery(limit=2, after=after))
        found += [item.session.session_id for item in page.items]
        totals.add(page.total)
        # What is said meanwhile moves that session, and no other.
        await home.log(SessionId("d")).record(messages=[said(f"d{len(found)}", "more", 40 + len(found))], now=50)
        if (after := page.next) is None:
            break
    assert found == ["a", "d", "c", "b", SESSION]
    assert totals == {5}
    for wrong in ("", "x", "W10", "WzEsMl0", *ODD):
        assert await raises(InvalidInput, sessions.list(SessionQuery(after=wrong))), wrong


async def check_containers_and_tenants_do_not_see_each_other(store: Store) -> None:
    await several(store, "a")
    await settle(store, image("two", "b"), container="b")
    await settle(store, image(), tenant=RIVAL)
    assert await names(mine(store)) == ["a", SESSION]
    assert await names(mine(store, "b")) == ["two-default"]
    assert set(await names(mine(store, HOME, "b"))) == {"a", SESSION, "two-default"}
    assert await names(store.tenant(ACME).sessions(None)) == ["a", "two-default", SESSION]
    assert await names(store.tenant(ACME).sessions([])) == []
    assert await names(store.tenant(RIVAL).sessions(None)) == [SESSION]
    for others in (mine(store, "b"), store.tenant(RIVAL).sessions(None), store.tenant(ACME).sessions([])):
        wanted = SessionId("a")
        assert await others.get(wanted) is None
        assert await others.keep(wanted, pinned=True, now=9) is None
        assert await others.name(wanted, "t", 9) is None
        assert await others.delete(wanted, 9) is None
        assert await others.restore(wanted, 9, deleted_after=0) is None
        assert await others.mark_read(wanted, ANN, 9) is None
        assert await others.messages(wanted, MessageQuery()) is None
    kept = await mine(store).get(SessionId("a"))
    assert kept is not None
    assert (kept.session.pinned_at, kept.session.title) == (None, None)


async def check_a_deleted_session_is_out_of_sight_until_it_is_restored(store: Store) -> None:
    home = await several(store, "a")
    sessions, wanted = mine(store), SessionId("a")
    deleted = await sessions.delete(wanted, 20)
    assert deleted is not None
    assert deleted.deleted_at == 20
    assert await sessions.delete(wanted, 21) is None
    assert await names(sessions, archived=None) == [SESSION]
    assert await names(sessions, archived=None, deleted_after=19) == ["a"]
    assert await names(sessions, archived=None, deleted_after=20) == []
    assert await sessions.get(wanted) is None
    assert await sessions.messages(wanted, MessageQuery()) is None
    assert await home.get_session(wanted) is None
    assert await store.tenant(ACME).find_session(wanted) is None
    assert [one.session_id for one in await home.list_sessions(IMAGE)] == [SESSION]
    assert await home.set_title(wanted, "t", 22) is None
    assert await sessions.restore(wanted, 23, deleted_after=20) is None
    restored = await sessions.restore(wanted, 24, deleted_after=19)
    assert isinstance(restored, Session)
    assert restored.deleted_at is None
    assert await names(sessions) == ["a", SESSION]
    assert await sessions.restore(wanted, 25, deleted_after=99) == restored
    page = await sessions.messages(wanted, MessageQuery())
    assert page is not None
    assert page.total == 1


async def check_the_oldest_that_is_left_takes_the_place_of_a_default_session(store: Store) -> None:
    home = await several(store, "a", "b")
    assert await mine(store).delete(SESSION, 20) is not None
    (led,) = await home.list_images()
    assert led.session_id == "a"
    # Who comes back is one among others.
    await mine(store).restore(SESSION, 21, deleted_after=0)
    assert (await home.list_images())[0].session_id == "a"


async def check_an_image_goes_with_its_last_session_and_comes_back_with_it(store: Store) -> None:
    home, tenant, sessions = await several(store, "a"), store.tenant(ACME), mine(store)
    for at, name in ((20, SESSION), (21, SessionId("a"))):
        await sessions.delete(name, at)
    assert await home.list_images() == ()
    assert await tenant.find_image(IMAGE) is None
    assert await raises(ImageNotFound, home.add_session(session("late")))
    assert await sessions.restore(SESSION, 22, deleted_after=0) is not None
    assert [one.session_id for one in await home.list_images()] == [SESSION]
    assert await tenant.find_image(IMAGE) == HOME
    await sessions.delete(SESSION, 30)
    assert await store.purge_sessions(25) == ((ACME, "a"),)
    assert await home.get_image(IMAGE) is not None
    assert await store.purge_sessions(30) == ((ACME, SESSION),)
    assert await home.get_image(IMAGE) is None
    assert await home.delete_image(IMAGE) is False


async def check_what_was_deleted_long_ago_is_purged(store: Store) -> None:
    home = await several(store, "a", "b", "c")
    sessions = mine(store)
    for at, name in ((20, "a"), (21, "b"), (30, "c")):
        await sessions.delete(SessionId(name), at)
    assert await store.purge_sessions(19) == ()
    assert await store.purge_sessions(21, limit=1) == ((ACME, "a"),)
    assert await store.purge_sessions(21) == ((ACME, "b"),)
    assert await sessions.restore(SessionId("a"), 40, deleted_after=0) is None
    assert await home.list_messages(SessionId("a")) == ()
    assert await sessions.restore(SessionId("c"), 40, deleted_after=0) is not None


async def check_a_deleted_session_can_be_dropped_before_its_time_and_no_other_is(store: Store) -> None:
    home, sessions = await several(store, "a", "b"), mine(store)
    await sessions.drop(SessionId("a"))
    assert await home.get_session(SessionId("a")) is not None
    for name in ("a", "b"):
        await sessions.delete(SessionId(name), 20)
    await sessions.drop(SessionId("a"))
    await sessions.drop(SessionId("a"))
    assert await home.list_messages(SessionId("a")) == ()
    assert await sessions.restore(SessionId("a"), 40, deleted_after=0) is None
    assert await sessions.restore(SessionId("b"), 40, deleted_after=0) is not None


async def check_a_session_in_which_a_turn_has_begun_is_not_deleted_for_being_empty(store: Store) -> None:
    home, sessions = await several(store, "a", "b"), mine(store)
    begun = structs.replace(turn("t1"), session_id=SessionId("a"))
    await home.log(SessionId("a")).record(turns=[begun], now=1)
    assert await sessions.delete(SessionId("a"), 20, unless_begun=True) is None
    assert await home.get_session(SessionId("a")) is not None
    assert await sessions.delete(SessionId("b"), 20, unless_begun=True) is not None
    assert await home.get_session(SessionId("b")) is None


async def check_only_a_session_without_a_title_is_given_one(store: Store) -> None:
    home = await settle(store, image())
    sessions = mine(store)
    named = await sessions.name(SESSION, "auto", 5)
    assert named is not None
    assert (named.title, named.updated_at) == ("auto", 5)
    assert await sessions.name(SESSION, "other", 6) is None
    await home.set_title(SESSION, None, 7)
    assert await sessions.name(SessionId("gone"), "x", 8) is None


async def check_messages_are_read_by_page_from_either_end(store: Store) -> None:
    home = await settle(store, image())
    told = [said(f"m{number}", f"text {number}", number) for number in range(7)]
    await home.log(SESSION).record(messages=told, now=9)
    sessions = mine(store)
    for order, expected in (("oldest", told), ("newest", told[::-1])):
        found: list[Message] = []
        cursor = None
        while True:
            page = await sessions.messages(SESSION, MessageQuery(order=order, cursor=cursor, limit=3))  # type: ignore[arg-type]
            assert page is not None
            assert page.total == 7
            found += page.messages
            if (cursor := page.next) is None:
                break
        assert found == expected
    assert await raises(InvalidInput, sessions.messages(SESSION, MessageQuery(cursor="?")))


async def check_a_page_ends_before_it_is_too_large(store: Store) -> None:
    home = await settle(store, image())
    told = [said(f"m{number}", "x" * 10_000, number) for number in range(5)]
    await home.log(SESSION).record(messages=told, now=9)
    sessions = mine(store)
    for order, expected in (("oldest", told), ("newest", told[::-1])):
        found: list[int] = []
        cursor = None
        while True:
            wanted = MessageQuery(order=order, cursor=cursor, max_bytes=25_000)  # type: ignore[arg-type]
            page = await sessions.messages(SESSION, wanted)
            assert page is not None
            assert list(page.messages) == expected[sum(found) :][: len(page.messages)]
            found.append(len(page.messages))
            assert page.cut == (page.next is not None)
            if (cursor := page.next) is None:
                break
        assert found == [2, 2, 1]
    alone = await sessions.messages(SESSION, MessageQuery(max_bytes=1))
    nothing = await sessions.messages(SESSION, MessageQuery(max_bytes=1, strict=True))
    assert alone is not None
    assert nothing is not None
    assert (list(alone.messages), alone.cut) == (told[:1], True)
    assert (nothing.messages, nothing.cut, nothing.next) == ((), True, None)
    around = await sessions.messages(SESSION, MessageQuery(around=MessageId("m2"), max_bytes=25_000))
    assert around is not None
    assert (list(around.messages), around.cut) == (told[1:3], True)
    assert None not in (around.next, around.previous)


async def check_a_message_is_shown_among_those_around_it(store: Store) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[said(f"m{number}", "x", number) for number in range(9)], now=9)
    sessions = mine(store)
    for middle, expected in ((4, "2345"), (0, "0123"), (8, "678")):
        page = await sessions.messages(SESSION, MessageQuery(around=MessageId(f"m{middle}"), limit=4))
        assert page is not None
        assert [one.id for one in page.messages] == [f"m{number}" for number in expected]
        before = after = None
        if page.previous is not None:
            before = await sessions.messages(SESSION, MessageQuery(order="newest", cursor=page.previous))
        if page.next is not None:
            after = await sessions.messages(SESSION, MessageQuery(cursor=page.next))
        ids = [one.id for part in (before, after) if part is not None for one in part.messages]
        assert len(ids) + len(page.messages) == 9
    assert await raises(NotFound, sessions.messages(SESSION, MessageQuery(around=MessageId("gone"))))


async def check_what_somebody_has_not_read_is_counted_for_them(store: Store) -> None:
    home = await settle(store, image())
    told = [said("1", "q", 1), answered("2", "a", 2), *EVERY_KIND[3:6], answered("7", "b", 7)]
    await home.log(SESSION).record(messages=told, now=9)
    # Stored again, it is not one more.
    await home.log(SESSION).record(messages=told, now=9)
    sessions = mine(store)

    async def unread(reader: SessionReader) -> int:
        found = await sessions.get(SESSION, reader)
        assert found is not None
        listed = (await sessions.list(SessionQuery(), reader)).items[0]
        assert listed == found
        return found.unread

    phone = SessionReader("ann", "phone")
    assert [await unread(one) for one in (ANN, phone, SessionReader())] == [3, 3, 3]
    marked = await sessions.mark_read(SESSION, phone, 10, message_id=MessageId("2"))
    assert marked is not None
    assert marked.unread == 2
    assert [await unread(one) for one in (ANN, phone, SessionReader("ann", "desk"), SessionReader("bob"))] == [2, 2, 3, 3]
    await sessions.mark_read(SESSION, ANN, 11)
    assert [await unread(one) for one in (ANN, phone)] == [0, 2]
    # A mark never goes back.
    await sessions.mark_read(SESSION, ANN, 12, message_id=MessageId("1"))
    assert await unread(ANN) == 0
    await home.log(SESSION).record(messages=[answered("8", "c", 8)], now=13)
    assert await unread(ANN) == 1
    last = await sessions.get(SESSION, ANN)
    assert last is not None
    await sessions.mark_read(SESSION, ANN, 14, cursor=last.cursor)
    assert await unread(ANN) == 0
    assert await raises(NotFound, sessions.mark_read(SESSION, ANN, 15, message_id=MessageId("gone")))
    assert await raises(InvalidInput, sessions.mark_read(SESSION, ANN, 15, cursor="?"))
