import os
import zipfile
from pathlib import Path

from tests.cli.desk import open_desk

BODY = b"\x00\xff" * 1_000


async def test_files_go_into_a_session_and_come_back(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await desk.server.agentx.containers.create("notes")
        image = await desk.server.agentx.images.create(container_id="notes")
        session, source, copy = image.session_id, tmp_path / "data $(x).bin", tmp_path / "copy"
        source.write_bytes(BODY)
        os.chmod(source, 0o755)
        assert await desk.ok("files", "put", session, str(source)) == "Wrote data $(x).bin: 2,000 bytes.\n"
        assert (await desk.record("files", "put", session, str(source), "deep/er/b"))["executable"] is True
        listed = await desk.ok("files", "list", session, "--under", "deep")
        assert "deep/er/b" in listed
        assert "data" not in listed
        assert "Wrote" in await desk.ok("files", "get", session, "data $(x).bin", "-o", str(copy))
        assert copy.read_bytes() == BODY
        assert (await desk.ok("files", "get", session, "data $(x).bin")).encode(errors="surrogateescape") == BODY
        archive = tmp_path / "files.zip"
        await desk.ok("files", "archive", session, "-o", str(archive))
        with zipfile.ZipFile(archive) as unpacked:
            assert unpacked.read("deep/er/b") == BODY
        assert "is deleted" in await desk.ok("files", "delete", session, "deep/er/b", "--yes")
        for output in ([], ["-o", str(tmp_path / "none")]):
            gone = await desk.avm("files", "get", session, "deep/er/b", *output)
            assert (gone.code, gone.out, "file_not_found" in gone.err) == (5, "", True)
        for path in ("..", "../x", "a/./b"):
            bad = await desk.avm("files", "delete", session, path, "--yes")
            assert bad.code != 0
        assert "data $(x).bin" in await desk.ok("files", "list", session)
