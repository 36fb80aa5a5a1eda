"""Checklist 1-8: the connection. (7, a bad token in the upgrade, comes with authentication.)"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.hostile import RawSocket
from tests.support.serving import Play, Served, provide_tools, serving
from tests.support.wire import Browser, Json, client
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from agentvm.drivers.base import Prompt, ToolSpec, UserEntry
from agentvm.drivers.scripted import Pause, ScriptStep, reply, tool_calls
from agentvm.runtime.tools import Run, Tool
from agentvm.server import serving as server_module

MIB = 1024 * 1024
TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from("😀\u2028\u2029\x00\ufeff\x7f\\\"'"), min_size=1, max_size=30)


@pytest.mark.parametrize("path", ["/ws", "/ws?", "/ws?client=1&token=a%20b", "/ws?x=%F0%9F%98%80", "/"])
async def test_item_01_the_upgrade_succeeds_with_any_query_and_returns_no_subprotocol(shared: Served, path: str) -> None:
    with anyio.fail_after(60):
        async with connect(f"ws://127.0.0.1:{shared.port}{path}") as socket:
            assert socket.response is not None
            assert socket.response.status_code == 101
            assert "Sec-WebSocket-Protocol" not in socket.response.headers


async def test_item_02_a_client_that_offers_compression_is_served() -> None:
    async with serving() as server, client(server.url, compression="deflate") as alice:
        assert (await alice.request("container_create_request", containerId="c1"))["containerId"] == "c1"


async def test_item_03_a_20_mib_image_is_accepted_stored_and_returned() -> None:
    image = {"type": "image", "data": "iVBO" * (5 * MIB), "mediaType": "image/png", "name": "x.png"}
    async with serving() as server, client(server.url) as alice:
        record = await alice.image()
        await alice.say(record["imageId"], [{"type": "text", "text": "look"}, image])
        messages = (await alice.request("image_messages_request", imageId=record["imageId"]))["messages"]
        assert messages[0]["content"][1] == image
        asked = server.model.prompts[0].conversation[0]
        assert isinstance(asked, UserEntry)
        assert len(asked.content) == 2


async def test_item_03_a_frame_of_48_mib_is_read_and_a_larger_one_closes_with_1009() -> None:
    head, tail = b'{"type":"container_list_request","data":{"requestId":"big"},"padding":"', b'"}'
    async with serving() as server, client(server.url) as alice:
        alice.requested.add("big")
        await alice.socket.send(head + b"x" * (48 * MIB - len(head) - len(tail)) + tail, text=True)
        assert (await alice.answer("big"))["data"]["containerIds"] == []
        async with client(server.url) as mallory:
            with pytest.raises(ConnectionClosed):
                await mallory.socket.send(b"x" * (48 * MIB + 1), text=True)
            assert await mallory.wait_closed() == 1009
        await alice.settle()


async def test_item_03_the_data_of_a_command_that_carries_no_picture_has_at_most_1_mib() -> None:
    async with serving() as server, client(server.url) as alice:
        answer = await alice.request("container_list_request", padding="x" * MIB)
        assert answer["errorCode"] == "input_too_large"
        assert "1,048,576" in answer["error"]
        assert (await alice.request("container_list_request", padding="x" * (MIB - 1_000)))["containerIds"] == []


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def server(portal: BlockingPortal) -> Iterator[Served]:
    """One for all examples."""
    with portal.wrap_async_context_manager(serving()) as server:
        yield server


@settings(max_examples=examples(50, 1000), deadline=None)
@given(said=st.lists(TEXT, min_size=1, max_size=4))
def test_item_04_whatever_is_said_every_frame_is_text_and_strict_json(
    portal: BlockingPortal, server: Served, said: list[str]
) -> None:
    portal.call(hear_again, server.url, said)


async def hear_again(url: str, said: list[str]) -> None:
    text = " ".join(said)
    async with client(url) as alice:
        record = await alice.image(name=said[0], systemPrompt=said[-1])
        await alice.say(record["imageId"], text)
        history = (await alice.request("image_messages_request", imageId=record["imageId"]))["messages"]
        assert record["name"] == said[0]
        assert history[0]["content"] == text
        if text.strip():
            assert history[1]["content"] == [{"type": "text", "text": text}]
        for frame in alice.raw:
            assert isinstance(frame, str)
            strict(frame)


def strict(text: str) -> Json:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is not JSON")

    text.encode()  # no lone surrogates
    found: Json = json.loads(text, parse_constant=refuse)
    return found


async def test_item_04_a_number_that_json_cannot_say_is_never_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(arguments: dict[str, object]) -> object:
        return {"nan": math.nan, "infinity": math.inf, "small": 0.1}

    def script(prompt: Prompt) -> list[ScriptStep]:
        asked = isinstance(prompt.conversation[-1], UserEntry)
        return tool_calls(("call_1", "odd", {})) if asked else reply("done")

    odd_tool(monkeypatch, run)
    async with serving(script) as server, client(server.url) as alice:
        await alice.say((await alice.image())["imageId"], "go")
        result = (await alice.wait("tool_result"))["data"]["result"]
        assert result == {"nan": None, "infinity": None, "small": 0.1}
        for frame in alice.raw:
            assert isinstance(frame, str)
            strict(frame)


def odd_tool(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    tool = Tool(spec=ToolSpec(name="odd", description="Odd", input_schema={"type": "object"}), run=run)
    provide_tools(monkeypatch, tool)


async def test_item_04_half_an_emoji_from_javascript_is_replaced_and_the_rest_is_kept() -> None:
    # JSON.stringify("😀".slice(0, 1)) is "\ud83d".
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        sent = '{"type":"message_send_request","data":{"requestId":"half","imageId":"%s","content":"%s"}}'
        alice.requested.add("half")
        await alice.socket.send(sent % (image_id, r"a \ud83d b \ud83d\ude00 \\ud83d \udc00"))
        turn_id = (await alice.answer("half"))["data"]["turnId"]
        await alice.end_of(turn_id)
        history = (await alice.request("image_messages_request", imageId=image_id))["messages"]
        assert history[0]["content"] == "a \ufffd b 😀 \\ud83d \ufffd"


@pytest.mark.parametrize("heard", [True, False])
async def test_item_04_half_an_emoji_from_a_model_is_replaced_whether_somebody_listens_or_not(heard: bool) -> None:
    gate = anyio.Event()

    def script(prompt: Prompt) -> list[ScriptStep]:
        first, *others = reply("a \ud83d", "\ude00 b")
        return [first, Pause(gate), *others]

    async with serving(script) as server, client(server.url) as alice, client(server.url) as bob:
        image_id = (await alice.image())["imageId"]
        await alice.request("message_send_request", imageId=image_id, content="go")
        await alice.wait("message_start")
        if not heard:
            await alice.socket.close()
        gate.set()
        with anyio.fail_after(60):
            while len(history := (await bob.request("image_messages_request", imageId=image_id))["messages"]) < 2:
                pass
        assert history[1]["content"][0]["text"] in ("a \ufffd\ufffd b", "a 😀 b")
        for frame in (*alice.raw, *bob.raw):
            strict(str(frame))


async def test_item_05_a_peer_that_misses_a_pong_is_dropped_and_a_silent_ponging_one_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert server_module.PING_SECONDS <= 30
    monkeypatch.setattr(server_module, "PING_SECONDS", 0.05)
    async with serving() as server, client(server.url) as alice, RawSocket.open(server.port) as dead:
        assert await dead.pings() >= 1
        with anyio.fail_after(60):
            await dead.wait_eof()
        # Alice said nothing all that time, which was several heartbeats.
        await alice.settle()


async def test_item_06_credentials_in_an_auth_frame_are_consumed_never_echoed_never_stored(tmp_path: Path) -> None:
    token = "Bearer very-secret-token"
    async with serving(Play(), data_dir=tmp_path) as server, client(server.url) as bob:
        browser = Browser(server.url, {"Authorization": token})
        for _ in range(2):
            async with browser.connected() as alice:
                await alice.say((await alice.image())["imageId"], "hello")
                await bob.settle()
                for frame in (*alice.raw, *bob.raw):
                    assert "very-secret-token" not in str(frame)
    assert not holds(tmp_path, b"very-secret-token")


def holds(folder: Path, secret: bytes) -> bool:
    return any(secret in path.read_bytes() for path in folder.rglob("*") if path.is_file())


NOISE = [
    "not json",
    "",
    "null",
    "true",
    "42",
    '"text"',
    "[]",
    "{}",
    '{"type":"unknown"}',
    '{"__ack":"no-such-id"}',
    '{"type":null}',
]


@pytest.mark.parametrize("noise", NOISE)
async def test_item_08_noise_neither_closes_the_socket_nor_reaches_others(shared: Served, noise: str) -> None:
    async with client(shared.url) as alice, client(shared.url) as bob:
        await alice.image()
        await bob.image()
        heard = len(bob.events)
        await alice.socket.send(noise)
        await alice.settle()
        await bob.settle()
        assert bob.types[heard:] == ["container_list_response"]
