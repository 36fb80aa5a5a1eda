from io import BytesIO

import pytest
from tests.operations.fixtures import open_desk

from agentvm.errors import ContainerForbidden, InvalidInput
from agentvm.errors.attachment import AttachmentNotFound
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.sessions.attachments import AttachmentLibrary
from agentvm.storage.attachments import Upload

TEXT = Upload(media_type="text/plain")


async def test_a_request_without_a_container_means_the_only_one() -> None:
    async with open_desk() as desk:
        library = AttachmentLibrary(desk.peer.workspace)
        with pytest.raises(InvalidInput):
            await library.container_id(None)
        await desk.ask("container_create", containerId="c1")
        assert await library.container_id(None) == "c1"
        await desk.ask("container_create", containerId="c2")
        with pytest.raises(InvalidInput):
            await library.container_id(None)
        assert await library.container_id("c2") == "c2"
        bound = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING, containers=("mine",))
        own = AttachmentLibrary(desk.vm.workspace(bound))
        assert await own.container_id(None) == "mine"
        with pytest.raises(ContainerForbidden):
            await own.container_id("c1")


async def test_a_file_is_stored_once_and_deleted_once() -> None:
    async with open_desk() as desk:
        await desk.ask("container_create", containerId="c1")
        library, container_id = AttachmentLibrary(desk.peer.workspace), ContainerId("c1")
        attachment, is_new = await library.add(container_id, BytesIO(b"a"), TEXT)
        assert is_new
        assert await library.add(container_id, BytesIO(b"a"), TEXT) == (attachment, False)
        for name in (attachment.reference, attachment.digest, attachment.digest.removeprefix("sha256:")):
            assert await library.find(container_id, name) == attachment
        await library.delete(container_id, attachment)
        with pytest.raises(AttachmentNotFound):
            await library.delete(container_id, attachment)
        with pytest.raises(AttachmentNotFound):
            await library.find(container_id, attachment.reference)
