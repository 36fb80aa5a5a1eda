"""Transport — joins the frames of one loop tick into one write, lets a socket be aborted, ends silent connections.

An answer arrives as bursts of small frames; uvicorn writes each to the kernel by itself. Joined, a frame costs about a quarter
(measured in `bench/turns.py`). Frames stay whole and in order.

Most sockets are idle most of the time, and there are many of them. So a socket releases objects that it no longer needs, and
waits in smaller ones: uvicorn's keeps its handshake and its last frame, and has five empty deques (measured in
`bench/density.py`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request
from websockets.protocol import OPEN

from agentvm.model.ids import TenantId
from agentvm.server.exchange import GONE, PeerWatch
from agentvm.server.idle import Inbox, OpenGate
from agentvm.server.origin_table import OriginTable
from agentvm.server.streams import LARGE_BYTES, JoiningTransport, UncopiedReader, join_texts
from agentvm.server.wire import WIRE
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.reservation import FREE_BYTES, ConnectionReservation

PIECE_COST_BYTES = 64
"""Memory of a piece of a message besides its bytes: many small pieces would fill the memory."""

FRAME_SECONDS = 30.0
FRAME_MIN_BYTES = 480 * 1024
"""An unfinished message that is charged must end, or grow by this much, within this time."""

UNKNOWN_MAX_BYTES = 65_536
"""Bytes of a message from a peer that has not authenticated."""
UNKNOWN_MAX_MESSAGES = 1_100
"""Messages of such a peer that may wait for their handler, and pieces of one message."""

HEAD_SECONDS = 5.0
"""Timeout of the head of a request, from the start of the connection, or from the first byte of a later request: a silent
connection must not hold a descriptor."""

BODY_SECONDS = 20.0
"""Timeout of a request's body after its head."""

UNREAD_SECONDS = 120.0
"""A peer that reads nothing of a waiting response for this long is disconnected."""

LEFTOVER_SECONDS = 1.0
"""The rest of a body is read and discarded for this long after the response; then the connection is closed."""

HEAD_MAX_BYTES = 65_536
"""Maximum head of a request; one that arrives in one piece may be a little larger."""

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class JoiningProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol over a `JoiningTransport`, and lighter.

    A peer is unknown until its handler trusts it. Until then only the frames that the handler requests are read, and a frame
    larger than credentials closes the socket. The parser's own limit would not do: it is read before the frame arrives, so the
    first large frame after the credentials would be refused.

    Received bytes are charged to the budget, from the first byte of a message until its handler asks for the next one. A peer
    without room in the budget, or with a large unfinished message, is disconnected.
    """

    unknown = True

    def __init__(self, *args: Any, budget: ByteBudget, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Its parser has begun already, and knows this very object.
        self.conn.reader.__class__ = UncopiedReader
        self._charge = ConnectionReservation(budget, None)
        self._handled = True
        self._pace: asyncio.TimerHandle | None = None
        self._pace_bytes = 0
        self.queue = Inbox()  # type: ignore[assignment]  # has what uvicorn uses of it
        self.writable = OpenGate()  # type: ignore[assignment]  # likewise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(JoiningTransport(transport, self.loop))  # type: ignore[arg-type]  # same methods

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            self._handled = False
            # The handler's task was created just now and has not run yet.
            # It is an object, not the dictionary of a standard extension.
            self.scope["extensions"][WIRE] = self  # type: ignore[assignment]

    def abort(self) -> None:
        self.transport.abort()

    def trust(self, tenant_id: TenantId) -> None:
        self.unknown = False
        if not self._charge.move(tenant_id):
            self._end_busy()
        elif self.queue.empty():
            self._read_on()

    async def drain(self) -> None:
        self.transport.flush()  # type: ignore[attr-defined]  # of the JoiningTransport
        await self.writable.wait()
        if self.disconnected:
            raise ClientDisconnected

    async def send_all(self, texts: Sequence[str]) -> None:
        await self.writable.wait()
        self._send_texts(texts)

    def send_now(self, texts: Sequence[str]) -> bool:
        if not self.writable.is_set():
            return False
        self._send_texts(texts)
        return True

    def _send_texts(self, texts: Sequence[str]) -> None:
        """Sends each as a frame of its own. Made here: for a small text the parser takes several times as long."""
        if self.disconnected or self.close_sent or self.conn.state is not OPEN:
            raise ClientDisconnected
        if self.conn.extensions:
            for text in texts:
                self.conn.send_text(text.encode())
            self.transport.write(b"".join(self.conn.data_to_send()))
        else:
            self.transport.write_now(join_texts(texts))  # type: ignore[attr-defined]  # of the JoiningTransport

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        held = self._waiting.held + self._unfinished()
        if held > FREE_BYTES or self._charge.held:
            self._charge_for(held)
        if self.unknown:
            # While reading is paused the handler is busy, perhaps with the credentials that allow the frames after them.
            self._check_size(
                len(self._waiting) * UNKNOWN_MAX_BYTES // UNKNOWN_MAX_MESSAGES if self.read_paused else self._held()
            )

    async def send(self, message: Any) -> None:
        if self.close_sent and self.handshake_complete and self.initial_response is None:
            # The peer broke the protocol and was closed while its handler was busy: for the handler it has gone.
            raise ClientDisconnected
        await super().send(message)

    def receive(self) -> Coroutine[Any, Any, Any]:
        # Not a coroutine of its own: an idle socket waits in it.
        self._waiting.recount()
        if self._charge.held:
            self._charge.hold(self._waiting.held + self._unfinished())
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
        """Returns the size of an unfinished message; many small pieces count for more than their bytes."""
        pieces = len(self.frames) * UNKNOWN_MAX_BYTES // UNKNOWN_MAX_MESSAGES
        return max(len(self.conn.reader.buffer) + (self.conn.current_size or 0), pieces)

    def _unfinished(self) -> int:
        """Returns the memory of an unfinished message."""
        return len(self.conn.reader.buffer) + (self.conn.current_size or 0) + PIECE_COST_BYTES * len(self.frames)

    def _charge_for(self, held: int) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        if not self._charge.hold(held):
            self._end_busy()
        elif self._pace is None and self._unfinished() > FREE_BYTES:
            self._pace_bytes = self._unfinished()
            self._pace = self.loop.call_later(FRAME_SECONDS, self._check_pace)

    def _check_pace(self) -> None:
        self._pace = None
        unfinished = self._unfinished()
        if self.close_sent or self.transport.is_closing() or unfinished <= FREE_BYTES:
            return
        # While reading is paused it is the handler that takes its time.
        if not self.read_paused and 0 <= unfinished - self._pace_bytes < FRAME_MIN_BYTES:
            self._end(CloseCode.POLICY_VIOLATION, "a message takes too long to arrive")
            return
        self._pace_bytes = unfinished
        self._pace = self.loop.call_later(FRAME_SECONDS, self._check_pace)

    def _check_size(self, size: int) -> bool:
        """Ends the connection of an unknown peer that has sent more than it may."""
        if size <= UNKNOWN_MAX_BYTES or self.close_sent or self.transport.is_closing():
            return True
        self._end(CloseCode.MESSAGE_TOO_BIG, "frame too large before authentication")
        return False

    def _end_busy(self) -> None:
        self._end(CloseCode.TRY_AGAIN_LATER, "server busy: too much data in flight; try again later")

    def _end(self, code: CloseCode, reason: str) -> None:
        self.frames = []
        self._waiting.clear()
        if self.handshake_complete and not self.transport.get_write_buffer_size():
            self.conn.fail(code, reason)
            self.handle_parser_exception()
        else:
            # It would not get the reason.
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._pace is not None:
            self._pace.cancel()
        self.frames = []
        self.conn.reader.discard()
        # Requests that came before the end are still carried out.
        self._charge.hold(0 if self._handled else self._waiting.held)
        super().connection_lost(exc)

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        super().on_task_complete(task)
        self._handled = True
        self._waiting.clear()
        self._charge.hold(0)

    def send_receive_event_to_app(self) -> None:
        if not self.close_sent and sum(map(len, self.frames)) > LARGE_BYTES:
            # As bytes: a single emoji makes a text four times as large.
            data, self.frames = b"".join(self.frames), []
            self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
            if not self.read_paused:
                self.read_paused = True
                self.transport.pause_reading()
        else:
            super().send_receive_event_to_app()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        # A peer that is gone never takes what was already written, and `close` waits for that: for hours, if TCP lets it.
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def start_keepalive(self) -> None:
        """Drops the headers of the handshake, which are not needed any more."""
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
    """uvicorn's HTTP protocol with timeouts.

    A silent peer does not hold a file descriptor for ever, and an endless head does not fill the memory. A request has to be
    complete in time, its body too, unless its handler reads it, which has its own timeout. The rest of a body that a handler
    has answered without reading is not waited for.
    """

    def __init__(self, config: Config, server_state: ServerState, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, server_state, *args, **kwargs)
        self._silent: OriginTable[PromptProtocol] | None = getattr(server_state, "silent", None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._head: int | None = 0
        self._whole = True
        self._ending = False
        self._watch = PeerWatch()
        self._patience = self.loop.call_later(HEAD_SECONDS, transport.close)
        if self._silent is not None:
            evicted = self._silent.add(self, "" if self.client is None else self.client[0])
            if evicted is not None:
                evicted.transport.abort()
        self._unread: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._read_again()
        super().resume_writing()

    def _read_again(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > HEAD_MAX_BYTES and not self.transport.is_closing():
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
        self._patience = self.loop.call_later(BODY_SECONDS, self.transport.close)
        self._spoken()
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            # The handler's task has not run yet, so this is the one it is given.
            self.cycle.receive = self._followed(self.cycle)  # type: ignore[method-assign]
            extensions: dict[str, Any] = self.scope.setdefault("extensions", {})
            extensions[GONE] = self._watch

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
            self._patience = self.loop.call_later(LEFTOVER_SECONDS, self.transport.close)
            self._ending = True

    def handle_websocket_upgrade(self) -> None:
        # The transport belongs to the WebSocket from now on.
        self._patience.cancel()
        self._read_again()
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        self._read_again()
        self._spoken()
        super().connection_lost(exc)
        self._watch.lose()

    def _spoken(self) -> None:
        if self._silent is not None:
            self._silent.remove(self)

    def _followed(self, cycle: RequestResponseCycle) -> Callable[[], Coroutine[Any, Any, Any]]:
        receive = cycle.receive

        async def read() -> Any:
            if cycle is self.cycle and not cycle.response_complete:
                self._patience.cancel()
            return await receive()

        return read
