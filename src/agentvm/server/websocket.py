"""WebSocket — one peer's socket: reads frames into commands, writes its channel's outbox. The only file that knows both."""

import asyncio
import codecs
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from contextvars import Context
from dataclasses import dataclass, field, replace

import anyio
import anyio.abc
import anyio.lowlevel

from agentvm.errors import AgentVMError, InvalidInput, QuotaExceeded
from agentvm.errors.bounds import InputTooLarge
from agentvm.events.base import EventScope
from agentvm.model.principal import Principal
from agentvm.operations.container import ensure
from agentvm.operations.context import context_of
from agentvm.operations.dispatch import answer, refuse, refuse_unreadable
from agentvm.operations.table import CODEC
from agentvm.protocol.bounds import Scan, cut
from agentvm.protocol.codec import FRAME_BOUND
from agentvm.protocol.connection import (
    Acked,
    AuthReceived,
    CommandReceived,
    CommandRefused,
    Dropped,
    FollowReceived,
    NoiseReceived,
    PeerConnection,
    Received,
    RpcReceived,
    SubscribeReceived,
    UnsubscribeReceived,
)
from agentvm.protocol.requests import Reply
from agentvm.runtime.broadcaster import Follow
from agentvm.runtime.channel import GONE, MAX_UNREAD_BYTES, Closing
from agentvm.server.exchange import Message, Receive
from agentvm.server.handshake import Handshake
from agentvm.server.pending_sockets import CROWDED, PendingSockets
from agentvm.server.readers import Reader, Readers, attach_reader
from agentvm.server.rpc_socket import SILENCE_SECONDS, answer_calls, presume_rpc, refuse_noise, serve_events
from agentvm.server.wire import Wire
from agentvm.server.writer import Writer, writing_context
from agentvm.vm import LISTEN_PERMISSION, AgentVM, Peer

Watch = Callable[[Peer, anyio.abc.TaskGroup], AbstractContextManager[None]]
"""Entered for each new peer with the task group that lives as long as its socket, left when the peer is gone."""

TOO_MANY = Closing(4429, "quota exceeded")

QUOTA_ERROR_INTERVAL_SECONDS = 1.0
"""Minimum time between two quota errors to one peer."""

SMALL_BYTES = 65_536
"""A frame up to this size is decoded at once; a larger one is counted and bounded before anything is built of it."""

NAMED_BYTES = 8 * 1024 * 1024
"""A frame up to this size that holds too much is refused with the name of its request; a larger one is not parsed."""

_ANSWERED = (CommandReceived, RpcReceived)
"""Frames that get an answer in any case."""
_OF_1X = (CommandReceived, CommandRefused, SubscribeReceived, FollowReceived, Acked)
"""Frames that only clients of AgentX 1.x send."""

_utf8 = codecs.getincrementaldecoder("utf-8")

CLOSE_TIMEOUT_SECONDS = 0.5
"""A peer that failed to authenticate gets this long to read the reason; then the socket is aborted."""


@dataclass(frozen=True, slots=True)
class SocketContext:
    """The parts of the server that all sockets share."""

    vm: AgentVM
    watch: Watch
    readers: Readers
    pending: PendingSockets = field(default_factory=PendingSockets)
    writing: Context = field(default_factory=writing_context)
    """The context of the callbacks that write frames."""


@dataclass(frozen=True, slots=True)
class SocketRequest:
    """A peer that asks for a socket. Without a principal it has to authenticate in a frame."""

    principal: Principal | None
    client_id: str | None = None
    subprotocol: str | None = None
    address: str = ""


def serve_socket(
    context: SocketContext, request: SocketRequest, wire: Wire, receive: Receive
) -> Coroutine[object, object, None]:
    """Serves one socket until it is closed. No coroutine of its own: an idle socket waits in each."""
    if request.principal is None:
        return _serve_unknown(context, request, wire, receive)
    wire.trust(request.principal.tenant_id)
    # Attached before the first wait: rights that end meanwhile must find it.
    return _converse(context, request, _attach(context.vm, request, request.principal), (), wire, receive)


async def _serve_unknown(context: SocketContext, request: SocketRequest, wire: Wire, receive: Receive) -> None:
    vm = context.vm
    connection = PeerConnection(vm.new_id("conn"), CODEC)
    handshake = Handshake(connection, vm.tenancy.access.authenticate, vm.clock)
    with context.pending.take(request.address) as socket:
        outcome = await socket.hold(_introduce(vm, request, handshake, connection, wire, receive))
        if isinstance(outcome, Closing):
            with anyio.move_on_after(CLOSE_TIMEOUT_SECONDS):
                await wire.send({"type": "websocket.close", "code": outcome.code, "reason": outcome.reason})
                if outcome is not CROWDED:
                    # An evicted peer is not waited for: there may be many of them.
                    await anyio.sleep_forever()
            wire.abort()
    if isinstance(outcome, Principal):
        wire.trust(outcome.tenant_id)
        authenticated = replace(request, principal=outcome)
        await _converse(context, authenticated, _attach(vm, authenticated, outcome), handshake.kept, wire, receive, connection)


async def _introduce(
    vm: AgentVM, request: SocketRequest, handshake: Handshake, connection: PeerConnection, wire: Wire, receive: Receive
) -> Principal | Closing | None:
    """Returns the principal of a peer without credentials, or the reason to close its socket; None when it has gone."""
    await receive()  # websocket.connect
    await wire.send({"type": "websocket.accept", "subprotocol": request.subprotocol})
    await wire.send({"type": "websocket.send", "text": connection.hello(vm.clock())})

    async def read() -> str | bytes | None:
        return _text_of(await receive())

    outcome = await handshake.wait(read, lambda text: wire.send({"type": "websocket.send", "text": text}))
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
    frames: Sequence[SubscribeReceived | FollowReceived | RpcReceived],
    wire: Wire,
    receive: Receive,
    connection: PeerConnection | None = None,
) -> None:
    """Reads and writes for an authenticated peer; `connection` when it was open before."""
    vm = context.vm
    reader = attached if isinstance(attached, Reader) else None
    peer = attached.peer if isinstance(attached, Reader) else attached
    ended = False
    silence: asyncio.TimerHandle | None = None
    try:
        if connection is None:
            await receive()  # websocket.connect
            await wire.send({"type": "websocket.accept", "subprotocol": request.subprotocol})
        if reader is not None:
            await context.readers.enter(reader)
        if connection is None or reader is not None:
            # A reader's acknowledgements are followed from the first frame on, so it is greeted anew.
            connection = PeerConnection(vm.new_id("conn"), CODEC, None if reader is None else reader.acks)
            await wire.send({"type": "websocket.send", "text": connection.hello(vm.clock())})
        await _ensure_home(peer)
        if reader is None and not connection.has_spoken:
            silence = asyncio.get_running_loop().call_later(SILENCE_SECONDS, presume_rpc, peer, connection)
        async with anyio.create_task_group() as tasks:
            with context.watch(peer, tasks), Writer(peer, connection, reader, wire, tasks, context.writing):
                for received in frames:
                    refusal = await _count(peer)
                    if refusal is None or isinstance(received, RpcReceived):
                        await _act(peer, connection, reader, received, refusal)
                await _read(peer, connection, reader, receive)
                ended = True
                tasks.cancel_scope.cancel()
    finally:
        if silence is not None:
            silence.cancel()
        if connection is not None and connection.rpc is not None:
            connection.rpc.close()
        if not ended:
            wire.abort()
        try:
            if reader is not None:
                await context.readers.leave(reader)
        finally:
            vm.detach(peer)


async def _ensure_home(peer: Peer) -> None:
    """Creates the container of a principal that is bound to one."""
    home = peer.principal.home
    if home is not None:
        try:
            await ensure(context_of(peer), home)
        except AgentVMError as error:
            refuse(peer, error, None, EventScope(), Reply())


def _text_of(message: Message) -> str | bytes | None:
    """Returns a text; bytes if it is large, so that it is bounded before it is decoded. None when the peer has gone."""
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
        text = _text_of(await receive())
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
            if error is None or isinstance(received, _ANSWERED) or getattr(received, "error", None) is error:
                await _act(peer, connection, reader, received, error)
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
        if len(text) > NAMED_BYTES:
            return NoiseReceived(problem), error
        received = connection.receive(text, refusal=error or problem)
        return received, error or (problem if isinstance(received, RpcReceived) else None)
    except UnicodeError:
        return NoiseReceived(InvalidInput("Frame is not valid Unicode")), error
    return connection.receive(text, scan=scan, refusal=error), error


async def _scan(text: bytes) -> Scan:
    """Raises `InputTooLarge` for a frame that can be no command. Piece by piece, so that other peers are served in the
    meantime."""
    scan, decoder = Scan(FRAME_BOUND, "A frame"), _utf8()
    for piece in cut(text):
        scan.feed(piece)
        decoder.decode(piece)
        await anyio.lowlevel.checkpoint()
    decoder.decode(b"", final=True)
    return scan


async def take_frame(peer: Peer, connection: PeerConnection, text: str) -> None:
    """Executes a frame of a peer without a socket."""
    received, error = await _understand(peer, connection, text)
    if error is None or isinstance(received, _ANSWERED):
        await _act(peer, connection, None, received, error)
    else:
        _refuse_uncounted(peer, received, error)


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


async def _act(
    peer: Peer, connection: PeerConnection, reader: Reader | None, received: Received, refusal: AgentVMError | None
) -> None:
    if connection.rpc is not None and isinstance(received, _OF_1X):
        serve_events(peer, connection)
    match received:
        case CommandReceived(request=request, request_id=request_id):
            await answer(peer, request, request_id, refusal)
        case CommandRefused(name=name, request_id=request_id, error=error):
            refuse_unreadable(peer, name, request_id, error)
        case SubscribeReceived():
            await _subscribe(peer, reader, received)
        case FollowReceived(container_id=container_id, deltas=deltas):
            _follow(peer, container_id, Follow.ALL if deltas else Follow.MESSAGES)
        case UnsubscribeReceived(session_id=None, container_id=str(container_id)):
            _follow(peer, container_id, Follow.NONE)
        case UnsubscribeReceived(session_id=str(session_id)):
            peer.vm.runtime.broadcaster.unsubscribe(peer.channel, session_id)
        case NoiseReceived(error=error) if connection.rpc is not None and not connection.rpc.is_presumed:
            refuse_noise(peer, error)
        case NoiseReceived(error=error):
            refuse(peer, error, None, EventScope(), Reply())
        case RpcReceived():
            await answer_calls(peer, connection, received, refusal, _count)
        case Acked():
            if reader is not None:
                reader.acknowledged()
        case AuthReceived() | Dropped() | UnsubscribeReceived():
            pass


async def _subscribe(peer: Peer, reader: Reader | None, received: SubscribeReceived) -> None:
    """Subscribes the peer. A session of others is ignored, so that the peer does not learn whether it exists."""
    session_id, after = received.session_id, received.after
    try:
        peer.principal.require(LISTEN_PERMISSION)
        if not peer.vm.runtime.recovered.is_set():
            await peer.vm.runtime.recovered.wait()
        container_id = await peer.store.find_session(session_id)
    except AgentVMError as error:
        refuse(peer, error, None, EventScope(), Reply())
        return
    if container_id is not None:
        after = after if reader is None else reader.resume(session_id, after)
        peer.listen(container_id, session_id, after, received.deltas)


def _follow(peer: Peer, name: str, follow: Follow) -> None:
    """Subscribes the peer to all sessions of a container of its own, or ends that."""
    try:
        peer.principal.require(LISTEN_PERMISSION)
        container_id = peer.workspace.container_id(name)
    except AgentVMError as error:
        refuse(peer, error, None, EventScope(), Reply())
        return
    peer.vm.runtime.broadcaster.follow(peer.channel, container_id, follow)
