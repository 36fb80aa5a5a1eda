"""F23: a frame of too many values or bytes is refused before anything is built of it. F24: bytes that stay on their way, in
unfinished frames or in replies that nobody reads, do not fill the memory. Meanwhile `/health` is answered.

`AVM_FAULT_FRAME_MB` is the size of the frames (30).
"""

import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.faults.process import Server, open_server, rss
from tests.support.hostile import RawSocket
from tests.support.wire import client
from websockets.asyncio.client import ClientConnection, connect

MB = 1024 * 1024
FRAME_MB = int(os.environ.get("AVM_FAULT_FRAME_MB", "30"))
SERVER_BYTES = 2 * 1024 * MB
"""What the server may have at most; it dies of more."""
MAX_RSS_BYTES = 1024 * MB
HEALTH_SECONDS = 60.0
"""A machine that has other things to do too may need its time; what was measured is printed."""
WAIT = 60.0


class Watch:
    """How long `/health` took, and how large the server was, at worst."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.slowest_ms = 0.0
        self.largest = 0

    async def run(self) -> None:
        while True:
            await self.look()
            await anyio.sleep(0.02)

    async def look(self) -> None:
        began = time.perf_counter()
        with anyio.fail_after(HEALTH_SECONDS):
            async with await anyio.connect_tcp("127.0.0.1", self._server.port) as stream:
                await stream.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
        self.slowest_ms = max(self.slowest_ms, (time.perf_counter() - began) * 1000)
        self.largest = max(self.largest, rss(self._server.pid))


@asynccontextmanager
async def attacked(data_dir: Path, what: str) -> AsyncIterator[Server]:
    """A server with a memory limit, which is asked for its health all the time."""
    async with open_server(data_dir) as server:
        resource.prlimit(server.pid, resource.RLIMIT_DATA, (SERVER_BYTES, SERVER_BYTES))
        watch = Watch(server)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.run)
            yield server
            tasks.cancel_scope.cancel()
        await watch.look()
    sys.stdout.write(f"{what}: /health at most {watch.slowest_ms:.0f} ms, RSS at most {watch.largest / MB:.0f} MiB\n")
    assert watch.largest < MAX_RSS_BYTES


async def ask(socket: ClientConnection, kind: str, **data: Any) -> dict[str, Any]:
    await socket.send(json.dumps({"type": f"{kind}_request", "data": {"requestId": "r", **data}}))
    return await answer(socket)


async def answer(socket: ClientConnection) -> dict[str, Any]:
    with anyio.fail_after(WAIT):
        while True:
            event = json.loads(await socket.recv())
            if event.get("category") == "response":
                found: dict[str, Any] = event["data"]
                return found


def bomb(size: int) -> bytes:
    """An image whose configuration is a list of empty lists, in about so many bytes."""
    head = b'{"type":"image_create_request","data":{"requestId":"r","containerId":"c","config":{"mcpServers":{"a":['
    return head + b"[]," * (size // 3) + b"[]]}}}}"


async def test_f23_a_frame_of_too_many_values_costs_nobody_anything(tmp_path: Path) -> None:
    async with attacked(tmp_path, "F23 values") as server:
        for _ in range(3):
            async with RawSocket.open(server.port) as mallory:
                await mallory.send_frame(bomb(FRAME_MB * MB))
                await mallory.received(b"holds too many values")
        async with connect(server.url) as alice:
            await alice.send(bomb(MB * 9 // 10), text=True)
            refused = await answer(alice)
            assert (refused["errorCode"], refused["requestId"]) == ("input_too_large", "r")
            assert "containerIds" in await ask(alice, "container_list")


@pytest.mark.parametrize("size", [99, 90])
async def test_f23_a_frame_larger_than_any_command_closes_its_socket(tmp_path: Path, size: int) -> None:
    async with attacked(tmp_path, f"F23 {size} MB") as server:
        async with RawSocket.open(server.port) as mallory:
            await mallory.send_frame(bomb(size * MB), patient=False)
            assert await mallory.closed() in (1009, None)


async def test_f23_a_message_that_is_too_long_is_refused_with_the_remedy(tmp_path: Path) -> None:
    async with attacked(tmp_path, "F23 message") as server, connect(server.url, max_size=None) as alice:
        image_id = (await ask(alice, "image_create", containerId="c"))["record"]["imageId"]
        refused = await ask(alice, "message_send", imageId=image_id, content="x" * (9 * MB))
        assert refused["errorCode"] == "input_too_large"
        assert "limits.messageBytes" in refused["error"]
        assert "/v1/attachments" in refused["error"]
        picture = {"type": "image", "data": "iVBO" * (9 * MB), "mediaType": "image/png"}
        refused = await ask(alice, "message_send", imageId=image_id, content=[picture])
        assert "limits.inlineBytes" in refused["error"]
        async with RawSocket.open(server.port) as mallory:
            await mallory.send_frame(b'{"type":"message_send_request","data":{"content":"' + b"x" * (90 * MB), patient=False)
            assert await mallory.closed() in (1009, None)
        async with connect(server.url) as bob:
            assert (await ask(bob, "message_send", imageId=image_id, content="hello"))["turnId"]


async def test_f24_unfinished_frames_do_not_fill_the_memory(tmp_path: Path) -> None:
    async with attacked(tmp_path, "F24 unfinished frames") as server:
        part = bomb(FRAME_MB * MB)[: FRAME_MB * MB * 94 // 100]
        head = b"\x81\xff" + (FRAME_MB * MB).to_bytes(8) + b"\x00\x00\x00\x00"
        async with AsyncExitStack() as stack:
            held = [await stack.enter_async_context(RawSocket.open(server.port)) for _ in range(22)]
            for mallory in held:
                await mallory.send_bytes(head + part, patient=False)
            # Who finds no room is told so.
            assert await held[-1].closed() in (1013, None)
            async with connect(server.url) as alice:
                assert "containerIds" in await ask(alice, "container_list")
        async with connect(server.url, max_size=None) as alice:
            # What they held is free again.
            image_id = (await ask(alice, "image_create", containerId="c"))["record"]["imageId"]
            picture = {"type": "image", "data": "iVBO" * (2 * MB), "mediaType": "image/png"}
            with anyio.fail_after(WAIT):
                while "turnId" not in await ask(alice, "message_send", imageId=image_id, content=[picture]):  # noqa: ASYNC110
                    await anyio.sleep(0.05)


async def test_f24_replies_that_nobody_reads_do_not_fill_the_memory(tmp_path: Path) -> None:
    data = "iVBO" * (FRAME_MB * MB // 60)
    async with attacked(tmp_path, "F24 unread replies") as server:
        async with client(server.url) as alice:
            image_id = (await alice.image())["imageId"]
            picture = {"type": "image", "data": data, "mediaType": "image/png"}
            for _ in range(6):
                content = [picture, {"type": "text", "text": "hi"}]
                assert "turnId" in await alice.request("message_send_request", imageId=image_id, content=content)
        request = json.dumps({"type": "image_messages_request", "data": {"requestId": "r", "imageId": image_id}}).encode()
        async with AsyncExitStack() as stack:
            for _ in range(40):
                mallory = await stack.enter_async_context(RawSocket.open(server.port))
                for _ in range(2):
                    await mallory.send_frame(request)
            async with connect(server.url) as bob:
                for _ in range(100):
                    assert "containerIds" in await ask(bob, "container_list")
        async with connect(server.url, max_size=None) as bob:
            with anyio.fail_after(WAIT):
                while "errorCode" in (told := await ask(bob, "image_messages", imageId=image_id)):  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            assert [one["content"][0]["data"] == data for one in told["messages"] if one["subtype"] == "user"] == [True] * 6
