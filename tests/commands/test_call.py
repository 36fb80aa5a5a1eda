import pytest
from tests.commands.fixtures import Desk, open_desk

from agentvm.commands.call import Call
from agentvm.errors import ImageNotFound, SessionNotFound
from agentvm.model.ids import ContainerId, ImageId, SessionId

pytestmark = pytest.mark.anyio


def call(desk: Desk) -> Call:
    return Call(desk.peer)


async def test_an_image_is_found_in_the_container_it_lives_in() -> None:
    async with open_desk() as desk:
        made = await desk.create_image()
        _, image = await call(desk).image(ImageId(made["imageId"]))
        assert image.container_id == "c1"
        _, session = await call(desk).session(SessionId(made["sessionId"]))
        assert session.image_id == image.image_id


async def test_what_nobody_has_and_what_another_tenant_has_look_the_same() -> None:
    async with open_desk() as desk:
        made = await desk.create_image()
        for peer, image_id, session_id in ((desk, "nope", "nope"), (desk.another("other"), made["imageId"], made["sessionId"])):
            assert await call(peer).find_image(ImageId(image_id)) is None
            assert await call(peer).find_session(SessionId(session_id)) is None
            with pytest.raises(ImageNotFound):
                await call(peer).image(ImageId(image_id))
            with pytest.raises(SessionNotFound):
                await call(peer).session(SessionId(session_id))


async def test_a_peer_joins_a_container_by_working_with_it() -> None:
    async with open_desk() as desk:
        assert desk.peer.joined() == frozenset()
        desk.peer.join(ContainerId("c1"))
        desk.peer.listen(ContainerId("c2"), SessionId("sess_1"))
        assert desk.peer.joined() == {"c1", "c2"}
