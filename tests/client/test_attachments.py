from pathlib import Path

import pytest
from tests.cli.desk import open_desk

from agentvm.client.attachments import upload
from agentvm.errors import ChannelClosed, ConfigInvalid, ContainerNotFound, Unauthenticated
from agentvm.model.secret import Secret


async def test_a_file_is_uploaded_to_the_server_that_is_spoken_to(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("notes")
    async with open_desk() as desk:
        agentx, key = desk.server.agentx, Secret(desk.operator)
        await agentx.containers.create("c")
        made = await upload(desk.server.url, tmp_path / "a.txt", media_type="text/plain", key=key, container_id="c")
        assert (made.size, made.name, made.media_type) == (5, "a.txt", "text/plain")
        socket = desk.server.url.replace("http://", "ws://") + "/ws" if desk.server.url.startswith("http") else desk.server.url
        again = await upload(socket, b"notes", media_type="text/plain", key=key, container_id="c", name="a.txt")
        assert again == made
        assert await agentx.attachments.list("c") == ((made,), None)
        with pytest.raises(ContainerNotFound):
            await upload(desk.server.url, b"x", media_type="text/plain", key=key, container_id="nowhere")
        with pytest.raises(Unauthenticated):
            await upload(desk.server.url, b"x", media_type="text/plain", container_id="c")


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(ChannelClosed, match=r"127\.0\.0\.1:1"):
        await upload("ws://127.0.0.1:1/ws", b"x", media_type="a/b")
    with pytest.raises(ConfigInvalid):
        await upload("ftp://x", b"x", media_type="a/b")
