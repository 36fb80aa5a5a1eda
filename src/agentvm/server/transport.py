"""Transport — joins the frames of one loop tick into one write, lets a socket be aborted, ends silent connections.

An answer arrives as bursts of small frames; uvicorn writes each to the kernel by itself. Joined, a frame costs about
a quarter (measured in `bench/turns.py`). Frames stay whole and in order.

Most sockets are idle most of the time, and there are many of them. So a socket lets go of what it no longer needs, and waits
in less: uvicorn's keeps its handshake and its last frame, and has five empty deques (measured in `bench/density.py`).
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

ABORT = "agentvm.abort"
"""The ASGI extension under which a socket's handler finds its abort: a peer that does not read never lets `close` finish."""


FIRST_REQUEST = 20.0
"""Seconds a new connection may take until its first request is complete, and a later request from its first byte on."""


MAX_HEAD = 65_536
"""Bytes of a request's head that are read while it has no end; what arrives in one piece may be a little more."""

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class JoiningTransport:
    """A transport whose writes leave together at the end of the loop's tick."""

    __slots__ = ("_loop", "_pending", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._pending:
            joined = b"".join(self._pending)
            self._pending.clear()
            self._transport.write(joined)


class Inbox:
    """An `asyncio.Queue` for one reader, without its four deques."""

    __slots__ = ("_messages", "_reader")

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._reader: asyncio.Future[None] | None = None

    def empty(self) -> bool:
        return not self._messages

    def put_nowait(self, message: Any) -> None:
        self._messages.append(message)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self) -> Any:
        while not self._messages:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._messages.pop(0)


class Gate:
    """An `asyncio.Event` that is nearly always set, and exists only while it is not."""

    __slots__ = ("_shut",)

    def __init__(self) -> None:
        self._shut: asyncio.Event | None = None

    def set(self) -> None:
        if self._shut is not None:
            self._shut.set()
            self._shut = None

    def clear(self) -> None:
        if self._shut is None:
            self._shut = asyncio.Event()

    async def wait(self) -> None:
        if self._shut is not None:
            await self._shut.wait()


class JoiningProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol over a `JoiningTransport`, and lighter."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.queue = Inbox()  # type: ignore[assignment]  # has what uvicorn uses of it
        self.writable = Gate()  # type: ignore[assignment]  # likewise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(JoiningTransport(transport, self.loop))  # type: ignore[arg-type]  # same methods

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            # The handler's task was created just now and has not run yet.
            self.scope["extensions"][ABORT] = {"abort": self.transport.abort}

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        # A peer that is gone never takes what was already written, and `close` waits for that: for hours, if TCP lets it.
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def start_keepalive(self) -> None:
        """The handshake is over, and nobody reads again what it brought."""
        super().start_keepalive()
        self.request.headers.clear()
        self.response.headers.clear()
        self.scope["headers"] = []

    # The parser keeps the frame until the next one comes; its data may be a picture.

    def handle_text(self, event: Frame) -> None:
        super().handle_text(event)
        event.data = b""

    def handle_bytes(self, event: Frame) -> None:
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        event.data = b""


class PromptProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, for peers that have something to say, and come to the point.

    Silent ones do not hold a file descriptor for ever, and a head without end does not fill the memory.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._head: int | None = 0
        self._patience = self.loop.call_later(FIRST_REQUEST, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > MAX_HEAD and not self.transport.is_closing():
                self.transport.write(TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        if self._patience.cancelled():
            # A further request on this connection: its first byte has ended uvicorn's keep-alive timer.
            self._patience = self.loop.call_later(FIRST_REQUEST, self.transport.close)

    def on_headers_complete(self) -> None:
        self._head = None
        self._patience.cancel()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)
