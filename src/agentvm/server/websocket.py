"""WebSocket — one peer's socket: reads frames into commands, writes its channel's outbox. The only file that knows both."""

import codecs
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread

from agentvm.errors import AgentVMError, InvalidInput, QuotaExceeded
from agentvm.errors.bounds import InputTooLarge
from agentvm.events.base import EventScope
from agentvm.model.ids import SessionId, TenantId
from agentvm.model.principal import Principal
from agentvm.operations.container import ensure
from agentvm.operations.context import context_of
from agentvm.operations.dispatch import answer, refuse, refuse_unreadable
from agentvm.operations.table import CODEC
from agentvm.protocol.bounds import Scan, cut
from agentvm.protocol.codec import FRAME_BOUND, Frame
from agentvm.protocol.connection import (
    Acked,
    AuthReceived,
    CommandReceived,
    CommandRefused,
    Dropped,
    NoiseReceived,
    PeerConnection,
    Received,
    RpcReceived,
    SubscribeReceived,
)
from agentvm.protocol.requests import Reply
from agentvm.protocol.rpc import refuse_rpc
from agentvm.runtime.channel import GONE, LARGE, MAX_UNREAD_BYTES, Closing
from agentvm.server.exchange import Receive, Send
from agentvm.server.handshake import Handshake
from agentvm.server.pending_sockets import CROWDED, PendingSockets
from agentvm.server.readers import Reader, Readers, attach_reader
from agentvm.vm import LISTEN_PERMISSION, AgentVM, Peer

SendAll = Callable[[Sequence[str]], Awaitable[None]]

Watch = Callable[[Peer, anyio.abc.TaskGroup], AbstractContextManager[None]]
"""Entered for each new peer with the task group that lives as long as its socket, left when the peer is gone."""

WRITE_MAX_BYTES = 65_536
"""Frames are written together up to about this size; then the peer must have taken most of it."""

TOO_MANY = Closing(4429, "quota exceeded")

QUOTA_ERROR_INTERVAL_SECONDS = 1.0
"""Minimum time between two quota errors to one peer."""

SMALL_BYTES = 65_536
"""A frame up to this size is decoded at once; a larger one is counted and bounded before anything is built of it."""

NAMED_BYTES = 8 * 1024 * 1024
"""A frame up to this size that holds too much is refused with the name of its request; a larger one is not parsed."""

_encoders = anyio.CapacityLimiter(2)
_utf8 = codecs.getincrementaldecoder("utf-8")

PARTING_SECONDS = 0.5
"""A peer that failed to authenticate gets this long to read the reason; then the socket is aborted."""

LINGER_SECONDS = 5.0
"""A peer gets this long to read its outbox when its channel was closed; then the socket is aborted."""


@dataclass(frozen=True, slots=True)
class SocketContext:
    """The parts of the server that all sockets share."""

    vm: AgentVM
    watch: Watch
    readers: Readers
    pending: PendingSockets = field(default_factory=PendingSockets)


def _trust_nothing(_: TenantId) -> None: ...


async def _drained() -> None: ...


@dataclass(frozen=True, slots=True)
class SocketRequest:
    """A peer that asks for a socket. Without a principal it has to authenticate in a frame.

    `trust` is called with its tenant once it has authenticated: from then on it may send large frames.
    """

    principal: Principal | None
    client_id: str | None = None
    subprotocol: str | None = None
    address: str = ""
    trust: Callable[[TenantId], None] = _trust_nothing
    drain: Callable[[], Awaitable[None]] = _drained
    """Returns when the peer has taken nearly all of what was sent."""
    send_all: SendAll | None = None
    """Sends several texts with one write; None where the ASGI server is not ours."""


async def serve_socket(
    context: SocketContext, request: SocketRequest, abort: Callable[[], None], receive: Receive, send: Send
) -> None:
    """Serves one socket until it is closed."""
    vm = context.vm
    if request.principal is not None:
        await receive()  # websocket.connect
        # Attached before the first wait: rights that end meanwhile must find it.
        await _converse(context, request, _attach(vm, request, request.principal), (), abort, receive, send)
        return
    connection = PeerConnection(vm.new_id("conn"), CODEC)
    handshake = Handshake(connection, vm.tenancy.access.authenticate, vm.clock)
    with context.pending.take(request.address) as socket:
        outcome = await socket.hold(_introduce(vm, request, handshake, connection, receive, send))
        if isinstance(outcome, Closing):
            with anyio.move_on_after(PARTING_SECONDS):
                await send({"type": "websocket.close", "code": outcome.code, "reason": outcome.reason})
                if outcome is not CROWDED:
                    # An evicted peer is not waited for: there may be many of them.
                    await anyio.sleep_forever()
            abort()
    if isinstance(outcome, Principal):
        request.trust(outcome.tenant_id)
        known = replace(request, principal=outcome, trust=_trust_nothing)
        await _converse(context, known, _attach(vm, known, outcome), handshake.kept, abort, receive, send, connection)


async def _introduce(
    vm: AgentVM, request: SocketRequest, handshake: Handshake, connection: PeerConnection, receive: Receive, send: Send
) -> Principal | Closing | None:
    """Returns the principal of a peer without credentials, or the reason to close its socket; None when it has gone."""
    await receive()  # websocket.connect
    await send({"type": "websocket.accept", "subprotocol": request.subprotocol})
    await send({"type": "websocket.send", "text": connection.hello(vm.clock())})
    outcome = await handshake.wait(lambda: _read_text(receive), lambda text: send({"type": "websocket.send", "text": text}))
    if isinstance(outcome, Principal):
        try:
            await vm.admit(outcome)
        except QuotaExceeded:
            return TOO_MANY
    return outcome


def _attach(vm: AgentVM, request: SocketRequest, principal: Principal) -> Reader | Peer:
    return vm.attach(principal) if request.client_id is None else attach_reader(vm, request.client_id, principal)


async def _converse(
    context: SocketContext,
    request: SocketRequest,
    attached: Reader | Peer,
    kept: Sequence[SubscribeReceived],
    abort: Callable[[], None],
    receive: Receive,
    send: Send,
    connection: PeerConnection | None = None,
) -> None:
    """Reads and writes for an authenticated peer; `connection` when it was open before."""
    vm = context.vm
    reader = attached if isinstance(attached, Reader) else None
    peer = attached.peer if isinstance(attached, Reader) else attached
    ended = False
    try:
        if connection is None:
            await send({"type": "websocket.accept", "subprotocol": request.subprotocol})
        if reader is not None:
            await context.readers.enter(reader)
        if connection is None or reader is not None:
            # A reader's acknowledgements are followed from the first frame on, so it is greeted anew.
            connection = PeerConnection(vm.new_id("conn"), CODEC, None if reader is None else reader.acks)
            await send({"type": "websocket.send", "text": connection.hello(vm.clock())})
        await _ensure_home(peer)
        for subscription in kept:
            if await _count(peer) is None:
                await _subscribe(peer, reader, subscription.session_id, subscription.after)
        async with anyio.create_task_group() as tasks:
            with context.watch(peer, tasks):
                tasks.start_soon(_write, peer, connection, reader, request, send)
                peer.channel.on_close = lambda: _linger(tasks.cancel_scope)
                await _read(peer, connection, reader, receive)
                ended = True
                tasks.cancel_scope.cancel()
    finally:
        if not ended:
            abort()
        try:
            if reader is not None:
                await context.readers.leave(reader)
        finally:
            vm.detach(peer)


def _linger(all_tasks: anyio.CancelScope) -> None:
    # The writer may be waiting for a peer that does not read.
    all_tasks.deadline = anyio.current_time() + LINGER_SECONDS


async def _write(peer: Peer, connection: PeerConnection, reader: Reader | None, request: SocketRequest, send: Send) -> None:
    writer = _Writer(connection, reader, request.send_all or partial(_send_each, send), request.drain)
    try:
        outlet = peer.outlet()
        if reader is not None:
            await reader.greeted()
        while frames := await outlet.take():
            since = peer.channel.since
            await writer.write(frames)
            peer.vm.monitor.metrics.fanout_time.observe(int((time.monotonic() - since) * 1_000_000))
        closing = peer.channel.closing or GONE
        if closing is not GONE:
            if reader is not None:
                await reader.last_acks()
            await send({"type": "websocket.close", "code": closing.code, "reason": closing.reason})
    except OSError:
        # The peer is gone; the reader notices too.
        peer.channel.close(GONE)


async def _send_each(send: Send, texts: Sequence[str]) -> None:
    for text in texts:
        await send({"type": "websocket.send", "text": text})


@dataclass(frozen=True, slots=True)
class _Writer:
    """Sends frames in order, small ones together."""

    connection: PeerConnection
    reader: Reader | None
    send_all: SendAll
    drain: Callable[[], Awaitable[None]]

    async def write(self, frames: list[Frame]) -> None:
        """Empties the list as it goes: an idle peer holds nothing of what it was sent."""
        frames.reverse()
        texts: list[str] = []
        size = 0
        while frames:
            if self.reader is not None and self.reader.is_full:
                await self.send_all(texts)
                texts, size = [], 0
                await self.reader.room()
            frame = frames.pop()
            if len(frame.bare) > LARGE:
                await self.send_all(texts)
                texts, size = [], 0
                await anyio.to_thread.run_sync(self.connection.prepare, frame, limiter=_encoders)
                await self.send_all([self.connection.send(frame)])
                del frame
                # One at a time: each is in memory several times over until the peer takes it.
                await self.drain()
                continue
            texts.append(self.connection.send(frame))
            size += len(texts[-1])
            if size > WRITE_MAX_BYTES:
                await self.send_all(texts)
                texts, size = [], 0
        if texts:
            await self.send_all(texts)


async def _ensure_home(peer: Peer) -> None:
    """Creates the container of a principal that is bound to one."""
    home = peer.principal.home
    if home is not None:
        try:
            await ensure(context_of(peer), home)
        except AgentVMError as error:
            refuse(peer, error, None, EventScope(), Reply())


async def _read_text(receive: Receive) -> str | bytes | None:
    """Returns a text; bytes if it is large, so that it is bounded before it is decoded. None when the peer has gone."""
    message = await receive()
    if message["type"] != "websocket.receive":
        return None
    text: str | None = message.get("text")
    if text is not None:
        return text
    data: bytes = message["bytes"]
    return data if len(data) > SMALL_BYTES else data.decode(errors="replace")


async def _read(peer: Peer, connection: PeerConnection, reader: Reader | None, receive: Receive) -> None:
    """Ends when the peer has gone, or when the writer has closed the socket."""
    refused_at = -QUOTA_ERROR_INTERVAL_SECONDS
    while True:
        text = await _read_text(receive)
        if text is None:
            peer.channel.close(GONE)
            return
        received, error = await _understand(peer, connection, text)
        # An idle peer holds nothing of its last frame, which may have been an image.
        del text
        # A peer that is being closed is still read, and its acknowledgements count, but its requests are not carried out.
        if peer.channel.unread > MAX_UNREAD_BYTES and not isinstance(received, Acked):
            await peer.channel.read()
        if peer.channel.closing is None or isinstance(received, Acked):
            # A request gets a reply in any case.
            if error is None or isinstance(received, CommandReceived) or getattr(received, "error", None) is error:
                await _act(peer, reader, received, error)
            elif anyio.current_time() >= refused_at + QUOTA_ERROR_INTERVAL_SECONDS:
                refused_at = anyio.current_time()
                _refuse_uncounted(peer, received, error)
        del received


async def _understand(peer: Peer, connection: PeerConnection, text: str | bytes) -> tuple[Received, AgentVMError | None]:
    """Decodes a frame; returns the quota error too, if it is one too many. A large frame is counted before it is decoded."""
    if len(text) <= SMALL_BYTES:
        received = connection.receive(text)
        # Acknowledgements are as many as the server's own frames.
        return received, None if isinstance(received, Acked) else await _count(peer)
    error = await _count(peer)
    try:
        scan = await _scan(text.encode() if isinstance(text, str) else text)
    except InputTooLarge as problem:
        # A request gets a reply, unless it takes too long to find its id.
        return connection.receive(text, refusal=error or problem) if len(text) <= NAMED_BYTES else NoiseReceived(problem), error
    except UnicodeError:
        return NoiseReceived(InvalidInput("Frame is not valid Unicode")), error
    return connection.receive(text, scan=scan, refusal=error), error


async def _scan(text: bytes) -> Scan:
    """Raises `InputTooLarge` for a frame that can be no command. Piece by piece, so that other peers are served meanwhile."""
    scan, decoder = Scan(FRAME_BOUND, "A frame"), _utf8()
    for piece in cut(text):
        scan.feed(piece)
        decoder.decode(piece)
        await anyio.lowlevel.checkpoint()
    decoder.decode(b"", final=True)
    return scan


async def _count(peer: Peer) -> AgentVMError | None:
    """Counts a frame as a request, also one that is no command; returns the quota error, if it is one too many."""
    try:
        await peer.vm.tenancy.quotas.hit(peer.tenant_id, peer.principal.user_id)
    except AgentVMError as error:
        return error
    return None


def _refuse_uncounted(peer: Peer, received: Received, error: AgentVMError) -> None:
    if isinstance(received, CommandRefused):
        refuse_unreadable(peer, received.name, received.request_id, error)
    else:
        refuse(peer, error, None, EventScope(), Reply())


async def _act(peer: Peer, reader: Reader | None, received: Received, refusal: AgentVMError | None) -> None:
    match received:
        case CommandReceived(request=request, request_id=request_id):
            await answer(peer, request, request_id, refusal)
        case CommandRefused(name=name, request_id=request_id, error=error):
            refuse_unreadable(peer, name, request_id, error)
        case SubscribeReceived(session_id=session_id, after=after):
            await _subscribe(peer, reader, session_id, after)
        case NoiseReceived(error=error):
            refuse(peer, error, None, EventScope(), Reply())
        case RpcReceived(request_id=raw):
            peer.channel.send(refuse_rpc(raw))
        case Acked():
            if reader is not None:
                reader.acknowledged()
        case AuthReceived() | Dropped():
            pass


async def _subscribe(peer: Peer, reader: Reader | None, session_id: SessionId, after: int | None) -> None:
    """Subscribes the peer. A session of others is ignored, so that the peer does not learn whether it exists."""
    try:
        peer.principal.require(LISTEN_PERMISSION)
        container_id = await peer.store.find_session(session_id)
    except AgentVMError as error:
        refuse(peer, error, None, EventScope(), Reply())
        return
    if container_id is not None:
        peer.listen(container_id, session_id, after if reader is None else reader.resume(session_id, after))
