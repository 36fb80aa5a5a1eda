"""Checklist 9-15: the envelope of responses and events."""

from typing import Any

import anyio
import pytest
from tests.support.serving import Play, Served, serving
from tests.support.wire import Client18, Client19, Json, client, client_of

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, reply

FAILING: dict[str, Json] = {
    "image_run_request": {"imageId": "nope"},
    "image_stop_request": {"imageId": "nope"},
    "image_update_request": {"imageId": "nope", "updates": {"name": "x"}},
    "image_messages_request": {"imageId": "nope"},
    "message_send_request": {"imageId": "nope", "content": "hi"},
    "agent_interrupt_request": {"agentId": "nope"},
    "container_create_request": {},
    "container_get_request": {"containerId": 5},
    "image_create_request": {"containerId": "../up", "config": {}},
    "image_list_request": {"containerId": "a/b"},
    "agent_list_request": {},
    "agent_destroy_request": {"agentId": None},
    "agent_destroy_all_request": {"containerId": ""},
    "image_get_request": {},
    "image_delete_request": {"imageId": []},
    "agent_get_request": {"agentId": {}},
}


async def every_command(alice: Client19) -> dict[str, Json]:
    """Asks each of the seventeen once, with success; the whole response by request type."""
    answers: dict[str, Json] = {}

    async def ask(kind: str, **data: Any) -> Json:
        answers[kind] = await alice.answer(await alice.ask(kind, **data))
        return answers[kind]

    await ask("container_create_request", containerId="c1")
    await ask("container_get_request", containerId="c1")
    await ask("container_list_request")
    image_id = (await ask("image_create_request", containerId="c1", config={}))["data"]["record"]["imageId"]
    agent_id = (await ask("image_run_request", imageId=image_id))["data"]["agentId"]
    await ask("image_get_request", imageId=image_id)
    await ask("image_list_request", containerId="c1")
    await ask("image_update_request", imageId=image_id, updates={"name": "New"})
    await ask("image_messages_request", imageId=image_id)
    await ask("agent_get_request", agentId=agent_id)
    await ask("agent_list_request", containerId="c1")
    sent = await ask("message_send_request", imageId=image_id, content="hello")
    await alice.end_of(sent["data"]["turnId"])
    await ask("agent_interrupt_request", imageId=image_id)
    await ask("agent_destroy_request", agentId=agent_id)
    await ask("agent_destroy_all_request", containerId="c1")
    await ask("image_stop_request", imageId=image_id)
    await ask("image_delete_request", imageId=image_id)
    return answers


async def test_item_09_every_response_has_the_envelope_of_1_x() -> None:
    async with serving() as server, client(server.url) as alice:
        answers = await every_command(alice)
        assert len(answers) == 17
        for kind, answer in answers.items():
            assert answer["type"] == kind.replace("_request", "_response")
            assert (answer["source"], answer["category"], answer["intent"]) == ("command", "response", "result")
            assert type(answer["timestamp"]) is int
            assert "error" not in answer["data"], answer
            assert "context" not in answer


async def test_item_10_a_response_goes_to_the_requester_only() -> None:
    async with serving() as server, client(server.url) as alice, client(server.url) as bob:
        # Bob works with the same container and the same image, so he hears all there is to hear.
        record = await alice.image()
        await bob.request("image_get_request", imageId=record["imageId"])
        own = bob.types.count("image_get_response")
        await every_command(alice)
        await alice.request("image_run_request", imageId="nope")
        await bob.settle()
        strangers = [event for event in bob.events if event.get("category") == "response"]
        assert [event["type"] for event in strangers] == ["image_get_response"] * own + ["container_list_response"]
        assert "system_error" not in bob.types


async def test_item_11_the_keys_of_a_clients_context_are_ignored(shared: Served) -> None:
    async with client(shared.url) as alice:
        extra: Json = {"tenantId": "t1", "userId": 5, "isAdmin": True, "deep": {"a": [1, None]}, "name": "x", "error": "y"}
        created = await alice.request("image_create_request", **{**extra, "containerId": "c1", "config": {"name": "Chat"}})
        assert created["record"]["name"] == "Chat"
        assert "error" not in created
        assert not {"tenantId", "userId", "isAdmin", "deep"} & created.keys()


@pytest.mark.parametrize("kind", ["bogus_request", "_request", "image_snapshot_request", "x" * 5000 + "_request"])
async def test_item_12_an_unknown_request_is_answered_with_an_error(shared: Served, kind: str) -> None:
    async with client(shared.url) as alice:
        with anyio.fail_after(60):
            answer = await alice.answer(await alice.ask(kind, anything=1))
        assert answer["data"]["errorCode"] == "unknown_command"
        assert answer["data"]["error"]
        assert len(answer["type"]) < 300


@pytest.mark.parametrize("kind", FAILING)
async def test_item_13_a_failing_command_is_told_in_a_system_error_and_then_in_its_response(shared: Served, kind: str) -> None:
    async with client(shared.url) as alice:
        answer = await alice.answer(await alice.ask(kind, **FAILING[kind]))
        told, last = alice.events[-2:]
        assert last == answer
        assert isinstance(answer["data"]["error"], str)
        assert answer["data"]["error"]
        assert told["type"] == "system_error"
        assert told["data"]["message"] == answer["data"]["error"]
        assert told["data"]["requestId"] == answer["data"]["requestId"]
        assert told["data"]["severity"] == "error"


async def full_session(server: Served, alice: Client19) -> None:
    record = await alice.image(name="Chat")
    await alice.say(record["imageId"], "hello you")
    await alice.say(record["imageId"], "tool please")
    history = (await alice.request("image_messages_request", imageId=record["imageId"]))["messages"]
    assert [message["subtype"] for message in history] == [
        *("user", "assistant"),
        *("user", "tool-call", "assistant", "tool-result", "assistant"),
    ]


async def test_item_14_a_1_9_client_acknowledges_each_wrapped_frame_exactly_once() -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        await full_session(server, alice)
        assert len(alice.acked) == len(set(alice.acked))
        # The probe came first; once it was acknowledged everything is wrapped.
        assert alice.events[0]["type"] == "server_hello"
        assert len(alice.acked) > 20


async def test_item_14_a_1_8_client_completes_a_session_on_bare_frames() -> None:
    async with serving(Play()) as server, client_of(Client18, server.url) as olga:
        await full_session(server, olga)
        # The probe is the only wrapped frame, and the only one it did not understand.
        assert len(olga.raw) == len(olga.events) + 1


async def test_item_15_a_thousand_deltas_arrive_once_each_and_in_order() -> None:
    async with serving(Play()) as server, client(server.url) as alice, client(server.url) as bob:
        record = await alice.image()
        await bob.request("image_get_request", imageId=record["imageId"])
        turn = await alice.say(record["imageId"], "many 1000")
        await bob.end_of(turn["data"]["turnId"])
        for one in (alice, bob):
            deltas = [event["data"]["text"] for event in one.events if event["type"] == "text_delta"]
            assert deltas == [f"{number} " for number in range(1000)]
            assert one.types.count("assistant_message") == 1


async def test_item_15_two_turns_at_once_keep_their_own_order() -> None:
    def script(prompt: Prompt) -> list[ScriptStep]:
        return reply(*(f"{number} " for number in range(300)))

    async with serving(script) as server, client(server.url) as alice:
        images = [await alice.image(), await alice.image("c2")]
        asked = [await alice.ask("message_send_request", imageId=image["imageId"], content="go") for image in images]
        for request_id in asked:
            await alice.end_of((await alice.answer(request_id))["data"]["turnId"])
        for image in images:
            mine = [event for event in alice.events if event.get("context", {}).get("imageId") == image["imageId"]]
            deltas = [event["data"]["text"] for event in mine if event["type"] == "text_delta"]
            assert deltas == [f"{number} " for number in range(300)]
