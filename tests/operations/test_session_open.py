from typing import Any

from tests.operations.fixtures import ask_at_once, open_desk

from agentvm.drivers.scripted import ScriptedDriver


async def test_a_name_means_one_session_however_often_it_is_opened() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        opening: dict[str, Any] = {"imageId": image["imageId"], "gateway": "chat", "external": "t1"}
        first = await desk.ask("session_open", **opening)
        assert first["created"]
        again = await desk.ask("session_open", **opening)
        assert (again["created"], again["session"]["sessionId"]) == (False, first["session"]["sessionId"])
        assert (await desk.ask("session_open", **{**opening, "gateway": "other"}))["created"]
        unnamed = [await desk.ask("session_open", imageId=image["imageId"]) for _ in range(2)]
        assert len({reply["session"]["sessionId"] for reply in unnamed}) == 2


async def test_of_many_at_once_one_creates_the_session() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        opening: dict[str, object] = {"imageId": image["imageId"], "gateway": "chat", "external": "t1"}
        assert await ask_at_once([(desk.another(), "session_open", opening) for _ in range(8)]) == []
        sessions = await desk.ask("session_list", imageId=image["imageId"])
        assert len(sessions["sessions"]) == 2


async def test_a_session_begins_with_the_history_that_is_given_and_is_not_billed_for_it() -> None:
    async with open_desk(driver := ScriptedDriver()) as desk:
        image = await desk.create_image()
        seeds = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
        opened = await desk.ask("session_open", imageId=image["imageId"], messages=seeds, archived=True)
        await desk.ask("message_send", sessionId=opened["session"]["sessionId"], content="three")
        await desk.hear("turn_response")
        assert len(driver.prompts[-1].conversation) == 3
        assert opened["session"]["archivedAt"]


async def test_a_name_of_a_conversation_with_another_agent_is_refused() -> None:
    async with open_desk() as desk:
        first, other = await desk.create_image(), await desk.create_image()
        await desk.ask("session_open", imageId=first["imageId"], gateway="chat", external="t1")
        refused = await desk.ask("session_open", imageId=other["imageId"], gateway="chat", external="t1")
        assert refused["errorCode"] == "conflict"
        gone = await desk.ask("session_open", imageId="img_nobody", gateway="chat", external="t1")
        assert gone["errorCode"] == "image_not_found"


async def test_the_names_of_agents_are_for_the_server_alone() -> None:
    async with open_desk() as desk:
        image = await desk.create_image(systemPrompt="Mine")
        taken = await desk.ask("session_open", imageId=image["imageId"], gateway="agents", external="default")
        assert taken["errorCode"] == "invalid_input"
        assert (await desk.ask("image_open", agent="default"))["record"]["imageId"] != image["imageId"]
        assert (await desk.ask("image_get", imageId=image["imageId"]))["record"]["systemPrompt"] == "Mine"
