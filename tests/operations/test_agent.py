import anyio
import pytest
from tests.operations.fixtures import open_desk

from agentvm.drivers.scripted import Pause, ScriptedDriver, reply

NEITHER = {"error": "Either imageId or agentId must be provided", "errorCode": "invalid_input"}


def held() -> ScriptedDriver:
    return ScriptedDriver(lambda prompt: [*reply("partial")[:3], Pause(anyio.Event())])


async def test_an_agent_is_got_and_listed_while_it_runs() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        agent_id = (await desk.ask("image_run", imageId=image["imageId"]))["agentId"]
        record = {
            "agentId": agent_id,
            "containerId": "c1",
            "imageId": image["imageId"],
            "sessionId": image["sessionId"],
            "state": "idle",
            "queued": 0,
        }
        assert await desk.ask("agent_get", agentId=agent_id) == {"exists": True, **record}
        assert await desk.ask("agent_get", agentId="nope") == {"exists": False}
        assert await desk.ask("agent_list", containerId="c1") == {"agents": [record]}
        assert await desk.ask("agent_list", containerId="nobody") == {"agents": []}
        stranger = desk.another("other")
        assert await stranger.ask("agent_get", agentId=agent_id) == {"exists": False}
        assert await stranger.ask("agent_list", containerId="c1") == {"agents": []}
        assert await stranger.ask("agent_destroy", agentId=agent_id) == {"agentId": agent_id, "success": False}


async def test_an_agent_is_destroyed_once() -> None:
    async with open_desk() as desk:
        agent_id = (await desk.ask("image_run", imageId=(await desk.create_image())["imageId"]))["agentId"]
        desk.forget()
        assert await desk.ask("agent_destroy", agentId=agent_id) == {"agentId": agent_id, "success": True}
        assert desk.types() == ["session_destroyed", "agent_unregistered", "agent_destroy_response"]
        assert await desk.ask("agent_destroy", agentId=agent_id) == {"agentId": agent_id, "success": False}


async def test_all_agents_of_a_container_are_destroyed_and_no_others() -> None:
    async with open_desk() as desk:
        for container_id in ("c1", "c1", "c2"):
            await desk.ask("image_run", imageId=(await desk.create_image(container_id))["imageId"])
        assert await desk.ask("agent_destroy_all", containerId="c1") == {"containerId": "c1"}
        assert await desk.ask("agent_list", containerId="c1") == {"agents": []}
        assert len((await desk.ask("agent_list", containerId="c2"))["agents"]) == 1
        assert await desk.ask("agent_destroy_all", containerId="nobody") == {"containerId": "nobody"}


@pytest.mark.parametrize("by", ["imageId", "agentId"])
async def test_an_interrupt_is_told_then_answered_then_the_turn_ends(by: str) -> None:
    async with open_desk(held()) as desk:
        image_id = (await desk.create_image())["imageId"]
        agent_id = (await desk.ask("message_send", imageId=image_id, content="hi"))["agentId"]
        await desk.hear("text_delta")
        named = {"imageId": image_id} if by == "imageId" else {"agentId": agent_id}
        reply_data = await desk.ask("agent_interrupt", **named)
        assert reply_data == {"imageId": image_id, "agentId": agent_id}
        await desk.hear("turn_response")
        types = desk.types()
        assert types[types.index("interrupted") :] == [
            "interrupted", "agent_interrupt_response",
            "message_stop", "assistant_message", "conversation_end", "turn_response",
        ]  # fmt: skip


async def test_an_interrupt_of_what_does_not_run_is_a_success_without_an_agent() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        assert await desk.ask("agent_interrupt", imageId=image_id) == {"imageId": image_id}
        assert await desk.ask("agent_interrupt", imageId="nope") == {"imageId": "nope"}
        assert "interrupted" not in desk.types()


async def test_an_interrupt_of_an_idle_agent_is_told_and_nothing_follows() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        await desk.ask("image_run", imageId=image_id)
        desk.forget()
        await desk.ask("agent_interrupt", imageId=image_id)
        await anyio.wait_all_tasks_blocked()
        desk.hear_nowait()
        assert desk.types() == ["interrupted", "agent_interrupt_response"]


async def test_an_interrupt_of_nobody_or_of_an_unknown_agent_is_refused_in_the_words_of_1x() -> None:
    async with open_desk() as desk:
        assert await desk.ask("agent_interrupt") == NEITHER
        unknown = {"agentId": "nope", "error": "Agent not found: nope", "errorCode": "agent_not_found"}
        assert await desk.ask("agent_interrupt", agentId="nope") == unknown


async def test_one_session_of_an_image_is_interrupted_not_another_images() -> None:
    async with open_desk(held()) as desk:
        image, other = await desk.create_image(), await desk.create_image()
        await desk.ask("message_send", imageId=image["imageId"], content="hi")
        await desk.hear("text_delta")
        wrong = await desk.ask("agent_interrupt", imageId=other["imageId"], sessionId=image["sessionId"])
        assert wrong == {"imageId": other["imageId"]}
        right = await desk.ask("agent_interrupt", imageId=image["imageId"], sessionId=image["sessionId"])
        assert "agentId" in right
        await desk.hear("turn_response")
