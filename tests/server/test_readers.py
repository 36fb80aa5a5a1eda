from typing import NoReturn

import anyio
import pytest
from tests.operations.fixtures import Desk
from tests.server.browser import CLIENT, words
from tests.server.fixtures import open_listener

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import StoreFailed
from agentvm.model.ids import SessionId, TenantId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.server import readers
from agentvm.server.readers import Reader, Readers, attach_reader, client_id_of
from agentvm.storage.sql.store import TenantStore
from agentvm.vm import AgentVM


@pytest.mark.parametrize(
    ("query", "client_id"),
    [
        (b"client=0123abcd-EF_9", "0123abcd-EF_9"),
        (b"a=1&client=12345678&b", "12345678"),
        (b"client=" + b"x" * 64, "x" * 64),
        (b"", None),
        (b"client", None),
        (b"client=", None),
        (b"clients=12345678", None),
        (b"Client=12345678", None),
        (b"client=1234567", None),
        (b"client=" + b"x" * 65, None),
        (b"client=" + b"x" * 60_000, None),
        (b"client=1234567%38", None),
        (b"client=12345678\n", None),
        (b"client=../../../etc", None),
        (b"client=\xff\xfe\xfd12345678", None),
        (b"client='; DROP TABLE readers; --", None),
        (b"client=short&client=12345678", None),
        (b"&" * 60_000, None),
    ],
)
def test_a_client_names_itself_properly_or_has_no_name(query: bytes, client_id: str | None) -> None:
    assert client_id_of(query) == client_id


async def fail(self: object, *given: object) -> NoReturn:
    raise StoreFailed("the disk is gone")


async def entered(house: Readers, vm: AgentVM, tenant: str = "default", client_id: str = CLIENT) -> Reader:
    reader = attach_reader(vm, client_id, Principal(tenant_id=TenantId(tenant), permissions=EVERYTHING))
    with anyio.fail_after(60):
        await house.enter(reader)
    return reader


async def session_of(vm: AgentVM, reader: Reader) -> SessionId:
    """A new session, which the reader hears."""
    return SessionId((await Desk(vm, reader.peer).create_image())["sessionId"])


async def test_what_could_not_be_taken_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_listener() as (vm, _):
        house = Readers()
        first = await entered(house, vm)
        await session_of(vm, first)
        await house.leave(first)
        with monkeypatch.context() as broken:
            broken.setattr(TenantStore, "take_reader", fail)
            second = await entered(house, vm)
        assert second.places == {}
        second.acks.stop()
        await house.leave(second)
        assert (await entered(house, vm)).places == {}, "a place that is no longer true was kept"


async def test_names_belong_to_their_tenant() -> None:
    async with open_listener() as (vm, _):
        house = Readers()
        own = await entered(house, vm, "acme")
        session_id = await session_of(vm, own)
        # While it is connected, and when it is gone.
        assert (await entered(house, vm, "rival")).places == {}
        await house.leave(own)
        assert (await entered(house, vm, "rival")).places == {}
        assert set((await entered(house, vm, "acme")).places) == {session_id}


async def test_many_sockets_under_one_name_at_once_hand_the_places_on_to_the_last() -> None:
    async with open_listener() as (vm, _):
        house = Readers()
        first = await entered(house, vm)
        session_id = await session_of(vm, first)
        others = [attach_reader(vm, CLIENT) for _ in range(5)]
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for other in others:
                    tasks.start_soon(house.enter, other)
                tasks.start_soon(house.leave, first)
            assert set(others[-1].places) == {session_id}
            for other in others:
                await house.leave(other)
        assert set((await entered(house, vm)).places) == {session_id}


async def test_a_socket_that_comes_while_the_last_one_is_being_saved_finds_what_is_saved() -> None:
    async with open_listener() as (vm, _):
        house = Readers()
        first = await entered(house, vm)
        session_id = await session_of(vm, first)
        second = attach_reader(vm, CLIENT)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(house.leave, first)
                tasks.start_soon(house.enter, second)
        assert set(second.places) == {session_id}
        assert await vm.attach().store.take_reader(CLIENT) == {}


async def test_a_cancelled_socket_is_saved_all_the_same() -> None:
    async with open_listener() as (vm, _):
        house = Readers()
        reader = await entered(house, vm)
        session_id = await session_of(vm, reader)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await house.leave(reader)
        assert set((await entered(house, vm)).places) == {session_id}


async def test_no_more_sessions_are_remembered_than_allowed_and_first_those_that_were_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readers, "PLACES_MAX", 2)
    async with open_listener() as (vm, _):
        house = Readers()
        reader = await entered(house, vm)
        sessions = [await session_of(vm, reader) for _ in range(4)]
        reader.acks.begin(sessions[3], 7)
        places = reader.leave()
        assert len(places) == 2
        assert places[sessions[3]].seq == 7


async def test_a_quiet_session_is_read_up_to_the_end_of_its_log() -> None:
    async with open_listener(ScriptedDriver(words)) as (vm, _):
        house = Readers()
        talker = vm.attach()
        desk = Desk(vm, talker)
        image = await desk.create_image()
        await desk.ask("message_send", imageId=image["imageId"], content="Hi")
        await desk.hear("turn_response")
        session_id = SessionId(image["sessionId"])
        for running in (True, False):
            reader = await entered(house, vm)
            if not running:
                await desk.ask("image_stop", imageId=image["imageId"])
            await Desk(vm, reader.peer).ask("session_get", sessionId=session_id)
            await house.leave(reader)
            places = await talker.store.take_reader(CLIENT)
            last = (await talker.store.container(image["containerId"]).log(session_id).range())[1]
            assert places[session_id].seq == last


async def test_a_socket_that_was_taken_over_says_nothing_more_when_it_ends() -> None:
    async with open_listener() as (vm, _):
        house = Readers()
        await house.leave(await with_place(house, vm))
        old = await entered(house, vm)
        (session_id,) = old.places
        new = await entered(house, vm)
        assert new.resume(session_id, None) is not None
        await house.leave(new)
        await house.leave(old)
        assert (await entered(house, vm)).places == {}, "it has asked for the session, and does not hear it any more"


async def with_place(house: Readers, vm: AgentVM) -> Reader:
    reader = await entered(house, vm)
    await session_of(vm, reader)
    return reader


async def test_a_client_that_asked_for_the_past_is_there_when_it_leaves() -> None:
    async with open_listener() as (vm, _):
        reader = await entered(Readers(), vm)
        session_id = await session_of(vm, reader)
        reader.acks.begin(session_id, 7)
        assert reader.resume(session_id, 3) == 3
        assert reader.leave()[session_id].seq == 3


async def test_a_store_that_never_answers_does_not_hold_a_socket_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(self: object, *given: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(readers, "SAVE_TIMEOUT_SECONDS", 0.01)
    async with open_listener() as (vm, _):
        house = Readers()
        reader = await with_place(house, vm)
        with monkeypatch.context() as broken, anyio.fail_after(60):
            broken.setattr(TenantStore, "save_reader", hang)
            await house.leave(reader)
        assert (await entered(house, vm)).places == {}
