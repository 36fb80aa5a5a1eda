"""MCP over stdio — messages as lines over the pipes of a process, bounded in both directions.

The process itself is given: a jail in production. A line has at most `max_bytes`, a server that writes more than requested is
disconnected, and a message is written completely or not at all, even if the sender is cancelled.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Protocol, Self

import anyio
from anyio.abc import ObjectReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

from agentvm.errors import AgentVMError, ToolFailed
from agentvm.tools.base import RESULT_MAX_BYTES

LINE_MAX_BYTES = 4 * 1024 * 1024
UNASKED_MAX_MESSAGES = 10_000
"""Messages that a server may send without being sent one."""
_QUEUED_MAX = 64
_UNREADABLE_MAX_LINES = 100
"""Lines that are no messages; some servers write their logs to stdout."""


class StdioProcess(Protocol):
    """A running program, as `Tier.open` gives it."""

    async def send(self, data: bytes) -> None:
        """Writes to its stdin; waits while it does not read."""

    async def receive(self) -> bytes:
        """Returns the next piece of its stdout; empty when it has ended."""

    @property
    def stderr_tail(self) -> str: ...


class Outbox:
    """The stream that the session writes to. Messages are queued here, so that a cancelled sender leaves no partial line."""

    def __init__(self, queue: MemoryObjectSendStream[bytes], unasked: "_Unasked") -> None:
        self._queue, self._unasked = queue, unasked

    async def send(self, message: SessionMessage, /) -> None:
        line = message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        self._unasked.reset()
        try:
            self._queue.send_nowait(line)
        except anyio.WouldBlock:
            cancels = isinstance(message.message, JSONRPCNotification) and message.message.method == "notifications/cancelled"
            if not cancels:
                await self._queue.send(line)
            # A server that reads nothing does not read that a call was cancelled either; the caller has waited enough.

    async def aclose(self) -> None:
        await self._queue.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class _Unasked:
    """Counts the messages of a server between two messages to it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._messages = self._bytes = 0

    def count(self, size: int) -> None:
        self._messages += 1
        self._bytes += size
        if self._messages > UNASKED_MAX_MESSAGES or self._bytes > RESULT_MAX_BYTES:
            raise ToolFailed("The MCP server sends too many messages")


@asynccontextmanager
async def stdio_transport(
    process: StdioProcess, *, max_bytes: int = LINE_MAX_BYTES
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[SessionMessage | Exception], Outbox]]:
    """Opens the two streams of a session over a process. A server that breaks a bound ends both, with a `ToolFailed`."""
    inbox, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    queue, queued = anyio.create_memory_object_stream[bytes](_QUEUED_MAX)
    unasked = _Unasked()
    with inbox, received, queue, queued:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_write, process, queued)
            tasks.start_soon(_read, process, inbox, unasked, max_bytes)
            try:
                yield received, Outbox(queue, unasked)
            finally:
                tasks.cancel_scope.cancel()


async def _write(process: StdioProcess, queued: ObjectReceiveStream[bytes]) -> None:
    async for line in queued:
        try:
            await process.send(line)
        except (AgentVMError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            # It has ended; the reader sees the end too, and tells everybody who waits.
            return


async def _read(
    process: StdioProcess, inbox: MemoryObjectSendStream[SessionMessage | Exception], unasked: _Unasked, max_bytes: int
) -> None:
    unreadable = 0
    # Closed without a checkpoint, so that the session does not end before the cause of its end is raised.
    with inbox:
        async for line in _lines(process, max_bytes):
            unasked.count(len(line))
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                unreadable += 1
                if unreadable > _UNREADABLE_MAX_LINES:
                    raise ToolFailed("The MCP server writes lines that are not messages") from None
                continue
            try:
                await inbox.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
    raise ToolFailed("The MCP server has ended")


async def _lines(process: StdioProcess, max_bytes: int) -> AsyncIterator[bytes]:
    """Yields whole lines. The pieces of a long one are joined once."""
    pieces: list[bytes] = []
    size = 0
    while piece := await process.receive():
        *ends, rest = piece.split(b"\n")
        for end in ends:
            size += len(end)
            if size > max_bytes:
                break
            line = b"".join((*pieces, end)).strip()
            pieces.clear()
            size = 0
            if line:
                yield line
        size += len(rest)
        if size > max_bytes:
            raise ToolFailed(f"The MCP server wrote a line of more than {max_bytes} bytes")
        if rest:
            pieces.append(rest)
