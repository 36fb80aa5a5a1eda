"""Whose things a client reaches at the edge: keys by digest, tenants and containers apart, hostile input harmless."""

import json
from contextlib import suppress
from typing import Any

import pytest
from tests.compat.test_bad_input import CONFIGS, CONTENTS, FRAMES
from tests.compat.test_checklist_connection import NOISE
from tests.compat.test_checklist_security import BAD_CONTAINERS, FORGED, ODD_CONTAINERS, ODD_IDS
from tests.support.answers import anthropic_text
from tests.support.edge import EdgeServer
from tests.support.provider import ScriptedProvider
from tests.support.wire import Browser, client
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

FRAME_MAX_BYTES = 4 * 1024 * 1024


@pytest.fixture
def urls(edge: EdgeServer, request: pytest.FixtureRequest) -> dict[str, str]:
    """Alice and Bob of one tenant, each with a container, and Carol of another tenant, who calls hers as Alice does."""
    name = request.node.name
    owners = {"alice": ("one", ["a"]), "bob": ("one", ["b"]), "carol": ("two", ["a"])}
    for who, (tenant, containers) in owners.items():
        edge.add_key(f"{who}-{name}", tenant=f"{tenant}-{name}", containers=containers)
    return {who: edge.url_of(f"{who}-{name}") for who in owners}


@pytest.mark.parametrize("other", ["bob", "carol"])
async def test_somebody_elses_image_does_not_exist(urls: dict[str, str], other: str, provider: ScriptedProvider) -> None:
    provider.play(anthropic_text("Secret"))
    async with client(urls["alice"]) as alice, client(urls[other]) as mallory:
        record = await alice.image("a", name="Mine")
        image_id = record["imageId"]
        agent_id = (await alice.request("image_run_request", imageId=image_id))["agentId"]
        assert (await mallory.request("image_get_request", imageId=image_id))["record"] is None
        assert (await mallory.request("agent_get_request", agentId=agent_id))["exists"] is False
        for kind in ("image_run_request", "image_stop_request", "image_messages_request"):
            assert (await mallory.request(kind, imageId=image_id))["errorCode"] == "image_not_found"
        sent = await mallory.request("message_send_request", imageId=image_id, content="hi")
        assert sent["errorCode"] == "image_not_found"
        await mallory.request("image_delete_request", imageId=image_id)
        await mallory.send({"type": "subscribe", "sessionId": record["sessionId"], "afterCursor": "0"})
        mark = len(mallory.events)
        await alice.say(image_id, "hello")
        assert [one["name"] for one in (await alice.request("image_list_request"))["records"]] == ["Mine"]
        await mallory.settle()
        assert mallory.types[mark:] == ["container_list_response"]


async def test_a_container_that_is_not_ones_own_is_forbidden(urls: dict[str, str]) -> None:
    async with client(urls["bob"]) as bob:
        for kind in ("container_create_request", "container_get_request", "image_create_request", "image_list_request"):
            assert (await bob.request(kind, containerId="a"))["errorCode"] == "container_forbidden"
        assert (await bob.request("container_list_request"))["containerIds"] == []


async def test_a_bad_key_is_refused_when_the_socket_is_opened(edge: EdgeServer) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(edge.url_of("no-such-key")):
            pass
    assert refused.value.response.status_code == 401


async def test_a_browser_may_send_its_key_as_a_subprotocol_and_gets_it_back(edge: EdgeServer) -> None:
    edge.add_key("as-protocol", tenant="browser")
    async with connect(f"ws://127.0.0.1:{edge.port}/ws", subprotocols=[Subprotocol("avm.bearer.as-protocol")]) as socket:
        # A browser closes the socket otherwise.
        assert socket.subprotocol == "avm.bearer.as-protocol"


async def test_a_browser_sends_its_key_in_a_frame_and_everything_before_it_is_refused(edge: EdgeServer) -> None:
    edge.add_key("of-a-browser", tenant="browser")
    url = f"ws://127.0.0.1:{edge.port}/ws"
    async with client(url) as nobody:
        assert (await nobody.request("container_list_request"))["errorCode"] == "unauthenticated"
        await nobody.send({"type": "auth", "headers": {"Authorization": "Bearer wrong"}})
        assert await nobody.wait_closed() == 4401
    async with Browser(url, {"Authorization": "Bearer of-a-browser"}).connected() as alice:
        assert (await alice.request("container_create_request", containerId="c1"))["containerId"] == "c1"
        assert not any("of-a-browser" in str(frame) for frame in alice.raw)


async def test_an_oversized_frame_closes_with_1009_and_large_data_is_refused(url: str) -> None:
    async with client(url) as alice, client(url) as mallory:
        with suppress(ConnectionClosed):
            await mallory.socket.send("x" * (FRAME_MAX_BYTES + 1))
        assert await mallory.wait_closed() == 1009
        answer = await alice.request("container_list_request", padding="x" * 1024 * 1024)
        assert answer["errorCode"] == "input_too_large"
        assert "1,048,576" in answer["error"]


async def test_broken_frames_noise_and_forged_events_harm_nobody(url: str, provider: ScriptedProvider) -> None:
    provider.play(anthropic_text("fine"))
    async with client(url) as mallory, client(url) as bob:
        image_id = (await bob.image("bobs"))["imageId"]
        for what in (*FRAMES.values(), *NOISE, *(json.dumps(forged) for forged in FORGED)):
            if len(what) > FRAME_MAX_BYTES:
                continue
            before = await mallory.ask("container_list_request")
            await mallory.socket.send(what)
            after = await mallory.ask("container_list_request")
            for request_id in (before, after):
                assert "error" not in (await mallory.answer(request_id))["data"], what[:80]
        assert (await bob.say(image_id, "hello"))["data"]["outcome"] == "completed"
        assert "forged" not in json.dumps(bob.events)


async def test_names_that_look_like_paths_are_refused_and_odd_ones_are_kept_exactly(url: str) -> None:
    async with client(url) as alice:
        for name in BAD_CONTAINERS:
            for kind in ("container_create_request", "image_create_request", "image_list_request", "container_get_request"):
                assert (await alice.request(kind, containerId=name))["errorCode"] == "invalid_input", name
        for name in ODD_CONTAINERS:
            assert (await alice.image(name))["containerId"] == name
        assert set(ODD_CONTAINERS) <= set((await alice.request("container_list_request"))["containerIds"])
        for odd in ODD_IDS:
            assert (await alice.request("image_get_request", imageId=odd))["record"] is None
            assert (await alice.request("agent_destroy_request", agentId=odd))["success"] is False
            answer = await alice.request("image_run_request", imageId=odd)
            assert answer["errorCode"] == "image_not_found"
            assert len(answer["error"]) < 300


async def test_content_and_configs_that_cannot_be_are_refused_and_not_stored(url: str) -> None:
    async with client(url) as alice:
        image_id = (await alice.image("c1"))["imageId"]
        for what, content in CONTENTS.items():
            answer = await alice.request("message_send_request", imageId=image_id, content=content)
            assert answer["errorCode"] == "invalid_input", what
        assert (await alice.request("image_messages_request", imageId=image_id))["messages"] == []
        tokens: list[dict[str, Any]] = [{"maxTokens": 0}, {"maxTokens": -5}]
        for config in (*CONFIGS.values(), *tokens):
            answer = await alice.request("image_create_request", containerId="unbuilt", config=config)
            assert answer["errorCode"] not in ("internal_error", None), config
        assert (await alice.request("image_list_request", containerId="unbuilt"))["records"] == []
        unknown = await alice.request("schedule_list_request")
        assert unknown["errorCode"] == "unknown_command"


async def test_the_socket_of_a_key_that_was_removed_or_changed_is_closed_before_it_says_or_hears_more(
    edge: EdgeServer, provider: ScriptedProvider
) -> None:
    provider.play(anthropic_text("secret"))
    for key, containers in (("stays", None), ("goes", None), ("shrinks", ["c1"])):
        edge.add_key(key, tenant="rotation", **({} if containers is None else {"containers": containers}))
    async with (
        client(edge.url_of("stays")) as alice,
        client(edge.url_of("goes")) as bob,
        client(edge.url_of("shrinks")) as carol,
    ):
        record = await alice.image("c1")
        await bob.send({"type": "subscribe", "sessionId": record["sessionId"]})
        await bob.settle()
        await carol.settle()
        edge.remove_key("goes")
        edge.add_key("shrinks", tenant="rotation", containers=["elsewhere"])
        # What the platform may go on knowing of a key is over before the second message.
        for said in ("hi", "again"):
            await alice.say(record["imageId"], said)
        with suppress(ConnectionClosed):
            await carol.send({"type": "container_list_request", "data": {"requestId": "r"}})
        assert await bob.wait_closed() == 4401
        assert await carol.wait_closed() == 4401
        assert not alice.closed
    with pytest.raises(InvalidStatus):
        async with connect(edge.url_of("goes")):
            pass
