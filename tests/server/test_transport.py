import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from tests.server.fixtures import open_listener
from tests.support.hostile import RawSocket
from websockets.asyncio.client import connect

from agentvm.model.ids import DEFAULT_TENANT
from agentvm.server import transport as transport_module
from agentvm.server.http import body as body_module
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.vm import AgentVM

REQUEST = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def wait_closed(stream: anyio.abc.SocketStream, sent: bytes = b"") -> None:
    with suppress(anyio.BrokenResourceError):
        if sent:
            await stream.send(sent)
        async for _ in stream:
            pass


@pytest.mark.parametrize("sent", [b"", b"GET /health HT", REQUEST[:-2], REQUEST + b"G"])
async def test_a_connection_without_a_whole_request_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "HEAD_SECONDS", 0.05)
    with anyio.fail_after(60):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await wait_closed(stream, sent)


async def test_a_connection_that_has_said_what_it_wants_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(transport_module, "BODY_SECONDS", 0.5)
    with anyio.fail_after(60):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with (
                connect(f"ws://127.0.0.1:{port}/ws") as socket,
                await anyio.connect_tcp("127.0.0.1", port) as asking,
            ):
                await asking.send(REQUEST)
                assert (await asking.receive()).startswith(b"HTTP/1.1 200")
                async with await anyio.connect_tcp("127.0.0.1", port) as silent:
                    # It came last; so the time of the other two is over as well.
                    await wait_closed(silent)
                await socket.recv()
                await socket.send('{"type":"container_list_request","data":{"requestId":"r"}}')
                assert json.loads(await socket.recv())["data"]["requestId"] == "r"
                await asking.send(REQUEST)
                assert (await asking.receive()).startswith(b"HTTP/1.1 200")


HALF = b"POST /v1/auth/keys HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n"


@pytest.mark.parametrize("path", [b"/v1/auth/nowhere", b"/health", b"/ready"])
async def test_who_was_answered_does_not_hold_the_connection_with_the_rest_of_a_body(
    path: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "LEFTOVER_SECONDS", 0.05)
    with anyio.fail_after(60):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(HALF.replace(b"/v1/auth/keys", path))
                assert (await stream.receive()).startswith(b"HTTP/1.1 4")
                await wait_closed(stream, b"x")


async def test_who_is_reading_a_body_has_its_own_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first must be long enough for a busy machine to begin to read.
    monkeypatch.setattr(transport_module, "BODY_SECONDS", 1.0)
    monkeypatch.setattr(body_module, "BODY_SECONDS", 2.0)
    with anyio.fail_after(60):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(HALF.replace(b"/v1/auth/keys", b"/v1/tenants"))
                assert (await stream.receive()).startswith(b"HTTP/1.1 408")


async def test_a_whole_body_that_nobody_read_leaves_the_connection_open() -> None:
    whole = b"POST /nope HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\nabc"
    with anyio.fail_after(60):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                for _ in range(2):
                    await stream.send(whole)
                    assert (await stream.receive()).startswith(b"HTTP/1.1 404")


async def test_a_body_that_came_after_its_answer_leaves_the_connection_open() -> None:
    # Most clients send head and body one by one, and a refusal may be faster.
    head, body = b"POST /nope HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\n", b"abc"
    with anyio.fail_after(60):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                for _ in range(3):
                    await stream.send(head)
                    assert (await stream.receive()).startswith(b"HTTP/1.1 404")
                    await stream.send(body)
                await stream.send(REQUEST)
                assert (await stream.receive()).startswith(b"HTTP/1.1 200")


async def test_a_request_whose_head_has_no_end_is_refused() -> None:
    async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            start = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
            await stream.send(start + b"x" * (transport_module.HEAD_MAX_BYTES + 1 - len(start)))
            with anyio.fail_after(60):
                assert (await stream.receive()).startswith(b"HTTP/1.1 431 ")
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()


async def test_a_large_body_is_no_large_head() -> None:
    async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            size = 3 * transport_module.HEAD_MAX_BYTES
            head = f"POST /nope HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n"
            with anyio.fail_after(60):
                await stream.send(head.encode() + b"x" * size)
                assert (await stream.receive()).startswith(b"HTTP/1.1 404 ")


class Crowd:
    """Raw sockets of one real server whose budget is small."""

    def __init__(self, vm: AgentVM, port: int) -> None:
        self.budget = vm.budget
        self.port = port


@asynccontextmanager
async def open_crowd(total: int) -> AsyncIterator[Crowd]:
    with anyio.fail_after(60):
        async with open_listener() as (vm, listener):
            vm.budget = ByteBudget(total_bytes=total)
            async with listener.listen("127.0.0.1", 0) as port:
                yield Crowd(vm, port)
        assert vm.budget.reserved == 0


def unfinished(size: int, sent: int) -> bytes:
    return b"\x81\xff" + size.to_bytes(8) + b"\x00" * 4 + b" " * sent


async def reserved(crowd: Crowd, least: int) -> None:
    while crowd.budget.reserved < least:  # noqa: ASYNC110  # there is no event to wait for
        await anyio.sleep(0.005)


async def test_an_unfinished_message_is_charged_until_there_is_no_room_and_freed_with_its_socket() -> None:
    async with open_crowd(1_100_000) as crowd:
        async with RawSocket.open(crowd.port) as first, RawSocket.open(crowd.port) as second:
            await first.send_bytes(unfinished(900_000, 600_000))
            await reserved(crowd, 600_000)
            assert crowd.budget.reserved_by(DEFAULT_TENANT) == crowd.budget.reserved
            await second.send_bytes(unfinished(900_000, 600_000), patient=False)
            assert await second.closed() in (1013, None)
            # The first goes on.
            await first.send_bytes(b" " * 300_000)
            await first.received(b"system_error")
        await until_free(crowd)


async def until_free(crowd: Crowd) -> None:
    while crowd.budget.reserved:  # noqa: ASYNC110  # there is no event to wait for
        await anyio.sleep(0.005)


async def test_many_small_pieces_cost_more_than_their_bytes() -> None:
    async with open_crowd(1_000_000) as crowd, RawSocket.open(crowd.port) as mallory:
        piece = b"\x00\x81" + b"\x00" * 4 + b" "
        await mallory.send_bytes(b"\x01\x81" + b"\x00" * 4 + b" " + piece * 20_000, patient=False)
        assert await mallory.closed() in (1013, None)


async def test_a_large_message_that_does_not_go_on_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "FRAME_SECONDS", 0.1)
    async with open_crowd(10_000_000) as crowd, RawSocket.open(crowd.port) as mallory:
        await mallory.send_bytes(unfinished(900_000, 600_000))
        assert await mallory.closed() == 1008


async def test_a_large_message_that_goes_on_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may be late with a piece, but not by this much; all of them take longer.
    monkeypatch.setattr(transport_module, "FRAME_SECONDS", 1.0)
    monkeypatch.setattr(transport_module, "FRAME_MIN_BYTES", 1)
    async with open_crowd(10_000_000) as crowd, RawSocket.open(crowd.port) as alice:
        await alice.send_bytes(unfinished(900_000, 600_000))
        for _ in range(30):
            await alice.send_bytes(b" " * 10_000)
            await anyio.sleep(0.05)
        await alice.received(b"system_error")
