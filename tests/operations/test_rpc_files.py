from tests.support.rpc_client import open_rpc_client

from agentvm.operations.context import Context
from agentvm.operations.rpc_files import READ_MAX_BYTES, write_file
from agentvm.vm import OPEN_ACCESS


async def test_files_are_written_listed_one_folder_at_a_time_and_read() -> None:
    async with open_rpc_client() as (_, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        assert await client.ask("os.list", imageId=image_id) == {"files": []}
        assert await client.ask("os.write", imageId=image_id, path="./a/b.txt", content="Grüße") == {"success": True}
        root = (await client.ask("os.list", imageId=image_id, path="."))["files"]
        assert root == [{"name": "a", "path": "a", "type": "directory"}]
        inner = (await client.ask("os.list", imageId=image_id, path="a"))["files"]
        assert inner == [{"name": "b.txt", "path": "a/b.txt", "type": "file"}]
        assert await client.ask("os.read", imageId=image_id, path="a/b.txt") == {"content": "Grüße"}
        run = await client.ask("image.run", imageId=image_id)
        assert (await client.ask("os.list", imageId=run["instanceId"]))["files"] == root


async def test_a_file_that_is_too_large_for_a_frame_is_not_read() -> None:
    async with open_rpc_client() as (vm, client):
        session_id = (record := (await client.ask("image.create"))["record"])["sessionId"]
        context = Context(vm=vm, workspace=vm.workspace(OPEN_ACCESS))
        await write_file(context, session_id, "small.txt", "x" * READ_MAX_BYTES)
        await write_file(context, session_id, "large.txt", "x" * (READ_MAX_BYTES + 1))
        assert len((await client.ask("os.read", imageId=record["imageId"], path="small.txt"))["content"]) == READ_MAX_BYTES
        code, text = await client.refused("os.read", imageId=record["imageId"], path="large.txt")
        assert (code, "over HTTP" in text) == (-32602, True)


async def test_a_path_that_leaves_the_folder_is_refused_and_names_no_place_of_the_server() -> None:
    async with open_rpc_client() as (_, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        for path in ("../x", "a/../../x", "/etc/passwd/../x"):
            code, text = await client.refused("os.write", imageId=image_id, path=path, content="x")
            assert code == -32602
            assert "/work" not in text
        assert (await client.refused("os.read", imageId=image_id, path="none.txt"))[0] == 404
        assert (await client.refused("os.list", imageId="img_none"))[0] == 404
