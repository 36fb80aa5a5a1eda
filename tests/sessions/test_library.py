from tests.operations.fixtures import open_desk

from agentvm.model.limits import Limits
from agentvm.model.session import SEARCH_MAX
from agentvm.sessions.library import DEVICE_MAX


async def test_sessions_are_browsed_searched_and_read_by_page() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        await desk.ask("message_send", imageId=image["imageId"], content="明天上海天气")
        await desk.hear("turn_response")
        page = await desk.ask("session_browse", containerId="c1")
        assert page["total"] == 1
        (listed,) = page["sessions"]
        assert (listed["sessionId"], listed["unread"]) == (image["sessionId"], 1)
        found = (await desk.ask("session_search", q="上海"))["found"]
        assert "<mark>上海</mark>" in found[0]["snippet"]
        history = await desk.ask("session_history", sessionId=image["sessionId"], order="newest", limit=1)
        assert (len(history["messages"]), history["total"]) == (1, 2)
        marked = await desk.ask("session_mark_read", sessionId=image["sessionId"], cursor=listed["cursor"])
        assert (marked["sessionId"], marked["unread"]) == (image["sessionId"], 0)
        assert marked["session"]["sessionId"] == image["sessionId"]


async def test_a_search_finds_titles_too() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        await desk.ask("session_set_title", sessionId=image["sessionId"], title="Trip to Shanghai")
        found = await desk.ask("session_search", q="shanghai")
        assert (found["found"], found["total"]) == ([], 0)
        (title,) = found["titles"]
        assert (title["sessionId"], title["snippet"]) == (image["sessionId"], "Trip to <mark>Shanghai</mark>")


async def test_other_devices_hear_what_is_done_with_a_session() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        session_id = (await desk.ask("session_create", imageId=image["imageId"]))["session"]["sessionId"]
        other = desk.another()
        await other.ask("image_list", containerId="c1")
        other.forget()
        assert (await desk.ask("session_pin", sessionId=session_id))["session"]["pinnedAt"]
        assert (await desk.ask("session_archive", sessionId=session_id))["session"]["archivedAt"]
        await desk.ask("session_mark_read", sessionId=session_id)
        deleted = await desk.ask("session_delete", sessionId=session_id)
        await desk.ask("session_restore", sessionId=session_id)
        heard = [event for event in other.hear_nowait() if event["type"].startswith("session_")]
        kinds = ["session_updated", "session_updated", "session_read", "session_deleted", "session_restored"]
        assert [event["type"] for event in heard] == kinds
        told = heard[3]["data"]
        assert told["restorableUntil"] == deleted["restorableUntil"] == told["deletedAt"] + int(Limits().undo_seconds * 1000)


async def test_deleting_a_session_ends_its_agent() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        session_id = (await desk.ask("session_create", imageId=image["imageId"]))["session"]["sessionId"]
        agent_id = (await desk.ask("session_resume", sessionId=session_id))["agentId"]
        await desk.ask("session_delete", sessionId=session_id)
        assert (await desk.ask("agent_get", agentId=agent_id))["exists"] is False
        assert (await desk.ask("session_resume", sessionId=session_id))["errorCode"] == "session_not_found"


async def test_a_conversation_that_is_deleted_takes_its_image_along_and_brings_it_back() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        await desk.ask("message_send", imageId=image["imageId"], content="hi")
        await desk.hear("turn_response")
        other = desk.another()
        await other.ask("image_list", containerId="c1")
        other.forget()
        await desk.ask("session_delete", sessionId=image["sessionId"])
        assert (await desk.ask("image_list", containerId="c1"))["records"] == []
        assert (await desk.ask("session_browse", containerId="c1"))["total"] == 0
        for command, data in (("image_run", {}), ("message_send", {"content": "hi"}), ("session_create", {})):
            assert (await desk.ask(command, imageId=image["imageId"], **data))["errorCode"] == "image_not_found"
        await desk.ask("session_restore", sessionId=image["sessionId"])
        (back,) = (await desk.ask("image_list", containerId="c1"))["records"]
        assert (back["imageId"], back["sessionId"]) == (image["imageId"], image["sessionId"])
        assert len((await desk.ask("image_messages", imageId=image["imageId"]))["messages"]) == 2
        told = [event["type"] for event in other.hear_nowait() if event["type"].startswith(("session_", "image_"))]
        assert told == ["session_destroyed", "session_deleted", "image_deleted", "image_created", "session_restored"]
        await desk.ask("session_restore", sessionId=image["sessionId"])
        other.hear_nowait()
        assert other.types().count("session_restored") == 1


async def test_what_is_too_long_or_contradicts_itself_is_refused() -> None:
    async with open_desk() as desk:
        session_id = (await desk.create_image())["sessionId"]
        for command, data in (
            ("session_search", {"q": "x" * (SEARCH_MAX + 1)}),
            ("session_browse", {"device": "x" * (DEVICE_MAX + 1)}),
            ("session_mark_read", {"sessionId": session_id, "cursor": "a", "messageId": "b"}),
            ("session_browse", {"cursor": "?"}),
        ):
            assert (await desk.ask(command, **data))["errorCode"] == "invalid_input", command
