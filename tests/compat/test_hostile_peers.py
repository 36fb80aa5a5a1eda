"""Peers that break the rules of the socket itself: only they suffer."""

import json

import anyio
import pytest
from tests.support.hostile import CLOSE, PING, RawSocket
from tests.support.serving import Play, Served, serving
from tests.support.wire import Client19, client
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, reply
from agentvm.runtime import channel
from agentvm.server import writer

CHUNK = 64 * 1024
TURNS = 12


def loud(prompt: Prompt) -> list[ScriptStep]:
    """Over all turns, more than the kernel and the server together keep for a peer that does not read."""
    return reply(*["x" * CHUNK] * 16)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that neither waits long for peers to read nor lingers over those it has cut off."""
    monkeypatch.setattr(writer, "LINGER_SECONDS", 0.05)
    monkeypatch.setattr(channel, "UNREAD_SECONDS", 0.2)


async def still_serves(server: Served) -> None:
    async with client(server.url) as bob:
        record = await bob.image("bobs")
        assert (await bob.say(record["imageId"], "hello"))["data"]["outcome"] == "completed"


async def test_a_peer_that_does_not_read_harms_nobody_and_gets_everything_once_it_does() -> None:
    async with serving(loud) as server, client(server.url) as alice, RawSocket.open(server.port) as mallory:
        image_id = (await alice.image())["imageId"]
        frame = {"type": "image_get_request", "data": {"imageId": image_id, "requestId": "r"}}
        await mallory.send_frame(json.dumps(frame).encode())
        await mallory.received(b"image_get_response")
        for _ in range(TURNS):
            assert (await alice.say(image_id, "hello"))["data"]["outcome"] == "completed"
        assert alice.types.count("text_delta") == TURNS * 16
        # Nothing was kept for Mallory beyond a bounded outbox: the rest comes from the log when she reads.
        heard: list[bytes] = []
        ends = 0
        with anyio.fail_after(100):
            while ends < TURNS:
                heard.append((await mallory.receive_frame())[1])
                ends += b'"turn_response"' in heard[-1]
        assert sum(b'"text_delta"' in frame for frame in heard) == TURNS * 16
        cursors = [int(event["cursor"]) for event in map(json.loads, heard) if "cursor" in event]
        assert cursors == list(range(1, len(cursors) + 1))
        await still_serves(server)


@pytest.mark.usefixtures("impatient")
async def test_a_peer_that_asks_and_asks_and_never_reads_an_answer_is_cut_off() -> None:
    async with serving(loud) as server, client(server.url) as alice, RawSocket.open(server.port) as mallory:
        image_id = (await alice.image())["imageId"]
        await alice.say(image_id, "hello")
        ask = {"type": "image_messages_request", "data": {"imageId": image_id, "requestId": "r"}}

        async def ask_for_ever() -> None:
            while True:
                await mallory.send_frame(json.dumps(ask).encode())
                await alice.settle()

        with anyio.fail_after(60), pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
            await ask_for_ever()
        await still_serves(server)


@pytest.mark.parametrize("text", [b"\xff\xfe", b'{"type":"\xed\xa0\x80"}', b"\xc3"])
async def test_a_text_frame_that_is_not_utf_8_closes_its_socket_with_1007(text: bytes) -> None:
    async with serving() as server, client(server.url) as alice, RawSocket.open(server.port) as mallory:
        await mallory.send_frame(text)
        assert await mallory.closed() == 1007
        await alice.settle()
        await still_serves(server)


async def test_a_frame_that_claims_to_be_huge_closes_its_socket_with_1009_before_it_is_sent() -> None:
    async with serving() as server, RawSocket.open(server.port) as mallory:
        await mallory.send_bytes(b"\x81\xff" + (2**40).to_bytes(8) + b"\x00\x00\x00\x00")
        assert await mallory.closed() == 1009
        await still_serves(server)


async def test_fragments_are_counted_together() -> None:
    async with serving() as server, RawSocket.open(server.port) as mallory:
        piece = b"x" * (26 * 1024 * 1024)
        head = (len(piece)).to_bytes(8) + b"\x00\x00\x00\x00"
        await mallory.send_bytes(b"\x01\xff" + head + piece, patient=False)
        for _ in range(4):
            await mallory.send_bytes(b"\x00\xff" + head + piece, patient=False)
        assert await mallory.closed() in (1009, None)
        await still_serves(server)


@pytest.mark.parametrize(
    ("what", "broken"),
    [
        ("a frame without a mask", b"\x81\x02hi"),
        ("a reserved opcode", b"\x83\x80\x00\x00\x00\x00"),
        ("a reserved bit", b"\xc1\x80\x00\x00\x00\x00"),
        ("a long control frame", b"\x89\xfe\x00\x80\x00\x00\x00\x00" + b"x" * 128),
        ("a continuation of nothing", b"\x80\x80\x00\x00\x00\x00"),
    ],
)
async def test_a_frame_against_the_rules_closes_its_socket_with_1002(what: str, broken: bytes) -> None:
    async with serving() as server, RawSocket.open(server.port) as mallory:
        await mallory.send_bytes(broken)
        assert await mallory.closed() == 1002, what
        await still_serves(server)


async def test_a_binary_frame_is_read_as_text() -> None:
    async with serving() as server, client(server.url) as alice:
        alice.requested.add("bin")
        await alice.socket.send(b'{"type":"container_list_request","data":{"requestId":"bin"}}')
        assert (await alice.answer("bin"))["data"]["containerIds"] == []
        await alice.socket.send(b"\xff\xfe\x00")
        await alice.wait("system_error")
        await alice.settle()


async def test_a_close_in_the_middle_of_a_turn_leaves_the_turn_running() -> None:
    play = Play()
    async with serving(play) as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        async with RawSocket.open(server.port) as mallory:
            ask = {"type": "message_send_request", "data": {"imageId": image_id, "content": "slow", "requestId": "r"}}
            await mallory.send_frame(json.dumps(ask).encode())
            await mallory.received(b"message_send_response")
            await mallory.send_frame(b"", CLOSE)
            assert await mallory.closed() is not None
        play.gate.set()
        assert (await alice.wait("turn_response"))["data"]["outcome"] == "completed"


async def test_pings_of_a_client_are_answered_and_a_half_open_socket_harms_nobody() -> None:
    async with serving() as server:
        async with RawSocket.open(server.port) as mallory:
            await mallory.send_frame(b"are you there", PING)
            await mallory.received(b"are you there")
            # Gone without a word, in the middle of a frame.
            await mallory.send_bytes(b"\x81\xfe\x10\x00")
        await still_serves(server)


async def test_another_path_is_refused_before_the_upgrade() -> None:
    async with serving() as server:
        for path in ("/ws/x", "/nope", "/ws/../etc", "//ws", "/health"):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(f"ws://127.0.0.1:{server.port}{path}"):
                    pass
            assert refused.value.response.status_code == 404
        await still_serves(server)


async def test_a_peer_that_only_opens_connections_keeps_nobody_out() -> None:
    async with serving() as server, anyio.create_task_group() as tasks:
        opened = anyio.Semaphore(0)

        async def hold() -> None:
            async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
                await stream.send(b"GET /ws HTTP/1.1\r\n")
                opened.release()
                await anyio.sleep_forever()

        for _ in range(100):
            tasks.start_soon(hold)
        with anyio.fail_after(60):
            for _ in range(100):
                await opened.acquire()
        await still_serves(server)
        tasks.cancel_scope.cancel()


async def test_one_peers_mistakes_are_never_told_to_another() -> None:
    async with serving(Play()) as server, client(server.url) as alice, client(server.url) as mallory:
        image_id = (await alice.image())["imageId"]
        await mallory.request("image_get_request", imageId=image_id)
        mark = len(alice.events)
        await mistakes(mallory, image_id)
        await alice.settle()
        assert alice.types[mark:] == ["container_list_response"]


async def mistakes(one: Client19, image_id: str) -> None:
    for frame in (
        "not json",
        "[]",
        '{"type":5}',
        '{"type":"bogus_request","data":{}}',
        '{"type":"image_run_request","data":{}}',
    ):
        await one.socket.send(frame)
    await one.request("image_run_request", imageId="nope")
    await one.request("message_send_request", imageId=image_id, content=5)
    await one.settle()
