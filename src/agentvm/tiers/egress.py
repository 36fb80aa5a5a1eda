"""Egress — the only way out of a jail: a proxy in the server that lets allowed hosts through, and nothing else.

The jail's first process listens inside the job's own network namespace and hands the listener out; whoever connects to it is
that job, so there is no token. The jail has no route, no name server and no other neighbour. A host is checked against the
job's list, resolved, and every address of it must be public or allowed by the operator; the connection goes to an address
that was checked. `CONNECT` is for TLS, which is not opened: a host behind a shared front is as good as its neighbours there.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import anyio.abc
import h11

from agentvm.errors.tool import EgressRefused
from agentvm.log import get_logger
from agentvm.model.address import IpAddress
from agentvm.model.allowed_host import is_allowed
from agentvm.model.public_address import AddressRules
from agentvm.sharing.checked_address import Resolve, checked_addresses, resolve_host

logger = get_logger(__name__)

CONNECTIONS_MAX = 32
BYTES_MAX = 256 * 1024 * 1024
IDLE_SECONDS = 60.0
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
    connection = socket.socket(fileno=listener)
    connection.setblocking(False)
    proxy = Proxy(allowed, policy)
    async with await anyio.abc.SocketListener.from_socket(connection) as accepting:
        await accepting.serve(proxy.serve)


class Proxy:
    """The way out of one job."""

    def __init__(self, allowed: Sequence[str], policy: EgressPolicy) -> None:
        self._allowed = allowed
        self._policy = policy
        self._places = anyio.Semaphore(policy.connections)
        self._moved = 0

    async def serve(self, client: anyio.abc.SocketStream) -> None:
        """One connection, from its first byte to its end."""
        async with self._places, client:
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
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            except OSError:
                await _answer(client, 502, "The host cannot be reached")

    async def _forward(self, client: anyio.abc.SocketStream, request: h11.Request, rest: bytes) -> None:
        host, port, head = _target(request)
        if not is_allowed(host, port, self._allowed):
            raise EgressRefused(f"{host[:200]}:{port} is not in network.allow of this sandbox")
        addresses = await checked_addresses(host, port, self._policy.rules, self._policy.resolve)
        upstream = await _connect(addresses, port)
        async with upstream:
            if head:
                await upstream.send(head + rest)
            else:
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                if rest:
                    await upstream.send(rest)
            await self._both_ways(client, upstream)

    async def _both_ways(self, client: anyio.abc.SocketStream, upstream: anyio.abc.SocketStream) -> None:
        spent = False

        async def move(source: anyio.abc.SocketStream, target: anyio.abc.SocketStream) -> None:
            nonlocal spent
            try:
                while True:
                    with anyio.fail_after(self._policy.idle_seconds):
                        data = await source.receive(_PIECE_BYTES)
                        self._moved += len(data)
                        if self._moved > self._policy.most_bytes:
                            spent = True
                            tasks.cancel_scope.cancel()
                            return
                        await target.send(data)
            except anyio.EndOfStream:
                # The other direction may go on: a request can end before its answer.
                try:
                    await target.send_eof()
                except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    tasks.cancel_scope.cancel()
            except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(move, client, upstream)
            tasks.start_soon(move, upstream, client)
        if spent:
            raise EgressSpent


async def _read_head(client: anyio.abc.SocketStream) -> tuple[h11.Request, bytes]:
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_MAX_BYTES)
    while True:
        event = parser.next_event()
        if isinstance(event, h11.Request):
            return event, parser.trailing_data[0]
        if event is not h11.NEED_DATA:
            raise anyio.EndOfStream
        parser.receive_data(await client.receive(_PIECE_BYTES))


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


async def _connect(addresses: tuple[IpAddress, ...], port: int) -> anyio.abc.SocketStream:
    for address in addresses[:-1]:
        try:
            with anyio.fail_after(CONNECT_SECONDS):
                return await anyio.connect_tcp(str(address), port)
        except OSError:
            continue
    with anyio.fail_after(CONNECT_SECONDS):
        return await anyio.connect_tcp(str(addresses[-1]), port)


async def _answer(client: anyio.abc.SocketStream, status: int, text: str) -> None:
    reason = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}[status]
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    try:
        await client.send(head.encode() + body)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        # Gone without waiting for the answer.
        pass
