"""A real server and peers that have not said who they are: how much they may send, how many may wait, and how long."""

import base64
import json
from contextlib import suppress

import anyio
import pytest
from anyio.abc import SocketStream
from tests.server.test_authentication import ask, bearer, closed_with, open_site
from websockets.asyncio.client import connect

from agentvm.server import handshake, pending_sockets
from agentvm.server.transport import UNKNOWN_MAX_BYTES

MASK = b"\0\0\0\0"


async def open_raw(port: int) -> SocketStream:
    """A socket without a client: it never answers a close."""
    stream = await anyio.connect_tcp("127.0.0.1", port)
    key = base64.b64encode(b"0" * 16).decode()
    head = f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    await stream.send(f"{head}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
    assert (await stream.receive()).startswith(b"HTTP/1.1 101")
    return stream


def text(payload: bytes, *, first: int = 0x81) -> bytes:
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return bytes([first]) + length + MASK + payload


async def until_closed(stream: SocketStream, sent: bytes = b"") -> None:
    with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
        if sent:
            await stream.send(sent)
        while True:
            await stream.receive()


async def test_nobody_may_send_a_large_frame_before_they_are_known() -> None:
    async with open_site() as site, connect(site.server.ws_url) as socket:
        await socket.send(json.dumps({"type": "subscribe", "sessionId": "x" * UNKNOWN_MAX_BYTES}))
        assert await closed_with(socket) in (1006, 1009)


@pytest.mark.parametrize(
    "sent",
    [
        bytes([0x81, 0x80 | 127]) + (90_000_000).to_bytes(8, "big") + MASK + b" " * (UNKNOWN_MAX_BYTES + 1),
        text(b" " * 1_000, first=0x01) + text(b" " * 1_000, first=0x00) * 100,
        text(b"", first=0x01) + text(b" ", first=0x00) * 2_000,
    ],
    ids=["one frame", "pieces", "small pieces"],
)
async def test_nor_a_frame_that_does_not_end(sent: bytes) -> None:
    async with open_site() as site:
        with anyio.fail_after(60):
            async with await open_raw(site.server.port) as stream:
                await until_closed(stream, sent)


async def test_whoever_is_known_may_send_a_large_frame_right_after_the_credentials() -> None:
    async with open_site() as site:
        _, key = await site.key()
        auth = json.dumps({"type": "auth", "headers": bearer(key)}).encode()
        large = {"type": "container_create_request", "data": {"containerId": "c1", "requestId": "r", "x": "x" * 1_000_000}}
        with anyio.fail_after(60):
            async with await open_raw(site.server.port) as stream:
                await stream.send(text(auth) + text(json.dumps(large).encode()))
                heard = b""
                while b"container_create_response" not in heard:
                    heard += await stream.receive()


async def test_patience_ends_with_the_connection_whatever_the_peer_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_TIMEOUT_SECONDS", 0.05)
    async with open_site() as site:
        # Less than the time that a close which nobody answers takes.
        with anyio.fail_after(60):
            async with await open_raw(site.server.port) as stream:
                await until_closed(stream)
            async with connect(site.server.ws_url) as socket:
                assert await closed_with(socket) == 4401


@pytest.mark.parametrize("limit", ["PENDING_PER_ORIGIN_MAX", "PENDING_MAX"])
async def test_whoever_waited_longest_makes_way_for_the_newcomer(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_sockets, limit, 1)
    async with open_site() as site:
        _, key = await site.key()
        url = site.server.ws_url
        async with connect(url) as first, connect(url) as waiting:
            assert await closed_with(first) == 1013
            async with connect(f"{url}?token={key}") as known:
                await ask(known, "container_list")
            await waiting.send(json.dumps({"type": "auth", "headers": bearer(key)}))
            await ask(waiting, "container_list")
            # Whoever is known does not wait any more.
            async with connect(url):
                pass
