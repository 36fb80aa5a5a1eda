import base64

import pytest
from tests.support.serving import serving

from agentvm.errors.attachment import AttachmentTooLarge
from agentvm.gateways.talk import Talk
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.model.limits import Limits
from agentvm.model.message import FilePart, ImagePart, TextPart
from agentvm.model.principal import EVERYTHING, Principal

HOME = ContainerId("c1")


async def test_files_inside_a_message_become_attachments_and_references_stay() -> None:
    async with serving(limits=Limits(attachment_bytes=1_000)) as served:
        talk = Talk(vm=served.running.server.vm, principal=Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING))
        image = await talk.agent("default", HOME)
        session = await talk.open(image.image_id, None)
        picture = ImagePart(data=base64.b64encode(b"picture").decode(), media_type="image/png")
        there = ImagePart(data="https://example.com/x.png", media_type="image/*")
        sent = await talk.send(session.session_id, (TextPart(text="see"), picture, there), key="k")
        again = await talk.send(session.session_id, (TextPart(text="see"), picture, there), key="k")
        assert again.turn_id == sent.turn_id
        log = talk.context().store.container(HOME).log(session.session_id)
        (message,) = await log.get_messages([sent.turn.message_id])
        stored = repr(message)
        assert "attachment:sha256:" in stored
        assert picture.data not in stored
        assert there.data in stored
        assert await talk.attach(HOME, "text") == "text"
        large = FilePart(data=base64.b64encode(b"x" * 1_001).decode(), media_type="text/plain", filename="x.txt")
        with pytest.raises(AttachmentTooLarge):
            await talk.attach(HOME, (large,))
