from tests.operations.fixtures import open_desk


async def test_a_file_that_is_not_there_is_told_by_its_code() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        reply = await desk.ask("file_get", sessionId=image["sessionId"], path="nothing.txt")
        assert reply["errorCode"] == "file_not_found"
