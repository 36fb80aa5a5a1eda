"""Provider network — connections to providers whose answers can be read without the HTTP library, once their head was read.

The library takes 50 us for a piece of a body: a parser in Python, ten generators and two cancel scopes, each time. Most answers
are streams of many small pieces. So it has the connections opened, sends, and reads the head; of the bytes that arrive it gets
the head alone. The reader of the body takes it from here and returns the end of it to the library, which then knows that the
connection is free.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, zip_longest
from typing import Any, cast

import anyio
import httpcore2
import httpx2

HELD_MAX_BYTES = 262_144
"""Bytes that wait for their reader; while there are more, the socket is not read."""

STAGGER_SECONDS = 0.25
"""Time until the next address of a host is tried as well."""

_HEAD_END = b"\r\n\r\n"
_INTERIM = (b"HTTP/1.1 1", b"HTTP/1.0 1")
_Info = tuple[int, int, int, str, Any]


@contextmanager
def _explained(timeout: type[Exception], broken: type[Exception]) -> Iterator[None]:
    """Raises failures as the library expects them."""
    try:
        yield
    except TimeoutError as error:
        raise timeout(str(error)) from error
    except OSError as error:
        # Also those of TLS.
        raise broken(str(error)) from error


class ProviderStream(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """A connection to a provider. After the head of an answer its body can be taken from it, without the HTTP library."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._is_full = self._is_over = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._may_write = True
        self._in_head = False
        self.at_body = False
        """Whether the library was given a whole head, and nothing after it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Then a request that was written has left this process.
        self._transport.set_write_buffer_limits(0)

    def data_received(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > HELD_MAX_BYTES and not self._is_full:
            self._is_full = True
            self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> None:
        self._is_over = True
        _wake(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._error = self._error or exc
        _wake(self._reader)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        _wake(self._writer)

    def cut(self, error: Exception) -> None:
        """Ends the connection; its reader gets this error."""
        self._error = error
        self._held.clear()
        self._is_over = True
        self._transport.abort()
        _wake(self._reader)

    async def take(self) -> bytes:
        """Returns the bytes that have arrived; none at the end of the connection."""
        while not self._held:
            if self._error is not None:
                raise self._error
            if self._is_over:
                return b""
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        piece = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        if self._is_full:
            self._is_full = False
            self._transport.resume_reading()
        return piece

    def give_back(self, piece: bytes) -> None:
        """Returns bytes to be read next: bytes that were taken too many, or the end of a body."""
        self._held.insert(0, piece)
        self._held_bytes += len(piece)

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
    ) -> bytes:
        with _explained(httpcore2.ReadTimeout, httpcore2.ReadError), anyio.fail_after(timeout):
            piece = await self.take()
            while self._in_head and piece.find(_HEAD_END) < 0 and len(piece) < max_bytes:
                more = await self.take()
                if not more:
                    break
                piece += more
        size = min(len(piece), max_bytes)
        self.at_body = False
        if self._in_head and (end := piece.find(_HEAD_END)) >= 0:
            size = min(size, end + len(_HEAD_END))
            self._in_head = piece.startswith(_INTERIM)
            self.at_body = not self._in_head
        if size < len(piece):
            self.give_back(piece[size:])
        return piece[:size]

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
    ) -> None:
        self._in_head = True
        if not buffer:
            return
        with _explained(httpcore2.WriteTimeout, httpcore2.WriteError), anyio.fail_after(timeout):
            self._check_open()
            self._transport.write(buffer)
            while not self._may_write:
                self._writer = asyncio.get_running_loop().create_future()
                try:
                    await self._writer
                finally:
                    self._writer = None
            self._check_open()

    def _check_open(self) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")

    async def aclose(self) -> None:
        # Without a farewell: the provider is to stop at once.
        self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
    ) -> httpcore2.AsyncNetworkStream:
        loop, plain = asyncio.get_running_loop(), self._transport
        secure: asyncio.Transport | None = None
        try:
            with _explained(httpcore2.ConnectTimeout, httpcore2.ConnectError), anyio.fail_after(timeout):
                secure = await loop.start_tls(plain, self, ssl_context, server_hostname=server_hostname)
                if secure is None:
                    raise ConnectionResetError("the connection is closed")
        finally:
            if secure is None:
                plain.abort()
        self.connection_made(secure)
        return self

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "is_readable":
                return bool(self._held) or self._is_over
            case "client_addr":
                return self._transport.get_extra_info("sockname")
            case "server_addr":
                return self._transport.get_extra_info("peername")
            case _:
                return self._transport.get_extra_info(info)


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class ProviderNetwork(httpcore2.AsyncNetworkBackend):
    """Opens connections to providers, to the first address of a host that answers."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        local = None if local_address is None else (local_address, 0)
        with _explained(httpcore2.ConnectTimeout, httpcore2.ConnectError), anyio.fail_after(timeout):
            stream = await _connect(host, port, local)
        for option in socket_options or ():
            stream.get_extra_info("socket").setsockopt(*option)
        return stream

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def _connect(host: str, port: int, local: tuple[str, int] | None) -> ProviderStream:
    """Tries the addresses of a host one after another, and does not wait long before it tries the next as well."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    streams, errors = list[ProviderStream](), list[OSError]()

    async def attempt(info: _Info, over: anyio.Event) -> None:
        address = info[4]
        try:
            _, stream = await loop.create_connection(ProviderStream, address[0], address[1], family=info[0], local_addr=local)
            streams.append(stream)
            attempts.cancel_scope.cancel()
        except OSError as error:
            errors.append(error)
        finally:
            over.set()

    async with anyio.create_task_group() as attempts:
        for info in _mixed(infos):
            over = anyio.Event()
            attempts.start_soon(attempt, info, over)
            with anyio.move_on_after(STAGGER_SECONDS):
                await over.wait()
    for stream in streams[1:]:
        await stream.aclose()
    if not streams:
        raise errors[0] if errors else ConnectionRefusedError(f"{host} has no address")
    return streams[0]


def _mixed(infos: Iterable[_Info]) -> list[_Info]:
    """Addresses of both families by turns, in the order that the system prefers."""
    listed = list(infos)
    first = [info for info in listed if info[0] == listed[0][0]]
    second = [info for info in listed if info[0] != listed[0][0]]
    return [info for info in chain.from_iterable(zip_longest(first, second)) if info is not None]


class ProviderTransport(httpx2.AsyncHTTPTransport):
    """The library's own transport, over such connections."""

    def __init__(self, verify: ssl.SSLContext, limits: httpx2.Limits) -> None:
        super().__init__(verify=verify, limits=limits)
        # It has no parameter for the network.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=verify,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=ProviderNetwork(),
        )
