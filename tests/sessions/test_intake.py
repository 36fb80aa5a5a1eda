import io
import json

import pytest
from tests.sessions.histories import TENANT, archive, fill, filled, ids, put, source, take_in

from agentvm.errors import Conflict, InvalidInput
from agentvm.model.ids import ContainerId
from agentvm.sessions.export import Wanted
from agentvm.sessions.intake import destinations, plan, report, stage
from agentvm.sessions.spool import Spool
from agentvm.storage.sqlite import open_store
from agentvm.testing.conformance.records import HOME, default_session, image

pytestmark = pytest.mark.anyio

CLAUDE = json.dumps([{"name": "Hi", "chat_messages": [{"sender": "human", "text": "你好"}]}]).encode()


async def test_ids_that_are_taken_are_replaced_everywhere_and_the_rest_is_kept() -> None:
    async with filled() as store:
        body = await archive(store)
        _, renamed = await take_in(store, body)
        assert renamed.images.keys() == {"img_1", "img_2"}
        assert renamed.sessions.keys() == {"img_1-default", "img_2-default", "other"}
        home = store.tenant(TENANT).container(HOME)
        images = {one.image_id: one for one in await home.list_images()}
        assert len(images) == 2
        twin = images[renamed.images["img_1"]]  # type: ignore[index]
        assert twin.session_id == renamed.sessions["img_1-default"]
        own = await home.list_messages(images["img_1"].session_id)  # type: ignore[index]
        assert await home.list_messages(twin.session_id) == own


async def test_everything_can_go_into_one_container() -> None:
    async with filled() as store, open_store(None) as other:
        body = await archive(store)
        spool, _ = await take_in(other, body, container=ContainerId("mine"))
        assert await other.tenant(TENANT).list_containers() == ("mine",)
        assert destinations(spool, ContainerId("mine")) == {"mine": 2}
        assert len(await source(other).list([Wanted(ContainerId("mine"))])) == 2


async def test_conversations_of_others_need_a_container() -> None:
    async with open_store(None) as store:
        with pytest.raises(InvalidInput, match="`container` is needed"):
            await take_in(store, CLAUDE, "claude")
        spool, _ = await take_in(store, CLAUDE, "claude", HOME)
        (one,) = await store.tenant(TENANT).container(HOME).list_images()
        assert (one.name, one.definition_name, spool.counts.messages) == ("Hi", "imported", 1)
        assert await archive(store)


async def test_a_report_says_what_would_be() -> None:
    async with filled() as store, open_store(None) as other:
        body = await archive(store)
        with Spool() as spool:
            await stage(io.BytesIO(body), "archive", spool, container_id=None, new_id=ids())
            renamed = await plan(spool, other.carrier(TENANT), container_id=None, new_id=ids())
            told = report(spool, renamed, dry_run=True)
        assert (told.containers, told.renamed, told.dry_run, told.counts.sessions) == (("away", "home"), {}, True, 3)
        assert await other.tenant(TENANT).list_containers() == ()


async def test_an_id_that_is_taken_between_the_plan_and_the_commit_stores_nothing() -> None:
    async with open_store(None) as store:
        await fill(store)
        with pytest.raises(Conflict, match="Try again"):
            await put(store, image("img_8"), default_session(image("img_8")), image(), default_session(image()))
        assert await store.tenant(TENANT).find_image(image("img_8").image_id) is None
