"""Egress — the only way out of a jail: a proxy in the server that lets allowed hosts through, and nothing else.

The jail's own process listens inside the job's own network namespace and hands the listener out; a client of it is that job, so
there is no token. The jail has no route, no name server and no other neighbour. A host is checked against the job's list,
resolved, and every address of it must be public or allowed by the operator; the connection goes to an address that was checked.
`CONNECT` is for TLS, which is not opened: a host behind a shared front is as good as its neighbours there.
"""

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import anyio
import h11

from agentvm.errors.tool import EgressRefused
from agentvm.log import get_logger
from agentvm.model.address import IpAddress
from agentvm.model.allowed_host import is_allowed
from agentvm.model.public_address import AddressRules
from agentvm.sharing.checked_address import Resolve, checked_addresses
from agentvm.sharing.name_lookup import resolve_host
from agentvm.tiers.relay import Relay

logger = get_logger(__name__)

CONNECTIONS_MAX = 32
BYTES_MAX = 256 * 1024 * 1024
IDLE_SECONDS = 60.0
LOGGED_MAX = 50
"""Hosts of one job that are logged by name."""
CONNECT_SECONDS = 5.0
_HEAD_MAX_BYTES = 32 * 1024
_PIECE_BYTES = 64 * 1024
_HOP_HEADERS = frozenset(
    {b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"trailer", b"upgrade", b"host"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """Rules of the operator for the traffic of every job."""

    rules: AddressRules = field(default_factory=AddressRules)
    resolve: Resolve = resolve_host
    connections: int = CONNECTIONS_MAX
    """Connections of one job at a time; more wait."""
    most_bytes: int = BYTES_MAX
    """Bytes of one job in both directions."""
    idle_seconds: float = IDLE_SECONDS


class EgressSpent(Exception):
    """The job has moved all the bytes it may."""


async def serve_proxy(listener: int, allowed: Sequence[str], policy: EgressPolicy) -> None:
    """Serves the listener of one job until cancelled."""
    proxy = Proxy(allowed, policy)
    with socket.socket(fileno=listener) as accepting:
        accepting.setblocking(False)
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    # Before it is accepted: those beyond the bound wait in the kernel, and cost the server nothing.
                    await proxy.places.acquire()
                    tasks.start_soon(proxy.serve, await _accept(accepting))
        finally:
            proxy.log()


async def _accept(accepting: socket.socket) -> socket.socket:
    while True:
        try:
            client, _ = accepting.accept()
        except BlockingIOError:
            await anyio.wait_readable(accepting)
        else:
            client.setblocking(False)
            return client


class Proxy:
    """The way out of one job."""

    def __init__(self, allowed: Sequence[str], policy: EgressPolicy) -> None:
        self._allowed = allowed
        self._policy = policy
        self.places = anyio.Semaphore(policy.connections)
        self._moved = 0
        self._reached: dict[str, int] = {}
        """Bytes to and from each host."""
        self._refused: set[str] = set()

    def log(self) -> None:
        """Logs the hosts of the job, once for all its connections."""
        if self._reached or self._refused:
            hosts = dict(list(self._reached.items())[:LOGGED_MAX])
            logger.info("egress", moved=self._moved, hosts=hosts, refused=sorted(self._refused)[:LOGGED_MAX])

    async def serve(self, client: socket.socket) -> None:
        """One connection, which holds a place, from its first byte to its end."""
        try:
            with client:
                await self._serve(client)
        finally:
            self.places.release()

    async def _serve(self, client: socket.socket) -> None:
        try:
            with anyio.fail_after(self._policy.idle_seconds):
                request, rest = await _read_head(client)
            await self._forward(client, request, rest)
        except EgressRefused as error:
            await _answer(client, 403, str(error))
        except EgressSpent:
            logger.info("egress_spent", moved=self._moved)
        except h11.RemoteProtocolError as error:
            await _answer(client, 400, str(error))
        except EOFError:
            pass
        except OSError:
            await _answer(client, 502, "The host cannot be reached")

    async def _forward(self, client: socket.socket, request: h11.Request, rest: bytes) -> None:
        host, port, head = _target(request)
        name = f"{host[:200]}:{port}"
        try:
            if not is_allowed(host, port, self._allowed):
                raise EgressRefused(f"{name} is not in network.allow of this sandbox")
            addresses = await checked_addresses(host, port, self._policy.rules, self._policy.resolve)
        except EgressRefused:
            if len(self._refused) < LOGGED_MAX:
                self._refused.add(name)
            raise
        with await _connect(addresses, port) as upstream:
            self._reached.setdefault(name, 0)
            if not head:
                await _send(client, b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _send(upstream, head + rest)
            with Relay(client, upstream, partial(self._count, name)) as relay:
                try:
                    await relay.run(self._policy.idle_seconds)
                except OSError as error:
                    # A side is gone, or nothing was said for long: what was said has arrived.
                    raise EOFError from error

    def _count(self, name: str, moved: int) -> None:
        self._moved += moved
        self._reached[name] += moved
        if self._moved > self._policy.most_bytes:
            raise EgressSpent


async def _read_head(client: socket.socket) -> tuple[h11.Request, bytes]:
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_MAX_BYTES)
    while True:
        event = parser.next_event()
        if isinstance(event, h11.Request):
            return event, parser.trailing_data[0]
        if event is not h11.NEED_DATA:
            raise EOFError
        try:
            parser.receive_data(client.recv(_PIECE_BYTES))
        except BlockingIOError:
            await anyio.wait_readable(client)


async def _send(connection: socket.socket, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            await anyio.wait_writable(connection)


def _target(request: h11.Request) -> tuple[str, int, bytes]:
    """The host and the port, and the head for the server behind; it is empty for a tunnel."""
    target = request.target.decode("ascii", "replace")
    if request.method == b"CONNECT":
        host, port = _split(target, 443)
        return host, port, b""
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() != "http":
        raise h11.RemoteProtocolError("This is a proxy: the target must be a whole http:// address", error_status_hint=400)
    authority, slash, path = rest.partition("/")
    host, port = _split(authority.rpartition("@")[2], 80)
    lines = [request.method + b" " + (slash + path or "/").encode() + b" HTTP/1.1", b"Host: " + authority.encode()]
    lines += [name + b": " + value for name, value in request.headers if name not in _HOP_HEADERS]
    # One request for one connection: a second one on it would not be looked at.
    return host, port, b"\r\n".join([*lines, b"Connection: close", b"", b""])


def _split(authority: str, default: int) -> tuple[str, int]:
    host, colon, digits = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, digits = authority, str(default)
    if not digits.isdecimal() or len(digits) > 5:
        raise h11.RemoteProtocolError("The target has no port", error_status_hint=400)
    return host.removeprefix("[").removesuffix("]"), int(digits)


async def _connect(addresses: tuple[IpAddress, ...], port: int) -> socket.socket:
    """A connection to the first address that answers. The addresses were checked: nothing is looked up here."""
    failure = OSError("no address")
    for address in addresses:
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        with ExitStack() as unless_reached:
            connection = unless_reached.enter_context(socket.socket(family, socket.SOCK_STREAM))
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                with anyio.fail_after(CONNECT_SECONDS):
                    await _reach(connection, str(address), port)
            except OSError as error:
                failure = error
                continue
            unless_reached.pop_all()
            return connection
    raise failure


async def _reach(connection: socket.socket, address: str, port: int) -> None:
    try:
        connection.connect((address, port))
    except BlockingIOError:
        await anyio.wait_writable(connection)
    if number := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(number, os.strerror(number))


async def _answer(client: socket.socket, status: int, text: str) -> None:
    reason = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}[status]
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    try:
        await _send(client, head.encode() + body)
    except OSError:
        # Gone without waiting for the answer.
        pass
