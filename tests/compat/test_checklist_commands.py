"""Checklist 21-38: the shape of each command's answer, and the events it brings."""

from pathlib import Path
from typing import Any

import anyio
from tests.support.replay import ADDITIVE
from tests.support.serving import Play, serving
from tests.support.wire import WAIT, Client19, Json, client

RECORD = {"imageId", "containerId", "sessionId", "name", "createdAt", "updatedAt", "online"}


def without(data: Json, *more: str) -> Json:
    """A response's data without its request id."""
    return {key: value for key, value in data.items() if key not in ("requestId", *more)}


async def test_item_21_creating_a_container_twice_is_creating_it_once() -> None:
    async with serving() as server, client(server.url) as alice:
        for _ in range(2):
            assert without(await alice.request("container_create_request", containerId="c1")) == {"containerId": "c1"}
        assert alice.types == ["server_hello", "container_created", "container_create_response", "container_create_response"]
        created = alice.events[1]
        assert created["data"]["containerId"] == "c1"
        assert type(created["data"]["createdAt"]) is int
        assert created["context"] == {"containerId": "c1"}


async def test_item_22_a_container_exists_or_not() -> None:
    async with serving() as server, client(server.url) as alice:
        assert without(await alice.request("container_get_request", containerId="c1")) == {"exists": False}
        await alice.request("container_create_request", containerId="c1")
        assert without(await alice.request("container_get_request", containerId="c1")) == {"exists": True, "containerId": "c1"}


async def test_item_23_persisted_containers_are_listed_after_a_restart(tmp_path: Path) -> None:
    async with serving(data_dir=tmp_path) as server, client(server.url) as alice:
        await alice.request("container_create_request", containerId="c1")
        await alice.image("c2")
    async with serving(data_dir=tmp_path) as server, client(server.url) as alice:
        assert sorted((await alice.request("container_list_request"))["containerIds"]) == ["c1", "c2"]
        assert (await alice.request("container_get_request", containerId="c1"))["exists"] is True


async def test_item_24_agents_are_shown_while_they_run() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        assert without(await alice.request("agent_get_request", agentId="nope")) == {"exists": False}
        assert without(await alice.request("agent_list_request", containerId="c1")) == {"agents": []}
        assert without(await alice.request("agent_list_request", containerId="unknown")) == {"agents": []}
        agent_id = (await alice.request("image_run_request", imageId=image_id))["agentId"]
        more = ("imageId", "sessionId", "state", "queued")
        got = without(await alice.request("agent_get_request", agentId=agent_id), *more)
        assert got == {"exists": True, "agentId": agent_id, "containerId": "c1"}
        listed = (await alice.request("agent_list_request", containerId="c1"))["agents"]
        assert [without(agent, "sessionId", "state", "queued") for agent in listed] == [
            {"agentId": agent_id, "containerId": "c1", "imageId": image_id}
        ]


async def test_item_25_destroying_an_agent_says_whether_there_was_one() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        agent_id = (await alice.request("image_run_request", imageId=image_id))["agentId"]
        mark = len(alice.events)
        destroyed = without(await alice.request("agent_destroy_request", agentId=agent_id))
        assert destroyed == {"agentId": agent_id, "success": True}
        assert alice.types[mark:] == ["session_destroyed", "agent_unregistered", "agent_destroy_response"]
        for unknown in (agent_id, "nope"):
            again = without(await alice.request("agent_destroy_request", agentId=unknown))
            assert again == {"agentId": unknown, "success": False}
        # Q14: the image forgets its agent.
        assert without(await alice.request("agent_interrupt_request", imageId=image_id)) == {"imageId": image_id}


async def test_item_26_destroying_all_agents_of_an_unknown_container_succeeds() -> None:
    async with serving() as server, client(server.url) as alice:
        assert without(await alice.request("agent_destroy_all_request", containerId="nope")) == {"containerId": "nope"}
        for _ in range(2):
            await alice.request("image_run_request", imageId=(await alice.image())["imageId"])
        mark = len(alice.events)
        assert without(await alice.request("agent_destroy_all_request", containerId="c1")) == {"containerId": "c1"}
        pair = ["session_destroyed", "agent_unregistered"]
        assert alice.types[mark:] == [*pair, *pair, "agent_destroy_all_response"]


async def test_item_27_a_message_to_a_cold_image_starts_its_agent_and_is_stored_before_it_is_answered() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image(name="Chat"))["imageId"]
        mark = len(alice.events)
        sent = await alice.request("message_send_request", imageId=image_id, content="hello")
        assert alice.since(mark, additive=ADDITIVE)[:3] == ["agent_registered", "message_persisted", "message_send_response"]
        registered = await alice.wait("agent_registered")
        assert registered["data"]["agentId"] == sent["agentId"]
        assert registered["data"]["definitionName"] == "Chat"
        assert registered["context"] == {"containerId": "c1", "agentId": sent["agentId"]}
        assert sent["imageId"] == image_id
        await alice.end_of(sent["turnId"])


async def test_item_28_a_message_by_agent_id_works_and_wrong_ids_give_the_exact_errors() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        agent_id = (await alice.request("image_run_request", imageId=image_id))["agentId"]
        sent = await alice.request("message_send_request", agentId=agent_id, content="hello")
        assert (sent["agentId"], sent["imageId"]) == (agent_id, image_id)
        await alice.end_of(sent["turnId"])

        async def refused(**data: Any) -> Json:
            return without(await alice.request("message_send_request", content="hi", **data), "errorCode")

        assert await refused(imageId="nope") == {"imageId": "nope", "agentId": "", "error": "Image not found: nope"}
        assert await refused(agentId="nope") == {"agentId": "nope", "error": "Agent not found: nope"}
        assert await refused() == {"agentId": "", "error": "Either imageId or agentId must be provided"}


async def test_item_29_messages_sent_during_a_turn_are_accepted_and_run_afterwards_in_order() -> None:
    play = Play()
    async with serving(play) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        turns = []
        for content in ("slow one", "second", "third"):
            sent = await alice.request("message_send_request", imageId=image_id, content=content)
            assert "error" not in sent
            turns.append(sent["turnId"])
        await alice.wait("text_delta", 2)
        play.gate.set()
        await alice.end_of(turns[-1])
        ends = [event["data"]["turnId"] for event in alice.events if event["type"] == "turn_response"]
        assert ends == turns
        said = [event["data"]["content"][0]["text"] for event in alice.events if event["type"] == "assistant_message"]
        assert said == ["w0 w1 w2 ", "second", "third"]
        # Each turn saw what came before it, and nothing of what was queued behind it.
        assert [len(prompt.conversation) for prompt in server.model.prompts] == [1, 3, 5]


async def test_item_30_interrupting_an_offline_image_succeeds_and_an_idle_one_ends_nothing() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        for offline in (image_id, "nope"):
            assert without(await alice.request("agent_interrupt_request", imageId=offline)) == {"imageId": offline}
        agent_id = (await alice.request("image_run_request", imageId=image_id))["agentId"]
        for by in ({"imageId": image_id}, {"agentId": agent_id}):
            mark = len(alice.events)
            answer = without(await alice.request("agent_interrupt_request", **by))
            assert answer == {"imageId": image_id, "agentId": agent_id}
            await alice.settle()
            assert alice.types[mark:] == ["interrupted", "agent_interrupt_response", "container_list_response"]
        unknown = await alice.request("agent_interrupt_request", agentId="nope")
        assert (unknown["agentId"], unknown["error"]) == ("nope", "Agent not found: nope")
        assert (await alice.request("agent_interrupt_request"))["error"] == "Either imageId or agentId must be provided"


async def test_item_30_interrupting_a_running_turn_is_told_before_the_answer_and_the_end_after_it() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        sent = await alice.request("message_send_request", imageId=image_id, content="slow")
        await alice.wait("text_delta", 2)
        mark = len(alice.events)
        await alice.request("agent_interrupt_request", imageId=image_id)
        await alice.end_of(sent["turnId"])
        assert alice.since(mark, additive=ADDITIVE) == [
            *("interrupted", "agent_interrupt_response"),
            *("message_stop", "assistant_message", "conversation_end"),
        ]
        with anyio.fail_after(WAIT):
            # The provider of the edge sees its socket close in another process: there is no event to wait for.
            while server.model.closed_early == 0:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        assert server.model.closed_early == 1


async def test_item_31_creating_an_image_fills_in_what_is_missing() -> None:
    async with serving() as server, client(server.url) as alice:
        full = await alice.request(
            "image_create_request",
            containerId="c1",
            config={"name": "Chat", "description": "d", "systemPrompt": "be nice", "mcpServers": {}},
        )
        assert full["record"].keys() >= RECORD | {"description", "systemPrompt"}
        assert (full["record"]["name"], full["record"]["description"]) == ("Chat", "d")
        assert full["record"]["systemPrompt"] == "be nice"
        sparse: tuple[Json, ...] = ({"config": {}}, {}, {"config": None}, {"config": {"name": None}})
        for config in sparse:
            record = (await alice.request("image_create_request", containerId="c1", **config))["record"]
            assert record["name"] == "New Conversation"
            assert record["online"] is False
            assert record["createdAt"] == record["updatedAt"]
            assert not {"description", "systemPrompt", "agentId"} & record.keys()


async def test_item_32_running_an_image_twice_finds_its_agent_again() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        first = without(await alice.request("image_run_request", imageId=image_id), "sessionId")
        assert first == {"imageId": image_id, "agentId": first["agentId"], "reused": False}
        second = without(await alice.request("image_run_request", imageId=image_id), "sessionId")
        assert second == {"imageId": image_id, "agentId": first["agentId"], "reused": True}
        assert alice.types.count("agent_registered") == 1
        got = (await alice.request("image_get_request", imageId=image_id))["record"]
        assert (got["online"], got["agentId"]) == (True, first["agentId"])
        unknown = without(await alice.request("image_run_request", imageId="nope"), "errorCode")
        assert unknown == {"imageId": "nope", "agentId": "", "reused": False, "error": "Image not found: nope"}


async def test_item_33_stopping_an_image_keeps_it_and_stopping_again_is_nothing() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, "hello")
        mark = len(alice.events)
        for _ in range(2):
            assert without(await alice.request("image_stop_request", imageId=image_id)) == {"imageId": image_id}
        assert alice.types[mark:] == [
            *("session_destroyed", "agent_unregistered", "image_stop_response"),
            "image_stop_response",
        ]
        got = (await alice.request("image_get_request", imageId=image_id))["record"]
        assert got["online"] is False
        assert "agentId" not in got
        assert len((await alice.request("image_messages_request", imageId=image_id))["messages"]) == 2
        unknown = without(await alice.request("image_stop_request", imageId="nope"), "errorCode")
        assert unknown == {"imageId": "nope", "error": "Image not found: nope"}


async def test_item_34_what_1x_sends_updates_only_name_and_description() -> None:
    async with serving() as server, client(server.url) as alice:
        record = await alice.image(name="Old", systemPrompt="be nice")

        async def update(**updates: Any) -> Json:
            answer = await alice.request("image_update_request", imageId=record["imageId"], updates=updates)
            changed: Json = answer["record"]
            return changed

        changed = await update(name="New", description="d", sessionId="x", containerId="y", createdAt=1, online=True)
        assert {key for key in changed if changed[key] != record.get(key)} <= {"name", "description", "updatedAt"}
        assert (changed["name"], changed["description"], changed["systemPrompt"]) == ("New", "d", "be nice")
        assert changed["updatedAt"] >= record["updatedAt"]
        assert (await update(name=None))["name"] == "New"
        assert (await update())["description"] == "d"
        assert (await update(name=""))["name"] == ""
        unknown = await alice.request("image_update_request", imageId="nope", updates={"name": "x"})
        assert unknown["error"] == "Image not found: nope"


async def test_item_35_images_are_listed_newest_first_and_by_exact_container() -> None:
    async with serving() as server, client(server.url) as alice:
        made = {name: [await alice.image(name) for _ in range(2)] for name in ("a", "a:b", "a.b", "ab")}
        for name, images in made.items():
            records = (await alice.request("image_list_request", containerId=name))["records"]
            assert {record["imageId"] for record in records} == {image["imageId"] for image in images}
            assert all(record.keys() >= RECORD for record in records)
        everything = (await alice.request("image_list_request"))["records"]
        assert len(everything) == 8
        times = [record["createdAt"] for record in everything]
        assert times == sorted(times, reverse=True)
        assert (await alice.request("image_list_request", containerId="unknown"))["records"] == []


async def test_item_36_an_unknown_image_is_null_and_no_error() -> None:
    async with serving() as server, client(server.url) as alice:
        assert without(await alice.request("image_get_request", imageId="nope")) == {"record": None}
        assert "system_error" not in alice.types


async def test_item_37_deleting_an_image_removes_its_history_and_deleting_again_is_nothing() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, "hello")
        mark = len(alice.events)
        for _ in range(2):
            assert without(await alice.request("image_delete_request", imageId=image_id)) == {"imageId": image_id}
        assert alice.since(mark, additive=ADDITIVE) == [
            *("session_destroyed", "agent_unregistered", "image_delete_response"),
            "image_delete_response",
        ]
        assert (await alice.request("image_get_request", imageId=image_id))["record"] is None
        assert (await alice.request("image_messages_request", imageId=image_id))["error"]
        assert (await alice.request("image_list_request", containerId="c1"))["records"] == []


async def test_item_38_messages_are_whole_and_in_order_and_unknown_images_have_none() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, "hello")
        await alice.say(image_id, "tool please")
        await alice.say(image_id, "crash")
        history = (await alice.request("image_messages_request", imageId=image_id))["messages"]
        told = {event["data"]["id"]: event["data"] for event in messages_told(alice)}
        assert [told[message["id"]] for message in history] == history
        assert [message["timestamp"] for message in history if message["subtype"] == "user"] == sorted(
            message["timestamp"] for message in history if message["subtype"] == "user"
        )
        unknown = without(await alice.request("image_messages_request", imageId="nope"), "errorCode")
        assert unknown == {"imageId": "nope", "messages": [], "error": "Image not found: nope"}


async def test_item_38_a_history_of_several_mib_can_be_read_while_another_answer_streams() -> None:
    picture = {"type": "image", "data": "AAAA" * 256 * 1024, "mediaType": "image/png"}
    async with serving(Play()) as server, client(server.url) as alice, client(server.url) as bob:
        long, busy = (await alice.image())["imageId"], (await alice.image())["imageId"]
        for _ in range(6):
            await alice.say(long, [{"type": "text", "text": "look"}, picture])
        await bob.request("image_get_request", imageId=busy)
        sent = await alice.request("message_send_request", imageId=busy, content="many 3000")
        await bob.wait("text_delta")
        assert len((await bob.request("image_messages_request", imageId=long))["messages"]) == 12
        await bob.end_of(sent["turnId"])


def messages_told(one: Client19) -> list[Json]:
    return [event for event in one.events if event.get("category") == "message"]
