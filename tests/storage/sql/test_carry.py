from pathlib import Path

import msgspec
import pytest
from tests.conformance.carry import OURS, some
from tests.conformance.records import HOME, SESSION, default_session, image, message
from tests.conformance.store import settle
from tests.server.http.fixtures import open_world

from agentvm.errors import NotFound
from agentvm.model.ids import MessageId, RewindId
from agentvm.model.resource import Locked, VersionId
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import open_database
from agentvm.storage.sql.session_write import prepare
from agentvm.storage.sql.store import Store


async def test_what_came_in_is_found_by_lists(tmp_path: Path) -> None:
    async with open_store(tmp_path / "x.db") as store:
        await store.carrier(OURS).add(some, 7)
        session = await store.tenant(OURS).container(HOME).get_session(SESSION)
        assert session is not None
        assert (session.last_message_at, session.preview, session.updated_at) == (6, "yes", 1)
        listed = await store.tenant(OURS).sessions((HOME,)).get(SESSION)
        assert listed is not None
        assert listed.unread == 0


async def test_an_image_holds_what_it_may_read_here_and_remembers_the_rest() -> None:
    async with open_world() as world:
        await world.hide(world.bolt)
        store = world.vm.tenancy.store
        uri = "resource://bolt/prompts/private@1.0.0"
        lock = (Locked(uri=uri, version="1.0.0", digest="d", version_id=VersionId("ver_x")),)
        locked = msgspec.structs.replace(image(), lock=lock)
        await store.carrier(world.acme.tenant_id).add(lambda: iter((locked, default_session(locked))), 7)
        found = await store.tenant(world.acme.tenant_id).container(HOME).get_image(locked.image_id)
        assert found == locked


async def test_nothing_comes_into_a_tenant_that_is_gone() -> None:
    async with open_world() as world:
        await world.vm.tenancy.store.directory.delete_tenant(world.acme.tenant_id, 9)
        with pytest.raises(NotFound):
            await world.vm.tenancy.store.carrier(world.acme.tenant_id).add(some, 9)


async def test_what_is_taken_back_while_it_is_read_was_there_and_what_was_taken_back_before_was_not() -> None:
    async with open_database(None) as database:
        store = Store(database)
        home = await settle(store, image(), tenant=OURS)
        carrier = store.carrier(OURS)

        async def take_back(name: str) -> None:
            rewinding = Rewinding(RewindId(f"of {name}"), (MessageId(name),), 5)
            write = SessionWrite(tenant_id=OURS, container_id=HOME, session_id=SESSION, now=5, rewind=rewinding)
            await database.write(prepare(write))

        await home.log(SESSION).record(messages=[message("m1"), message("m2"), message("m3")], now=2)
        await take_back("m1")
        history = await carrier.history(HOME, SESSION)
        await take_back("m3")
        page = await carrier.read(HOME, SESSION, history, 0)
        assert ([one.id for one in page.messages], page.next) == (["m2", "m3"], None)
        later = await carrier.history(HOME, SESSION)
        assert [one.id for one in (await carrier.read(HOME, SESSION, later, 0)).messages] == ["m2"]
