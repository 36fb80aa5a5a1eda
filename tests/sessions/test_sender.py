import pytest
from tests.operations.fixtures import open_desk

from agentvm.errors import QuotaExceeded, ShuttingDown
from agentvm.model.account import Quota
from agentvm.model.ids import ImageId
from agentvm.model.limits import Limits
from agentvm.operations.context import context_of
from agentvm.runtime.history import Rewrite


async def nobody_is_in_the_way() -> None:
    pass


async def test_what_is_said_under_one_key_is_said_once_and_released_once() -> None:
    async with open_desk() as desk:
        call = context_of(desk.peer)
        _, image = await call.workspace.image(ImageId((await desk.create_image())["imageId"]))
        agent, _ = desk.vm.runtime.start_agent(desk.peer.tenant_id, image, image.session_id)
        desk.peer.listen(image.container_id, image.session_id)
        first = await call.sender.send(agent, "hi", client_key="k")
        again = await call.sender.send(agent, "hi", client_key="k")
        assert (again.message_id, again.turn_id, again.cursor) == (first.message_id, first.turn_id, None)
        assert first.cursor is not None
        again.release()
        assert agent.busy
        first.release()
        await desk.hear("turn_response")
        assert desk.types().count("turn_request") == 1


async def test_to_rewrite_without_saying_anything_is_not_speaking() -> None:
    async with open_desk() as desk:
        call = context_of(desk.peer)
        _, image = await call.workspace.image(ImageId((await desk.create_image())["imageId"]))
        agent, _ = desk.vm.runtime.start_agent(desk.peer.tenant_id, image, image.session_id)
        with pytest.raises(ValueError, match="without a message"):
            await call.sender.rewrite(agent, lambda history: Rewrite(()), 0, None, nobody_is_in_the_way)


async def test_a_server_that_stops_takes_nothing() -> None:
    async with open_desk() as desk:
        await desk.vm.runtime.drain(grace=0)
        with pytest.raises(ShuttingDown):
            context_of(desk.peer).sender.check_accepting()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("x" * 2_001, "limits.messageBytes"),
        ("é" * 1_001, "limits.messageBytes"),
        ([{"type": "text", "text": "x" * 1_500}, {"type": "text", "text": "x" * 1_500}], "limits.messageBytes"),
        ([{"type": "image", "data": "A" * 3_001, "mediaType": "image/png"}], "limits.inlineBytes"),
        ([{"type": "file", "data": "A" * 2_000, "mediaType": "text/csv"}] * 2, "limits.inlineBytes"),
    ],
)
async def test_a_message_has_a_bound_and_the_refusal_names_it_and_the_remedy(content: object, named: str) -> None:
    async with open_desk(limits=Limits(message_bytes=2_000, inline_bytes=3_000)) as desk:
        image_id = (await desk.create_image())["imageId"]
        refused = await desk.ask("message_send", imageId=image_id, content=content)
        assert refused["errorCode"] == "input_too_large"
        assert named in refused["error"]
        assert "/v1/attachments" in refused["error"]
        sent = await desk.ask("message_send", imageId=image_id, content="fits")
        refused = await desk.ask(
            "message_edit", sessionId=sent["sessionId"], messageId=sent["messageId"], content=content, onBusy="interrupt"
        )
        assert refused["errorCode"] == "input_too_large"


async def test_what_cannot_be_answered_is_refused_before_it_is_stored() -> None:
    async with open_desk() as desk:
        call = context_of(desk.peer)
        _, image = await call.workspace.image(ImageId((await desk.create_image())["imageId"]))
        agent, _ = desk.vm.runtime.start_agent(desk.peer.tenant_id, image, image.session_id)
        quotas = desk.vm.tenancy.store.accounts(desk.peer.tenant_id).quotas
        await quotas.put(Quota(metric="tokens_per_day", hard=300), 1)
        await desk.vm.tenancy.quotas.reread(desk.peer.tenant_id)
        with pytest.raises(QuotaExceeded, match=r"Daily token limit: 300 of 300 left .* at least 356"):
            await call.sender.send(agent, "x" * 100)
        assert not agent.busy
        assert await desk.vm.tenancy.store.list_unfinished() == ()
