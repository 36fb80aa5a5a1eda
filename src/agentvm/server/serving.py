"""Serving — binds a port and runs the server on it."""

import errno
import functools
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import anyio.abc
import uvicorn
from uvicorn.server import ServerState

from agentvm.client.verbs import RuntimeView
from agentvm.errors import ConfigInvalid, shorten
from agentvm.protocol.codec import FRAME_MAX_BYTES
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.protocol.link import Unsubscribe
from agentvm.runtime.channel import GOING_AWAY, Channel
from agentvm.runtime.tasks import open_tasks
from agentvm.server.asgi import Application
from agentvm.server.descriptors import open_files_limit
from agentvm.server.local_link import LocalLink
from agentvm.server.origin_table import OriginTable
from agentvm.server.peer_noise import hush
from agentvm.server.transport import JoiningProtocol, PromptProtocol
from agentvm.server.writer import LINGER_SECONDS
from agentvm.vm import AgentVM, Peer

SWITCH_SECONDS = 0.001

PING_SECONDS = 30.0
"""Time between two pings, and the timeout of a pong: a dead peer is noticed within twice this time."""

DATE_SECONDS = 1.0
"""Time after which the `Date` of responses is computed again."""

SHUTDOWN_SECONDS = 5.0
"""Time for running requests when a server ends; they are cancelled then."""

SHUTDOWN_POLL_SECONDS = 0.005

ConnectionHandler = Callable[[RuntimeView], None]


class _State(ServerState):
    """The state that the connections of a server share."""

    def __init__(self) -> None:
        super().__init__()
        files = open_files_limit()
        self.silent: OriginTable[PromptProtocol] = OriginTable(max(1, files * 3 // 4), max(1, files // 2))
        """Connections that have not sent the whole head of a request. Each is closed after a few seconds."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers (the caller decides when a server ends), and with events for its start and its end.

    uvicorn looks ten times a second whether it shall end, and then waits for another tenth at least. This one is told.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state = _State()
        self.up = anyio.Event()
        self._ending = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        # The number of a tick: at those that ten divides the `Date` of responses is made anew.
        while not await self.on_tick(0):
            with anyio.move_on_after(DATE_SECONDS):
                await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        with anyio.move_on_after(SHUTDOWN_SECONDS) as goodbye:
            while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110  # uvicorn tells nobody
                await anyio.sleep(SHUTDOWN_POLL_SECONDS)
            for server in self.servers:
                await server.wait_closed()
        if goodbye.cancelled_caught:
            for task in tuple(self.server_state.tasks):
                task.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listener:
    """One listening port and the peers that came through it."""

    def __init__(self, vm: AgentVM) -> None:
        self._handlers: dict[object, ConnectionHandler] = {}
        self._channels: dict[Channel, None] = {}
        self._server: _Server | None = None
        self._left = anyio.Event()
        """Set when a peer has gone."""
        self._vm = vm
        self.app = Application(vm, self._watch)

    @asynccontextmanager
    async def listen(self, host: str, port: int) -> AsyncIterator[int]:
        """Yields the port once peers can connect; leaving ends every connection."""
        bound = bind(host, port)
        # A thread of the database that decodes rows gives way to the event loop after this long.
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        self.app.bound_to = host
        self.app.gate.reopen()
        config = uvicorn.Config(
            self.app,
            interface="asgi3",
            http=PromptProtocol,
            ws=functools.partial(JoiningProtocol, budget=self._vm.budget),  # type: ignore[arg-type]  # uvicorn only calls it
            lifespan="off",
            # `proxies.py` finds the client's address, and only from proxies that the operator has named.
            proxy_headers=False,
            log_config=None,
            # Lower levels log requests with their headers, and so with their credentials.
            log_level="warning",
            access_log=False,
            server_header=False,
            ws_max_size=FRAME_MAX_BYTES,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            ws_per_message_deflate=False,
        )
        hush()
        self._server = server = _Server(config)
        async with open_tasks() as tasks:
            tasks.start_soon(server.serve, [bound])
            await server.up.wait()
            try:
                yield bound.getsockname()[1]
            finally:
                self.refuse_new()
                await self._announce_shutdown()
                server.end()

    async def _announce_shutdown(self) -> None:
        """Sends peers their outbox and a close code before uvicorn shuts their sockets."""
        self.app.gate.end_streams()
        for channel in tuple(self._channels):
            channel.close(GOING_AWAY)
        with anyio.CancelScope(shield=True), anyio.move_on_after(LINGER_SECONDS):
            await self.app.pending.clear(GOING_AWAY)
            while self._channels:
                self._left = anyio.Event()
                await self._left.wait()

    def refuse_new(self) -> None:
        """Stops listening; peers that are connected stay."""
        for listening in self._server.servers if self._server is not None else ():
            listening.close()

    def on_connection(self, handler: ConnectionHandler) -> Unsubscribe:
        key = object()
        self._handlers[key] = handler

        def unsubscribe() -> None:
            self._handlers.pop(key, None)

        return unsubscribe

    def _watch(self, peer: Peer, tasks: anyio.abc.TaskGroup) -> "_Watch":
        return _Watch(self, peer, tasks)

    def greet(self, peer: Peer, tasks: anyio.abc.TaskGroup) -> None:
        """Calls the handlers with a new peer. A handler that fails ends the connection."""
        if self._handlers:
            mirror = peer.channel.mirror = Channel(peer.channel.principal, encode_event, self._vm.budget)
            link = LocalLink(peer, mirror)
            tasks.start_soon(link.run)
            view = RuntimeView(link)
            for handler in tuple(self._handlers.values()):
                handler(view)
        self._channels[peer.channel] = None

    def forget(self, peer: Peer) -> None:
        del self._channels[peer.channel]
        self._left.set()


class _Watch:
    """The presence of a peer at its listener. Not a generator: one that lives as long as a socket costs half a KB."""

    __slots__ = ("_listener", "_peer", "_tasks")

    def __init__(self, listener: Listener, peer: Peer, tasks: anyio.abc.TaskGroup) -> None:
        self._listener = listener
        self._peer = peer
        self._tasks = tasks

    def __enter__(self) -> None:
        self._listener.greet(self._peer, self._tasks)

    def __exit__(self, *_: object) -> None:
        self._listener.forget(self._peer)


def bind(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        # The system would silently take another one.
        raise ConfigInvalid(f"Cannot listen on port {port}; it must be a number from 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"Cannot listen on host {shorten(host)!r}: {error}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(2048)
    except OSError as error:
        bound.close()
        remedy = "--host" if error.errno == errno.EADDRNOTAVAIL else "--port"
        raise ConfigInvalid(f"Cannot listen on {host}:{port}: {error.strerror}; choose another with {remedy}") from None
    bound.setblocking(False)
    return bound
