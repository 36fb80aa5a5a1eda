"""Files of sessions with forks and rewinds, as people use them."""

import io

from tests.operations.fixtures import open_desk

from agentvm.model.ids import SessionId
from agentvm.sessions.session_files import SessionFileLibrary


async def test_an_upload_goes_with_the_message_before_it_and_a_fork_keeps_it() -> None:
    async with open_desk() as desk:
        await desk.ask("container_create", containerId="c1")
        image = await desk.create_image(name="Chat")
        session_id = SessionId(image["sessionId"])
        library = SessionFileLibrary(desk.peer.workspace)

        async def files(of: SessionId) -> dict[str, bytes]:
            listed = await library.list(of, "", "", 100)
            return {file.path: b"".join([chunk async for chunk in await library.read(of, file)]) for file in listed}

        await library.put(session_id, "first", io.BytesIO(b"1"), executable=False)
        sent = await desk.ask("message_send", imageId=image["imageId"], content="hello")
        await desk.hear("turn_response")
        await library.put(session_id, "second", io.BytesIO(b"2"), executable=True)
        told = [event["data"] for event in await desk.hear("file_written", times=2) if event["type"] == "file_written"]
        assert [(data["path"], data["size"]) for data in told] == [("first", 1), ("second", 1)]
        fork = (await desk.ask("session_fork", sessionId=session_id))["session"]["sessionId"]
        await desk.ask("session_rewind", sessionId=session_id, before=sent["messageId"])
        assert await files(session_id) == {"first": b"1"}
        assert await files(SessionId(fork)) == {"first": b"1", "second": b"2"}
