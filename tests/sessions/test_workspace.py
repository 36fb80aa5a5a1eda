import pytest
from tests.operations.fixtures import Desk, open_desk

from agentvm.errors import ImageNotFound, SessionNotFound
from agentvm.model.ids import ImageId, SessionId
from agentvm.sessions.workspace import Workspace


def workspace(desk: Desk) -> Workspace:
    return desk.peer.workspace


async def test_an_image_is_found_in_the_container_it_lives_in() -> None:
    async with open_desk() as desk:
        made = await desk.create_image()
        _, image = await workspace(desk).image(ImageId(made["imageId"]))
        assert image.container_id == "c1"
        _, session = await workspace(desk).session(SessionId(made["sessionId"]))
        assert session.image_id == image.image_id


async def test_what_nobody_has_and_what_another_tenant_has_look_the_same() -> None:
    async with open_desk() as desk:
        made = await desk.create_image()
        for peer, image_id, session_id in ((desk, "nope", "nope"), (desk.another("other"), made["imageId"], made["sessionId"])):
            assert await workspace(peer).find_image(ImageId(image_id)) is None
            assert await workspace(peer).find_session(SessionId(session_id)) is None
            with pytest.raises(ImageNotFound):
                await workspace(peer).image(ImageId(image_id))
            with pytest.raises(SessionNotFound):
                await workspace(peer).session(SessionId(session_id))
