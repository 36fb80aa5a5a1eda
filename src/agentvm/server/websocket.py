"""WebSocket — one peer's socket: reads frames into commands, writes its channel's outbox. The only file that knows both."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

import anyio
import anyio.abc

from agentvm.app import AgentVM
from agentvm.commands.call import Peer
from agentvm.commands.dispatch import answer, refuse, refuse_unreadable
from agentvm.errors import AgentVMError
from agentvm.events.base import Scope
from agentvm.model.ids import SessionId
from agentvm.protocol.commands import Reply
from agentvm.protocol.connection import (
    Acked,
    AuthReceived,
    CommandReceived,
    CommandRefused,
    Connection,
    Dropped,
    NoiseReceived,
    Received,
    SubscribeReceived,
)
from agentvm.runtime.channel import GONE

# ASGI messages are untyped dictionaries; they stop in this file.
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Watch = Callable[[Peer, anyio.abc.TaskGroup], AbstractContextManager[None]]
"""Entered for each new peer with the task group that lives as long as its socket, left when the peer is gone."""

REST = 0.005
"""Seconds between two writes to one peer: a burst of deltas leaves as one write, a lone frame is never delayed."""

LINGER = 5.0
"""Seconds a peer gets to read what was left for it when its channel closed; then the socket is aborted."""


async def serve_socket(vm: AgentVM, watch: Watch, abort: Callable[[], None], receive: Receive, send: Send) -> None:
    """Lives as long as the socket."""
    await receive()  # websocket.connect
    await send({"type": "websocket.accept"})
    connection = Connection(vm.new_id("conn"))
    await send({"type": "websocket.send", "text": connection.hello(vm.clock())})
    peer = vm.attach()
    ended = False
    try:
        async with anyio.create_task_group() as tasks:
            with watch(peer, tasks):
                tasks.start_soon(_write, peer, connection, send)
                peer.channel.on_close = lambda: _linger(tasks.cancel_scope)
                await _read(peer, connection, receive)
                ended = True
                tasks.cancel_scope.cancel()
    finally:
        vm.detach(peer)
        if not ended:
            abort()


def _linger(all_tasks: anyio.CancelScope) -> None:
    # The writer may be waiting for a peer that does not read.
    all_tasks.deadline = anyio.current_time() + LINGER


async def _write(peer: Peer, connection: Connection, send: Send) -> None:
    rested_until = 0.0
    try:
        outlet = peer.outlet()
        while frames := await outlet.take():
            now = anyio.current_time()
            if now < rested_until:
                await anyio.sleep(rested_until - now)
                frames += peer.channel.take_nowait()
            rested_until = anyio.current_time() + REST
            for frame in frames:
                await send({"type": "websocket.send", "text": connection.send(frame)})
        closing = peer.channel.closing or GONE
        if closing is not GONE:
            await send({"type": "websocket.close", "code": closing.code, "reason": closing.reason})
    except OSError:
        # The peer is gone; the reader notices too.
        peer.channel.close(GONE)


async def _read(peer: Peer, connection: Connection, receive: Receive) -> None:
    """Ends when the peer has gone, or when the writer has closed the socket."""
    while True:
        message = await receive()
        if message["type"] != "websocket.receive":
            peer.channel.close(GONE)
            return
        text = message.get("text")
        if text is None:
            text = message["bytes"].decode(errors="replace")
        await _act(peer, connection.receive(text))


async def _act(peer: Peer, received: Received) -> None:
    match received:
        case CommandReceived(command=command, request_id=request_id):
            await answer(peer, command, request_id)
        case CommandRefused(name=name, request_id=request_id, error=error):
            refuse_unreadable(peer, name, request_id, error)
        case SubscribeReceived(session_id=session_id, after=after):
            await _subscribe(peer, session_id, after)
        case NoiseReceived(error=error):
            refuse(peer, error, None, Scope(), Reply())
        case AuthReceived() | Acked() | Dropped():
            pass


async def _subscribe(peer: Peer, session_id: SessionId, after: int | None) -> None:
    """A session that is not the peer's is ignored: it is not to learn whether there is one."""
    try:
        container_id = await peer.store.find_session(session_id)
    except AgentVMError as error:
        refuse(peer, error, None, Scope(), Reply())
        return
    if container_id is not None:
        peer.listen(container_id, session_id, after)
