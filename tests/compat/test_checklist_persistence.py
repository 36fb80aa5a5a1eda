"""Checklist 47-51: what is stored, whoever listens."""

from pathlib import Path

import anyio
from tests.support.serving import Play, serving
from tests.support.wire import Client19, Json, client

TOOL_TURN = ["user", "tool-call", "assistant", "tool-result", "assistant"]


async def history(one: Client19, image_id: str, length: int) -> list[Json]:
    """The image's messages, once there are that many."""
    with anyio.fail_after(60):
        while True:
            messages: list[Json] = (await one.request("image_messages_request", imageId=image_id))["messages"]
            if len(messages) >= length:
                return messages


async def test_item_47_a_turn_that_nobody_listens_to_is_stored_whole_and_once() -> None:
    play = Play()
    async with serving(play) as server:
        async with client(server.url) as alice:
            image_id = (await alice.image())["imageId"]
            await alice.request("message_send_request", imageId=image_id, content="slow")
            await alice.request("message_send_request", imageId=image_id, content="tool please")
        play.gate.set()
        async with client(server.url) as bob:
            messages = await history(bob, image_id, 7)
            # The second message was stored when it was sent, while the first turn still ran.
            subtypes = sorted(message["subtype"] for message in messages)
            assert subtypes == sorted(["user", "assistant", *TOOL_TURN])
            assert len({message["id"] for message in messages}) == 7


async def test_item_48_three_listeners_do_not_store_three_times() -> None:
    async with serving(Play()) as server, client(server.url) as alice, client(server.url) as bob, client(server.url) as eve:
        image_id = (await alice.image())["imageId"]
        for other in (bob, eve):
            await other.request("image_get_request", imageId=image_id)
        end = await alice.say(image_id, "tool please")
        for other in (bob, eve):
            await other.end_of(end["data"]["turnId"])
        messages = await history(alice, image_id, 5)
        assert [message["subtype"] for message in messages] == TOOL_TURN
        assert len({message["id"] for message in messages}) == 5


async def test_item_49_an_instant_tool_turn_loses_nothing() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        for _ in range(10):
            await alice.say(image_id, "tool please")
        messages = await history(alice, image_id, 50)
        assert [message["subtype"] for message in messages] == TOOL_TURN * 10


async def test_item_49_a_tool_call_without_words_has_a_parent_in_the_history() -> None:
    # Q22: otherwise the user interface cannot show the call when it reloads.
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, "mute")
        messages = await history(alice, image_id, 5)
        call = next(message for message in messages if message["subtype"] == "tool-call")
        parent = next(message for message in messages if message["id"] == call["parentId"])
        assert (parent["subtype"], parent["content"]) == ("assistant", [])
        live = [event["data"]["id"] for event in alice.events if event["type"] == "assistant_message"]
        assert parent["id"] not in live


async def test_item_50_after_a_restart_everything_is_there_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async with serving(data_dir=tmp_path) as server, client(server.url) as alice:
        record = await alice.image(name="Chat", systemPrompt="be nice")
        image_id = record["imageId"]
        await alice.say(image_id, "my name is Ada")
        before = await history(alice, image_id, 2)
        old = (await alice.wait("agent_registered"))["data"]["agentId"]
    async with serving(data_dir=tmp_path) as server, client(server.url) as alice:
        listed = (await alice.request("image_list_request", containerId="c1"))["records"]
        assert [(one["imageId"], one["name"], one["online"]) for one in listed] == [(image_id, "Chat", False)]
        assert await history(alice, image_id, 2) == before
        end = await alice.say(image_id, "what is my name")
        assert end["context"]["agentId"] != old
        prompt = server.model.prompts[0]
        assert prompt.system == "be nice"
        assert [getattr(said, "content", None) or getattr(said, "text", None) for said in prompt.conversation] == [
            "my name is Ada",
            "my name is Ada",
            "what is my name",
        ]


async def test_item_51_a_cold_image_that_is_started_twice_at_once_has_one_agent() -> None:
    async with serving() as server, client(server.url) as owner:
        image_id = (await owner.image())["imageId"]
        agents: list[str] = []

        async def start(number: int) -> None:
            async with client(server.url) as one:
                if number % 2:
                    answer = await one.request("image_run_request", imageId=image_id)
                else:
                    answer = await one.request("message_send_request", imageId=image_id, content="hi")
                agents.append(answer["agentId"])

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(start, number)
        assert len(agents) == 10
        assert len(set(agents)) == 1
        assert len((await owner.request("agent_list_request", containerId="c1"))["agents"]) == 1
