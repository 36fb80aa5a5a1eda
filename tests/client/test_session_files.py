from pathlib import Path

import pytest
from tests.cli.desk import open_desk

from agentvm.client.session_files import read, write
from agentvm.errors import Unauthenticated
from agentvm.errors.file import FileMissing
from agentvm.model.image import ImageConfig
from agentvm.model.secret import Secret


async def test_files_of_a_session_are_listed_read_written_and_deleted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("notes")
    async with open_desk() as desk:
        agentx, key, url = desk.server.agentx, Secret(desk.operator), desk.server.url
        image = await agentx.images.create(ImageConfig())
        session_id = image.session_id
        made = await write(url, session_id, "data/a.txt", tmp_path / "a.txt", key=key)
        assert (made.path, made.size) == ("data/a.txt", 5)
        await write(url, session_id, "run.sh", b"true", key=key, executable=True)
        assert await read(url, session_id, "data/a.txt", key=key) == b"notes"
        files, more = await agentx.files.list(session_id)
        assert ([file.path for file in files], more) == (["data/a.txt", "run.sh"], None)
        assert (await agentx.files.get(session_id, "run.sh")).executable
        await agentx.files.delete(session_id, "run.sh")
        assert [file.path for file in (await agentx.files.list(session_id, "data"))[0]] == ["data/a.txt"]
        with pytest.raises(FileMissing):
            await read(url, session_id, "run.sh", key=key)
        with pytest.raises(Unauthenticated):
            await read(url, session_id, "data/a.txt")
