import anyio
import anyio.lowlevel
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from agentvm.errors import ToolFailed
from agentvm.tools.mcp.stdio import UNASKED_MAX_MESSAGES, stdio_transport

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/message"}\n'


class Pipes:
    """A process of the test: what it writes is given, what it is sent is kept once it reads."""

    def __init__(self, *pieces: bytes, reads: bool = True) -> None:
        self.stderr_tail = ""
        self.sent: list[bytes] = []
        self._pieces = list(pieces)
        self._reads = reads

    async def send(self, data: bytes) -> None:
        if not self._reads:
            await anyio.sleep_forever()
        self.sent.append(data)

    async def receive(self) -> bytes:
        if self._pieces:
            return self._pieces.pop(0)
        await anyio.sleep_forever()
        return b""


def request(number: int, padding: str = "") -> SessionMessage:
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/call", params={"padding": padding}))


async def test_lines_arrive_whole_however_they_were_cut() -> None:
    body = NOTE + b"\n  \n" + ANSWER
    for size in (1, 7, 1000):
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        with anyio.fail_after(60):
            async with stdio_transport(Pipes(*pieces)) as (received, _):
                first, second = await received.receive(), await received.receive()
        assert isinstance(first, SessionMessage)
        assert isinstance(first.message, JSONRPCNotification)
        assert isinstance(second, SessionMessage)
        assert isinstance(second.message, JSONRPCResponse)


async def failing(*pieces: bytes, max_bytes: int = 1000) -> str:
    async def read() -> None:
        async with stdio_transport(Pipes(*pieces), max_bytes=max_bytes) as (received, _):
            async for _message in received:
                pass
            await anyio.sleep_forever()

    with anyio.fail_after(60), pytest.raises(ExceptionGroup) as group:
        await read()
    (error,) = group.value.exceptions
    assert isinstance(error, ToolFailed)
    return str(error)


async def test_a_line_that_is_too_long_ends_the_session_before_it_is_kept() -> None:
    assert "more than 1000 bytes" in await failing(b"x" * 600, b"x" * 600)
    assert "more than 1000 bytes" in await failing(b"x" * 1001 + b"\n")
    assert "more than 1000 bytes" in await failing(*[b"x" * 65536] * 800, max_bytes=1000)


async def test_a_flood_of_messages_or_of_nonsense_ends_the_session() -> None:
    assert "too many messages" in await failing(NOTE * (UNASKED_MAX_MESSAGES + 1))
    assert "not messages" in await failing(b"starting up\n" * 101)
    assert "has ended" in await failing(ANSWER, b"")


async def test_some_lines_that_are_no_messages_are_passed_over() -> None:
    with anyio.fail_after(60):
        async with stdio_transport(Pipes(b"listening\n{not json\n[]\n" + ANSWER)) as (received, _):
            message = await received.receive()
    assert isinstance(message, SessionMessage)
    assert isinstance(message.message, JSONRPCResponse)


async def test_a_message_is_written_whole_also_when_its_sender_gives_up() -> None:
    process = Pipes()
    with anyio.fail_after(60):
        async with stdio_transport(process) as (_, outbox):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await outbox.send(request(1, "x" * 100_000))
            await outbox.send(request(2))
            while len(process.sent) < 2:
                await anyio.lowlevel.checkpoint()
    assert [line.count(b"\n") for line in process.sent] == [1, 1]
    assert all(line.endswith(b"}\n") for line in process.sent)


async def test_a_cancel_does_not_wait_for_a_server_that_reads_nothing() -> None:
    cancelled = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1}))
    with anyio.fail_after(60):
        async with stdio_transport(Pipes(reads=False)) as (_, outbox):
            with anyio.move_on_after(0.2) as waiting:
                for number in range(1000):
                    await outbox.send(request(number))
            assert waiting.cancelled_caught
            with anyio.fail_after(60):
                await outbox.send(cancelled)
