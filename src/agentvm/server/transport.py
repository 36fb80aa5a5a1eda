"""Transport — joins the frames of one loop tick into one write, lets a socket be aborted, ends silent connections.

An answer arrives as bursts of small frames; uvicorn writes each to the kernel by itself. Joined, a frame costs about
a quarter (measured in `bench/turns.py`). Frames stay whole and in order.

Most sockets are idle most of the time, and there are many of them. So a socket lets go of what it no longer needs, and waits
in less: uvicorn's keeps its handshake and its last frame, and has five empty deques (measured in `bench/density.py`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from agentvm.server.descriptors import Silent

ABORT = "agentvm.abort"
"""The ASGI extension under which a socket's handler finds its abort: a peer that does not read never lets `close` finish.

There is `trust` too, to be called when the peer is known."""

MAX_UNKNOWN = 65_536
"""Bytes of a message from a peer that is not known yet."""
MAX_WAITING = 1_100
"""Messages of such a peer that may wait for their handler, and pieces of one message."""

HEAD_SECONDS = 5.0
"""How long a new connection may take until the head of its first request is complete, and a later request from its first
byte on: whoever says nothing must not hold a descriptor."""

FIRST_REQUEST = 20.0
"""Seconds that the body of a request may take after its head."""

LEFTOVER = 1.0
"""Seconds that the rest of a body is read and thrown away after its request was answered; then the connection is closed."""

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

    def abort(self) -> None:
        self._flush()
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._pending:
            joined = b"".join(self._pending)
            self._pending.clear()
            if not self._transport.is_closing():
                # A peer that has gone meanwhile would be an error in a callback that nobody waits for.
                self._transport.write(joined)


class Inbox:
    """An `asyncio.Queue` for one reader, without its four deques."""

    __slots__ = ("_messages", "_reader")

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._reader: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._messages)

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
    """uvicorn's protocol over a `JoiningTransport`, and lighter.

    A peer is unknown until its handler trusts it. Until then no more is read than the handler asks for, and what is larger
    than credentials can be closes the socket. The parser's own limit would not do: it is looked up before the frame arrives,
    so the first large one after the credentials would be refused.
    """

    unknown = True

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
            self.scope["extensions"][ABORT] = {"abort": self.transport.abort, "trust": self.trust}

    def trust(self) -> None:
        self.unknown = False
        if self.queue.empty():
            self._read_on()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.unknown:
            # While reading is paused the handler is busy, perhaps with the credentials that allow what has come after them.
            self._check_size(len(self._waiting) * MAX_UNKNOWN // MAX_WAITING if self.read_paused else self._held())

    async def send(self, message: Any) -> None:
        if self.close_sent and self.handshake_complete and self.initial_response is None:
            # The peer broke the protocol and was closed while its handler was busy: for the handler it has gone.
            raise ClientDisconnected
        await super().send(message)

    def receive(self) -> Coroutine[Any, Any, Any]:
        # Not a coroutine of its own: an idle socket waits in it.
        return self._receive_unknown() if self.unknown else super().receive()

    async def _receive_unknown(self) -> Any:
        if self.queue.empty():
            self._check_size(self._held())
            self._read_on()
        message: dict[str, Any] = await self.queue.get()  # type: ignore[assignment]
        if self._check_size(len(message.get("text") or message.get("bytes") or "")):
            return message
        return {"type": "websocket.disconnect", "code": CloseCode.MESSAGE_TOO_BIG}

    @property
    def _waiting(self) -> Inbox:
        return self.queue  # type: ignore[return-value]

    def _read_on(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def _held(self) -> int:
        """What has come of a message that has not ended; many small pieces count for more than their bytes."""
        pieces = len(self.frames) * MAX_UNKNOWN // MAX_WAITING
        return max(len(self.conn.reader.buffer) + (self.conn.current_size or 0), pieces)

    def _check_size(self, size: int) -> bool:
        """Ends the connection of an unknown peer that has sent more than it may."""
        if size <= MAX_UNKNOWN or self.close_sent or self.transport.is_closing():
            return True
        self.frames = []
        if self.handshake_complete and not self.transport.get_write_buffer_size():
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too large for a peer that is not known")
            self.handle_parser_exception()
        else:
            # It would not hear why.
            self.transport.abort()
        return False

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
        if event.data or event.fin:
            super().handle_cont(event)
        event.data = b""


class PromptProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, for peers that have something to say, and come to the point.

    Silent ones do not hold a file descriptor for ever, and a head without end does not fill the memory. A request is whole
    in time, its body too, unless its handler reads it: that one has a patience of its own. What a handler has answered
    without reading all of it is not waited for.
    """

    def __init__(self, config: Config, server_state: ServerState, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, server_state, *args, **kwargs)
        self._silent: Silent | None = getattr(server_state, "silent", None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._head: int | None = 0
        self._whole = True
        self._ending = False
        self._patience = self.loop.call_later(HEAD_SECONDS, transport.close)
        if self._silent is not None:
            self._silent.enter(self, "" if self.client is None else self.client[0], transport.abort)

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
        self._whole = False
        if self._patience.cancelled():
            # A further request on this connection: its first byte has ended uvicorn's keep-alive timer.
            self._patience = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def on_headers_complete(self) -> None:
        self._head = None
        self._patience.cancel()
        self._patience = self.loop.call_later(FIRST_REQUEST, self.transport.close)
        self._spoken()
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            # The handler's task has not run yet, so this is the one it is given.
            self.cycle.receive = self._followed(self.cycle)  # type: ignore[method-assign]

    def on_message_complete(self) -> None:
        self._whole = True
        self._patience.cancel()
        super().on_message_complete()
        if self._ending:
            # All of it came in time. The peer may have sent its next request already, so the connection is good again.
            self._ending = False
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._whole and self.cycle.response_complete and not self.transport.is_closing():
            # Not closed at once: a peer that is still sending would be reset, and might lose the answer.
            self._unset_keepalive_if_required()
            self._patience.cancel()
            self._patience = self.loop.call_later(LEFTOVER, self.transport.close)
            self._ending = True

    def handle_websocket_upgrade(self) -> None:
        # The transport is somebody else's from now on.
        self._patience.cancel()
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        self._spoken()
        super().connection_lost(exc)

    def _spoken(self) -> None:
        if self._silent is not None:
            self._silent.leave(self)

    def _followed(self, cycle: RequestResponseCycle) -> Callable[[], Coroutine[Any, Any, Any]]:
        receive = cycle.receive

        async def read() -> Any:
            if cycle is self.cycle and not cycle.response_complete:
                self._patience.cancel()
            return await receive()

        return read
