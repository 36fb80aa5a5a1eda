import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from tests.server.fixtures import open_listener
from websockets.asyncio.client import connect

from agentvm.server import transport as transport_module
from agentvm.server.http import gate as gate_module
from agentvm.server.transport import Gate, Inbox, JoiningTransport


class FakeLoop:
    """Runs what was scheduled when told to."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def tick(self) -> None:
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()


class FakeTransport:
    """Writes down what reaches the kernel."""

    def __init__(self) -> None:
        self.log: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.log.append(data)

    def close(self) -> None:
        self.log.append("close")

    def is_closing(self) -> bool:
        return "close" in self.log


def joined() -> tuple[JoiningTransport, FakeTransport, FakeLoop]:
    transport, loop = FakeTransport(), FakeLoop()
    untyped: Any = (transport, loop)
    return JoiningTransport(*untyped), transport, loop


def test_the_frames_of_one_tick_leave_in_one_write_and_in_order() -> None:
    joining, transport, loop = joined()
    for frame in (b"a", b"b", b"c"):
        joining.write(frame)
    assert transport.log == []
    loop.tick()
    joining.write(b"d")
    loop.tick()
    loop.tick()
    assert transport.log == [b"abc", b"d"]


def test_what_was_written_before_the_close_leaves_before_it() -> None:
    joining, transport, loop = joined()
    joining.write(b"last words")
    joining.close()
    loop.tick()
    assert transport.log == [b"last words", "close"]


def test_everything_else_is_the_transports_own() -> None:
    joining, transport, _ = joined()
    assert not joining.is_closing()
    transport.close()
    assert joining.is_closing()


REQUEST = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def wait_closed(stream: anyio.abc.SocketStream, sent: bytes = b"") -> None:
    with suppress(anyio.BrokenResourceError):
        if sent:
            await stream.send(sent)
        async for _ in stream:
            pass


@pytest.mark.anyio
@pytest.mark.parametrize("sent", [b"", b"GET /health HT", REQUEST[:-2], REQUEST + b"G"])
async def test_a_connection_without_a_whole_request_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "HEAD_SECONDS", 0.05)
    with anyio.fail_after(5):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await wait_closed(stream, sent)


@pytest.mark.anyio
async def test_a_connection_that_has_said_what_it_wants_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(transport_module, "FIRST_REQUEST", 0.5)
    with anyio.fail_after(5):
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


@pytest.mark.anyio
@pytest.mark.parametrize("path", [b"/v1/auth/nowhere", b"/health", b"/ready"])
async def test_who_was_answered_does_not_hold_the_connection_with_the_rest_of_a_body(
    path: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "LEFTOVER", 0.05)
    with anyio.fail_after(5):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(HALF.replace(b"/v1/auth/keys", path))
                assert (await stream.receive()).startswith(b"HTTP/1.1 4")
                await wait_closed(stream, b"x")


@pytest.mark.anyio
async def test_who_is_reading_a_body_has_its_own_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "FIRST_REQUEST", 0.05)
    monkeypatch.setattr(gate_module, "BODY_SECONDS", 0.5)
    with anyio.fail_after(5):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(HALF.replace(b"/v1/auth/keys", b"/v1/tenants"))
                assert (await stream.receive()).startswith(b"HTTP/1.1 408")


@pytest.mark.anyio
async def test_a_whole_body_that_nobody_read_leaves_the_connection_open() -> None:
    whole = b"POST /nope HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\nabc"
    with anyio.fail_after(5):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                for _ in range(2):
                    await stream.send(whole)
                    assert (await stream.receive()).startswith(b"HTTP/1.1 404")


@pytest.mark.anyio
async def test_a_body_that_came_after_its_answer_leaves_the_connection_open() -> None:
    # Most clients send head and body one by one, and a refusal may be faster.
    head, body = b"POST /nope HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\n", b"abc"
    with anyio.fail_after(5):
        async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                for _ in range(3):
                    await stream.send(head)
                    assert (await stream.receive()).startswith(b"HTTP/1.1 404")
                    await stream.send(body)
                await stream.send(REQUEST)
                assert (await stream.receive()).startswith(b"HTTP/1.1 200")


async def test_an_inbox_hands_out_messages_in_order_and_wakes_its_reader() -> None:
    inbox, read = Inbox(), []

    async def reader() -> None:
        for _ in range(3):
            read.append(await inbox.get())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader)
            await anyio.wait_all_tasks_blocked()
            for message in ("a", "b", "c"):
                inbox.put_nowait(message)
    assert read == ["a", "b", "c"]
    assert inbox.empty()


async def test_a_reader_that_gave_up_takes_no_message_with_it() -> None:
    inbox = Inbox()
    with anyio.move_on_after(0):
        await inbox.get()
    inbox.put_nowait("a")
    with anyio.fail_after(5):
        assert await inbox.get() == "a"


async def test_a_gate_holds_everybody_back_only_while_it_is_shut() -> None:
    gate, passed = Gate(), []

    async def passer(name: str) -> None:
        await gate.wait()
        passed.append(name)

    with anyio.fail_after(5):
        await passer("open")
        gate.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(passer, "first")
            tasks.start_soon(passer, "second")
            await anyio.wait_all_tasks_blocked()
            assert passed == ["open"]
            gate.set()
    assert passed == ["open", "first", "second"]


@pytest.mark.anyio
async def test_a_request_whose_head_has_no_end_is_refused() -> None:
    async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            start = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
            await stream.send(start + b"x" * (transport_module.MAX_HEAD + 1 - len(start)))
            with anyio.fail_after(5):
                assert (await stream.receive()).startswith(b"HTTP/1.1 431 ")
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()


@pytest.mark.anyio
async def test_a_large_body_is_no_large_head() -> None:
    async with open_listener() as (_, listener), listener.listen("127.0.0.1", 0) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            size = 3 * transport_module.MAX_HEAD
            head = f"POST /nope HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n"
            with anyio.fail_after(5):
                await stream.send(head.encode() + b"x" * size)
                assert (await stream.receive()).startswith(b"HTTP/1.1 404 ")
