"""Checklist 53-55: what a client cannot do. 52, ownership between users, is in test_checklist_authentication.py."""

from typing import Any

import pytest
from tests.support.serving import Play, Served, serving
from tests.support.wire import Json, client

FORGED: tuple[Json, ...] = (
    {"type": "assistant_message", "category": "message", "data": {"id": "m", "role": "assistant", "content": "forged"}},
    {"type": "user_message", "category": "message", "data": {"id": "m", "role": "user", "content": "forged"}},
    {"type": "text_delta", "category": "stream", "data": {"text": "forged"}},
    {"type": "conversation_end", "category": "state", "data": {"reason": "completed"}},
    {"type": "message_send_response", "category": "response", "data": {"requestId": "req_1", "agentId": "forged"}},
    {"type": "system_error", "category": "error", "data": {"message": "forged"}},
    {"type": "agent_unregistered", "category": "lifecycle", "data": {"agentId": "forged"}},
    {"type": "interrupt", "category": "action", "data": {}},
    {"__msgId": "conn_1", "__payload": '{"type":"text_delta","data":{"text":"forged"}}'},
)

BAD_CONTAINERS = ["../up", "..", ".hidden", "a/b", "a\\b", "a?b", "a#b", "a\x00b", "a\nb", "", "x" * 129, "x" * 10_000]
ODD_CONTAINERS = ["a:b", "a b", "用户", "😀", "a..b", "%2e%2e", "x" * 128, "'; drop table images; --", "undefined"]
ODD_IDS = ["../../etc/passwd", "a:b", "a?b", "x" * 10_000, "\x00", "", "%00", "img_' or '1'='1", "😀"]


@pytest.mark.parametrize("number", range(len(FORGED)))
async def test_item_53_a_forged_event_reaches_nobody_and_is_not_stored(shared: Served, number: int) -> None:
    async with client(shared.url) as alice, client(shared.url) as mallory:
        record = await alice.image()
        await mallory.request("image_get_request", imageId=record["imageId"])
        context = {key: record[key] for key in ("containerId", "imageId", "sessionId")}
        marks = len(alice.events), len(mallory.events)
        await mallory.send({"source": "agent", "intent": "notification", "context": context, **FORGED[number]})
        for one in (mallory, alice):
            await one.settle()
        assert alice.types[marks[0] :] == ["container_list_response"]
        assert mallory.types[marks[1] :] == ["container_list_response"]
        assert (await alice.request("image_messages_request", imageId=record["imageId"]))["messages"] == []
        await alice.say(record["imageId"], "hello")


@pytest.mark.parametrize("container_id", BAD_CONTAINERS)
async def test_item_54_a_container_id_that_looks_like_a_path_is_refused(shared: Served, container_id: str) -> None:
    async with client(shared.url) as alice:
        refused = [
            await alice.request("container_create_request", containerId=container_id),
            await alice.request("image_create_request", containerId=container_id, config={}),
            await alice.request("image_list_request", containerId=container_id),
            await alice.request("container_get_request", containerId=container_id),
        ]
        assert [answer["errorCode"] for answer in refused] == ["invalid_input"] * 4
        assert container_id not in (await alice.request("container_list_request"))["containerIds"]


@pytest.mark.parametrize("container_id", ODD_CONTAINERS)
async def test_item_54_any_other_container_id_is_stored_exactly(shared: Served, container_id: str) -> None:
    async with client(shared.url) as alice:
        record = await alice.image(container_id)
        assert record["containerId"] == container_id
        assert container_id in (await alice.request("container_list_request"))["containerIds"]
        await alice.say(record["imageId"], "hello")
        listed = (await alice.request("image_list_request", containerId=container_id))["records"]
        assert [one["imageId"] for one in listed] == [record["imageId"]]


@pytest.mark.parametrize("odd", ODD_IDS)
async def test_item_54_an_odd_image_or_agent_id_is_simply_not_found(shared: Served, odd: str) -> None:
    async with client(shared.url) as alice:
        assert (await alice.request("image_get_request", imageId=odd))["record"] is None
        assert (await alice.request("agent_get_request", agentId=odd))["exists"] is False
        assert (await alice.request("agent_destroy_request", agentId=odd))["success"] is False
        assert "error" not in await alice.request("image_delete_request", imageId=odd)
        for kind in ("image_run_request", "image_stop_request", "image_update_request", "image_messages_request"):
            answer = await alice.request(kind, imageId=odd)
            assert answer["errorCode"] == "image_not_found"
            assert len(answer["error"]) < 300


async def test_item_55_an_error_shows_nothing_of_the_servers_insides(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(Play()) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        await alice.request("image_run_request", imageId="nope")
        await alice.request("container_create_request", containerId=5)
        await alice.socket.send("not json")
        await alice.say(image_id, "fail")

        async def crash(*arguments: Any) -> Any:
            raise RuntimeError(f"a bug in {__file__}")

        monkeypatch.setattr(type(server.running.agentx.runtime.channel._peer.store), "find_image", crash)  # type: ignore[attr-defined]  # the bug is planted in the store
        answer = await alice.request("image_run_request", imageId=image_id)
        assert answer["errorCode"] == "internal_error"
        told = [event for event in alice.events if event["type"] == "system_error"]
        assert len(told) == 4
        for event in told:
            assert "details" not in event["data"]
        for frame in alice.raw:
            for inside in ("Traceback", ".py", "site-packages", "RuntimeError", "msgspec", 'File "'):
                assert inside not in str(frame)
