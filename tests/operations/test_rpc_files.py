from tests.support.rpc_client import open_rpc_client


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


async def test_a_path_that_leaves_the_folder_is_refused_and_names_no_place_of_the_server() -> None:
    async with open_rpc_client() as (_, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        for path in ("../x", "a/../../x", "/etc/passwd/../x"):
            code, text = await client.refused("os.write", imageId=image_id, path=path, content="x")
            assert code == -32602
            assert "/work" not in text
        assert (await client.refused("os.read", imageId=image_id, path="none.txt"))[0] == 404
        assert (await client.refused("os.list", imageId="img_none"))[0] == 404
