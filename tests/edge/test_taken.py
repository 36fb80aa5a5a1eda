"""What clients and operators write is done or refused at the edge, never passed over."""

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.edge.test_tools import calling, image_file, tool
from tests.support.answers import anthropic_text, message_start, stream, text_block
from tests.support.edge import EdgeServer
from tests.support.provider import ScriptedProvider, Stall
from tests.support.wire import Json, client
from websockets.asyncio.client import ClientConnection, connect

REFUSED: dict[str, Any] = {
    "sandbox": "resource://sandboxes/acme/small",
    "knowledge": ["resource://knowledge/acme/docs"],
    "skills": ["resource://skills/acme/writing"],
    "variables": {"tone": "kind"},
    "output": {"name": "answer", "schema": {"type": "object"}},
    "apiKey": "sk-of-a-user",
    "clientData": "a text",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_an_image_cannot_have_here_is_refused(url: str, name: str) -> None:
    async with client(url) as alice:
        created = await alice.request("image_create_request", containerId="c1", config={name: REFUSED[name]})
        record = await alice.image("c1", knowledge=[], skills=[], variables={})
        updates = {name: REFUSED[name]}
        updated = await alice.request("image_update_request", imageId=record["imageId"], updates=updates)
    assert [created["errorCode"], updated["errorCode"]] == ["invalid_input", "invalid_input"]


async def test_every_member_of_an_image_can_be_changed_and_taken_away(url: str, provider: ScriptedProvider) -> None:
    changes = {"systemPrompt": "be brief", "maxTokens": 77, "temperature": 0.5, "clientData": {"colour": "red"}}
    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        provider.play(anthropic_text("One"), anthropic_text("Two"))
        changed = await alice.request("image_update_request", imageId=image_id, updates=changes)
        await alice.say(image_id, "hi")
        clear = ["systemPrompt", "maxTokens", "temperature", "clientData", "tools"]
        cleared = await alice.request("image_update_request", imageId=image_id, updates={"clear": clear})
        await alice.say(image_id, "hi")
        wrong = await alice.request("image_update_request", imageId=image_id, updates={"clear": ["name"]})
    assert (changed["record"]["systemPrompt"], changed["record"]["clientData"]) == ("be brief", {"colour": "red"})
    assert "systemPrompt" not in cleared["record"]
    assert "clientData" not in cleared["record"]
    first, second = (request.json() for request in provider.requests)
    assert (first["system"], first["max_tokens"], first["temperature"]) == ("be brief", 77, 0.5)
    assert second["max_tokens"] == 4_096
    assert not {"system", "temperature"} & second.keys()
    assert wrong["errorCode"] == "invalid_input"


async def test_an_image_that_no_row_holds_is_refused(url: str, edge: EdgeServer) -> None:
    edge.add_file("large.avmimage", image_file(prompt="é" * 1_000_000))
    async with client(url) as alice:
        refused = await alice.request("image_create_request", containerId="c1", config={"definition": "large"})
        assert (await alice.request("image_list_request", containerId="c1"))["records"] == []
    assert refused["errorCode"] == "input_too_large"
    assert "1,900,000 bytes" in refused["error"]


async def test_what_a_file_says_is_not_taken_away(url: str, edge: EdgeServer) -> None:
    edge.add_file("brief.avmimage", image_file())
    async with client(url) as alice:
        image_id = (await alice.image("c1", definition="brief"))["imageId"]
        answer = await alice.request("image_update_request", imageId=image_id, updates={"clear": ["systemPrompt"]})
    assert answer["errorCode"] == "invalid_input"


async def test_only_the_turn_that_is_named_is_stopped(url: str, provider: ScriptedProvider) -> None:
    provider.play(stream([message_start(), *text_block(0, "Half")[:2], Stall()]))
    async with client(url) as alice, client(url) as bob:
        record = await alice.image("c1")
        ids = {"imageId": record["imageId"]}
        sent = await alice.request("message_send_request", **ids, content="one")
        await alice.wait("text_delta")
        waiting = await alice.request("message_send_request", **ids, content="two")
        for one in (alice, bob):
            queued = await one.request("agent_interrupt_request", **ids, turnId=waiting["turnId"])
            assert queued["errorCode"] == "invalid_input"
            for other in ({**ids, "turnId": "turn_of_before"}, {**ids, "sessionId": "sess_of_somebody"}):
                assert "error" not in await one.request("agent_interrupt_request", **other)
        assert "interrupted" not in [event["type"] for event in alice.events]
        provider.play(anthropic_text("Second"))
        await bob.request("agent_interrupt_request", sessionId=record["sessionId"], turnId=sent["turnId"])
        ends = [(await alice.end_of(turn["turnId"]))["data"]["outcome"] for turn in (sent, waiting)]
    assert ends == ["interrupted", "completed"]


async def test_an_approval_that_is_to_be_remembered_is_refused(url: str, edge: EdgeServer, provider: ScriptedProvider) -> None:
    async with client(url) as alice:
        await calling(alice, edge, provider, "remembered", tool("screen", "client"))
        wait = (await alice.wait("tool_waiting"))["data"]
        await alice.wait("turn_parked")
        given = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"], "decision": "answer", "result": 1}
        refused = await alice.request("tool_answer_request", **given, remember="session")
        assert refused["errorCode"] == "invalid_input"
        assert "error" not in await alice.request("tool_answer_request", **given)


async def test_a_key_with_containers_of_its_own_pages_through_them_once(edge: EdgeServer) -> None:
    names = ["c", "a", "b"]
    edge.add_key("pages", tenant="paged", containers=names)
    async with client(edge.url_of("pages")) as alice:
        for name in names:
            await alice.request("container_create_request", containerId=name)
        told: list[str] = []
        cursor = None
        for _ in range(4):
            page = await alice.request("container_list_request", limit=1, cursor=cursor)
            told += page["containerIds"]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
    assert told == ["a", "b", "c"]


async def test_a_list_of_images_is_never_everybodys(edge: EdgeServer, url: str) -> None:
    async with client(url) as alice, client(url) as bob:
        record = await alice.image("c1")
        assert (await bob.request("image_list_request"))["records"] == []
        await bob.request("container_create_request", containerId="c1")
        listed = [await one.request("image_list_request") for one in (alice, bob)]
    assert [[image["imageId"] for image in some["records"]] for some in listed] == [[record["imageId"]]] * 2


async def test_a_connection_that_follows_too_many_containers_is_told(url: str) -> None:
    async with client(url) as alice:
        for number in range(101):
            await alice.send({"type": "subscribe", "containerId": f"c{number}"})
        await alice.settle()
        refusals = [event["data"]["code"] for event in alice.events if event["type"] == "system_error"]
    assert refusals == ["server_busy"]


async def test_frames_before_the_credentials_are_answered_each(edge: EdgeServer, provider: ScriptedProvider) -> None:
    edge.add_key("held", tenant="held")
    async with client(edge.url_of("held")) as alice:
        record = await alice.image("c1")
        provider.play(anthropic_text("Done"))
        await alice.say(record["imageId"], "hi")
    async with connect(edge.url_of("held").partition("?")[0]) as socket:
        for cursor in ("nonsense", "0"):
            await socket.send(json.dumps({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": cursor}))
        await socket.send(json.dumps({"type": "auth", "headers": {"authorization": "Bearer held"}}))
        heard = []
        with anyio.fail_after(60):
            while "turn_response" not in heard:
                heard.append(json.loads(await socket.recv()).get("type"))
    assert heard.index("system_error") < heard.index("user_message")


async def rpc(socket: ClientConnection, method: str, **params: Any) -> Json:
    await socket.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
    with anyio.fail_after(60):
        async for text in socket:
            said: Json = json.loads(text)
            if said.get("id") == method:
                return said
    raise AssertionError("the socket was closed")


async def test_clients_of_2x_are_heard_in_all_they_say(url: str, provider: ScriptedProvider) -> None:
    provider.play(anthropic_text("One"), anthropic_text("Two"))
    async with connect(url) as socket:
        embody = {"systemPrompt": "be brief", "model": "test/other"}
        created = await rpc(socket, "image.create", name="A", embody=embody, contextId="ctx", thinking="high")
        image_id = created["result"]["record"]["imageId"]
        refused = await rpc(socket, "message.send", imageId=image_id, content="hi", options={"thinking": "low"})
        await rpc(socket, "message.send", imageId=image_id, content="hi")
        await rpc(socket, "image.update", imageId=image_id, updates={"thinking": "disabled"})
        await rpc(socket, "message.send", imageId=image_id, content="hi")
    assert created["result"]["record"]["contextId"] == "ctx"
    assert refused["error"]["data"]["code"] == "invalid_input"
    bodies: list[Any] = [request.json() for request in provider.requests]
    first, second = bodies
    assert (first["system"], first["model"], first["thinking"]["budget_tokens"]) == ("be brief", "other", 32_000)
    assert "thinking" not in second


@pytest.mark.parametrize(
    "variables",
    [
        {"SILENCE_SECONDS": "soon"},
        {"PROVIDERS": '{"a": {"kind": "antropic", "baseUrl": "https://example.com"}}'},
        {"ACCESS": "everybody"},
    ],
)
async def test_a_variable_that_is_wrong_is_named(edge: EdgeServer, tmp_path: Path, variables: dict[str, str]) -> None:
    async with edge.another(tmp_path, **variables) as other, httpx2.AsyncClient() as http:
        answer = await http.get(f"http://127.0.0.1:{other.port}/ready", timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "config_invalid")
    assert next(iter(variables)) in answer.json()["error"]["message"]
