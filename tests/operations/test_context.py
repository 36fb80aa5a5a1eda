import pytest
from tests.operations.fixtures import Desk, open_desk

from agentvm.errors import ImageNotFound, SessionNotFound
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, SessionId
from agentvm.model.principal import Principal
from agentvm.operations.context import Context, context_of


def call(desk: Desk) -> Context:
    return context_of(desk.peer)


async def test_an_image_is_found_in_the_container_it_lives_in() -> None:
    async with open_desk() as desk:
        made = await desk.create_image()
        _, image = await call(desk).workspace.image(ImageId(made["imageId"]))
        assert image.container_id == "c1"
        _, session = await call(desk).workspace.session(SessionId(made["sessionId"]))
        assert session.image_id == image.image_id


async def test_what_nobody_has_and_what_another_tenant_has_look_the_same() -> None:
    async with open_desk() as desk:
        made = await desk.create_image()
        for peer, image_id, session_id in ((desk, "nope", "nope"), (desk.another("other"), made["imageId"], made["sessionId"])):
            assert await call(peer).workspace.find_image(ImageId(image_id)) is None
            assert await call(peer).workspace.find_session(SessionId(session_id)) is None
            with pytest.raises(ImageNotFound):
                await call(peer).workspace.image(ImageId(image_id))
            with pytest.raises(SessionNotFound):
                await call(peer).workspace.session(SessionId(session_id))


async def test_a_peer_joins_a_container_by_working_with_it() -> None:
    async with open_desk() as desk:
        assert desk.peer.joined() == frozenset()
        desk.peer.join(ContainerId("c1"))
        desk.peer.listen(ContainerId("c2"), SessionId("sess_1"))
        assert desk.peer.joined() == {"c1", "c2"}


@pytest.mark.parametrize("permission", ["images:read", "agent:use", "images:write"])
async def test_who_may_not_read_sessions_hears_none_whatever_they_ask_for(permission: str) -> None:
    async with open_desk() as desk:
        made = await desk.create_image()
        one = Principal(tenant_id=DEFAULT_TENANT, permissions=frozenset({permission}))
        deaf = Desk(desk.vm, desk.vm.attach(one))
        for command, about in (
            ("image_list", {"containerId": "c1"}),
            ("image_get", {"imageId": made["imageId"]}),
            ("image_run", {"imageId": made["imageId"]}),
            ("image_create", {"containerId": "c1"}),
            ("session_create", {"imageId": made["imageId"]}),
            ("session_set_title", {"sessionId": made["sessionId"], "title": "t"}),
            ("session_release", {"sessionId": made["sessionId"]}),
            ("session_resume", {"sessionId": made["sessionId"]}),
            ("message_send", {"imageId": made["imageId"], "content": "mine"}),
        ):
            reply = await deaf.ask(command, **about)
            assert not reply.get("__subscriptions")
        assert desk.vm.runtime.broadcaster.subscriptions(deaf.peer.channel) == ()
        await desk.ask("message_send", imageId=made["imageId"], content="a secret")
        await desk.hear("turn_response")
        assert "a secret" not in str(deaf.hear_nowait())
        assert desk.vm.runtime.broadcaster.subscriptions(deaf.peer.channel) == ()


async def test_who_may_read_sessions_hears_what_they_ask_for() -> None:
    async with open_desk() as desk:
        made = await desk.create_image()
        one = Principal(tenant_id=DEFAULT_TENANT, permissions=frozenset({"images:read", "sessions:read"}))
        reader = Desk(desk.vm, desk.vm.attach(one))
        await reader.ask("image_list", containerId="c1")
        await desk.ask("message_send", imageId=made["imageId"], content="for all")
        assert "for all" in str(await reader.hear("turn_response"))
