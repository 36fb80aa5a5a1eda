import io
import json
from collections.abc import Sequence
from tempfile import TemporaryFile

import pytest
from tests.conformance.records import HOME, IMAGE, SESSION, default_session, image, message, session
from tests.sessions.histories import TENANT, archive, fill, filled, history, ids, put, read_here, source, take_in

from agentvm.errors import Conflict, InvalidInput
from agentvm.model.ids import ContainerId, MessageId, RewindId, SessionId
from agentvm.model.message import Message, UserMessage
from agentvm.sessions.archive import ImportCounts
from agentvm.sessions.export import Selection
from agentvm.sessions.import_reader import Orders
from agentvm.sessions.intake import ImportReport, plan, report, stage
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.carry import SessionContent
from agentvm.storage.engine import open_store
from agentvm.storage.sessions import MessageSearch
from agentvm.storage.sql.session_write import prepare
from agentvm.storage.sql.store import Store

HI = {"sender": "human", "text": "你好", "uuid": "m1"}
NOTHING = ImportCounts()


def claude(*messages: dict[str, str], name: str = "Hi") -> bytes:
    return json.dumps([{"uuid": "c1", "name": name, "chat_messages": messages}]).encode()


async def say(store: Store, name: str, session_id: SessionId = SESSION) -> None:
    await store.tenant(TENANT).container(HOME).log(session_id).record(messages=[message(name)], now=9)


async def said(store: Store, session_id: SessionId = SESSION) -> list[str]:
    return [str(one.id) for one in await store.tenant(TENANT).container(HOME).list_messages(session_id)]


def of(*names: str) -> tuple[Message, ...]:
    return tuple(UserMessage(id=MessageId(name), timestamp=1, role="user", content=name) for name in names)


async def carried(*names: str) -> bytes:
    """An archive of a session in which this was said."""
    async with open_store(None) as store:
        await put(store, *history(of(*names), ()))
        return await archive(store)


async def sessions(store: Store) -> Sequence[SessionId]:
    return [one.session_id for one in await store.tenant(TENANT).container(HOME).list_sessions(IMAGE)]


async def test_the_same_archive_adds_nothing_the_second_time() -> None:
    async with filled() as store, open_store(None) as other:
        body = await archive(store)
        first = await take_in(other, body)
        assert (first.counts.images, first.counts.sessions, first.known, first.continued) == (2, 3, 0, 0)
        again = await take_in(other, body)
        assert (again.counts, again.known, again.renamed) == (NOTHING, 3, {})
        assert await archive(other) == body
        # Where it came from it is known as well.
        assert (await take_in(store, body)).counts == NOTHING
        assert await archive(store) == body


async def test_ids_that_another_container_has_are_replaced_the_same_way_each_time() -> None:
    async with filled() as store:
        body = await archive(store)
        copy = ContainerId("copy")
        first = await take_in(store, body, container=copy)
        assert first.renamed.keys() == {"img_1", "img_2", "img_1-default", "img_2-default", "other"}
        assert first.containers == ("copy",)
        twins = {one.image_id: one for one in await store.tenant(TENANT).container(copy).list_images()}
        twin = twins[first.renamed["img_1"]]  # type: ignore[index]
        assert twin.session_id == first.renamed["img_1-default"]
        own = await store.tenant(TENANT).container(HOME).list_messages(SESSION)
        assert await store.tenant(TENANT).container(copy).list_messages(twin.session_id) == own
        again = await take_in(store, body, container=copy)
        assert (again.counts, again.known, again.renamed) == (NOTHING, 3, {})
        assert len(await store.tenant(TENANT).container(copy).list_images()) == 2


async def test_a_conversation_that_has_grown_gets_what_is_new() -> None:
    async with open_store(None) as store:
        await take_in(store, await carried("m1", "m2"))
        grown = await take_in(store, await carried("m1", "m2", "m3", "m4"))
        assert (grown.counts.messages, grown.counts.sessions, grown.known, grown.continued) == (2, 0, 0, 1)
        assert await said(store) == ["m1", "m2", "m3", "m4"]
        # An older file has nothing new.
        older = await take_in(store, await carried("m1", "m2", "m3"))
        assert (older.counts, older.known) == (NOTHING, 1)
        found = await store.tenant(TENANT).sessions((HOME,)).search(MessageSearch(text="m3"))
        assert [one.session.session_id for one in found.items] == [SESSION]
        listed = await store.tenant(TENANT).sessions((HOME,)).get(SESSION)
        assert listed is not None
        assert listed.session.preview == "m4"


async def test_a_new_session_comes_to_the_image_that_is_here() -> None:
    async with open_store(None) as store, open_store(None) as other:
        await put(other, *history(of("m1"), ()))
        await take_in(store, await archive(other))
        await other.tenant(TENANT).container(HOME).add_session(session("more"))
        await say(other, "x", SessionId("more"))
        found = await take_in(store, await archive(other))
        assert (found.counts.images, found.counts.sessions, found.known) == (0, 1, 1)
        assert await said(store, SessionId("more")) == ["x"]
        assert await said(store) == ["m1"]


async def test_what_went_on_here_is_known_all_the_same() -> None:
    async with open_store(None) as store:
        body = await carried("m1", "m2")
        await take_in(store, body)
        await say(store, "here")
        assert (await take_in(store, body)).counts == NOTHING
        rewinding = Rewinding(RewindId("r"), (MessageId("m2"), MessageId("here")), 5)
        write = SessionWrite(tenant_id=TENANT, container_id=HOME, session_id=SESSION, now=5, rewind=rewinding)
        await store._database.write(prepare(write))
        assert await said(store) == ["m1"]
        assert (await take_in(store, body)).counts == NOTHING
        assert await said(store) == ["m1"]


async def test_a_session_that_was_edited_or_answered_again_here_is_known() -> None:
    async with open_store(None) as store:
        await take_in(store, await carried("m1", "m2"))
        rewinding = Rewinding(RewindId("r"), (MessageId("m2"),), 5)
        write = SessionWrite(tenant_id=TENANT, container_id=HOME, session_id=SESSION, now=5, rewind=rewinding)
        await store._database.write(prepare(write))
        await say(store, "instead")
        assert await said(store) == ["m1", "instead"]
        assert (await take_in(store, await archive(store))).counts == NOTHING
        assert (await take_in(store, await carried("m1", "m2"))).counts == NOTHING
        assert len(await sessions(store)) == 1


async def test_what_went_on_here_and_there_is_imported_beside_it_and_nothing_is_lost() -> None:
    async with open_store(None) as store:
        await take_in(store, await carried("m1", "m2"))
        await say(store, "here")
        longer = await carried("m1", "m2", "there")
        beside = await take_in(store, longer)
        assert (beside.counts.images, beside.counts.sessions, beside.counts.messages) == (0, 1, 3)
        (new,) = beside.renamed.values()
        assert await said(store) == ["m1", "m2", "here"]
        assert await said(store, SessionId(new)) == ["m1", "m2", "there"]
        assert (await take_in(store, longer)).counts == NOTHING
        # And from then on that one grows.
        assert (await take_in(store, await carried("m1", "m2", "there", "again"))).continued == 1
        assert await said(store, SessionId(new)) == ["m1", "m2", "there", "again"]
        assert len(await sessions(store)) == 2


async def test_what_was_deleted_here_or_lost_its_beginning_comes_back() -> None:
    async with open_store(None) as store:
        body = await carried("m1", "m2")
        await take_in(store, body)
        home = store.tenant(TENANT).container(HOME)
        await store.tenant(TENANT).sessions((HOME,)).delete(SESSION, 7)
        back = await take_in(store, body)
        assert back.counts.messages == 2
        assert (await take_in(store, body)).counts == NOTHING
        assert await home.get_session(SessionId(back.renamed[SESSION])) is not None


async def test_conversations_of_others_are_known_again_and_grow() -> None:
    async with open_store(None) as store:
        await take_in(store, claude(HI), "claude", HOME)
        again = await take_in(store, claude(HI), container=HOME)
        assert (again.counts, again.known, again.format) == (NOTHING, 1, "claude")
        more = {"sender": "assistant", "text": "Hello!", "uuid": "m2"}
        grown = await take_in(store, claude(HI, more, name="Greetings"), container=HOME)
        assert (grown.counts.messages, grown.continued) == (1, 1)
        (one,) = await store.tenant(TENANT).container(HOME).list_images()
        messages = await store.tenant(TENANT).container(HOME).list_messages(one.session_id)
        assert [one.role for one in messages] == ["user", "assistant"]
        # Somebody asked otherwise there: another history.
        edited = await take_in(store, claude({**HI, "text": "Hi"}, more), container=HOME)
        assert (edited.counts.sessions, edited.counts.messages) == (1, 2)


async def test_everything_can_go_into_one_container() -> None:
    async with filled() as store, open_store(None) as other:
        body = await archive(store)
        told = await take_in(other, body, container=ContainerId("mine"))
        assert await other.tenant(TENANT).list_containers() == told.containers == ("mine",)
        assert len(await source(other).list([Selection(ContainerId("mine"))])) == 2


async def test_conversations_of_others_need_a_container() -> None:
    async with open_store(None) as store:
        with pytest.raises(InvalidInput, match="Set `container`"):
            await take_in(store, claude(HI), "auto")
        told = await take_in(store, claude(HI), "auto", HOME)
        (one,) = await store.tenant(TENANT).container(HOME).list_images()
        assert (one.name, one.definition_name, told.counts.messages) == ("Hi", "imported", 1)
        assert await archive(store)


async def test_a_report_says_what_would_be() -> None:
    async with filled() as store, open_store(None) as other:
        body = await archive(store)
        with TemporaryFile() as spool:
            staged, reading = await stage(io.BytesIO(body), spool, Orders(), read_here)
            placement = await plan(staged, other.carrier(TENANT), container_id=None, new_id=ids())
            told: ImportReport = report(staged, placement, reading, dry_run=True)
        assert (told.containers, told.renamed, told.dry_run, told.counts.sessions) == (("away", "home"), {}, True, 3)
        assert (told.format, told.bytes) == ("archive", staged.size)
        assert await other.tenant(TENANT).list_containers() == ()


async def test_an_id_that_is_taken_between_the_plan_and_the_commit_stores_nothing() -> None:
    async with open_store(None) as store:
        await fill(store)
        with pytest.raises(Conflict, match="Try again"):
            await put(store, image("img_8"), default_session(image("img_8")), image(), default_session(image()))
        assert await store.tenant(TENANT).find_image(image("img_8").image_id) is None


async def test_an_image_with_the_same_message_twice_over_is_no_reason_to_stop() -> None:
    async with open_store(None) as store:
        await put(store, *history((), ()))
        await put(store, image("img_9"), default_session(image("img_9")), SessionContent(of("m1")))
        assert (await take_in(store, await carried("m1"))).continued == 1
        assert await said(store) == ["m1"]
