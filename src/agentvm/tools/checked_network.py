"""Checked network — the connections of the server's own requests: to checked addresses only, with few writes."""

import ssl
from collections.abc import Iterable
from typing import Any

import anyio
import httpcore2

from agentvm.errors.tool import EgressRefused
from agentvm.model.address import IpAddress
from agentvm.model.public_address import AddressRules
from agentvm.sharing.checked_address import Resolve, checked_addresses
from agentvm.sharing.name_lookup import resolve_host

_CONNECT_SECONDS = 5.0
_JOINED_MAX_BYTES = 64 * 1024


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to allowed addresses only; `EgressRefused` names the host."""

    def __init__(self, rules: AddressRules, resolve: Resolve = resolve_host) -> None:
        self._rules, self._resolve = rules, resolve
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        *others, last = await self.check(host, port)
        for address in others:
            try:
                return await self._connect(address, port, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._connect(last, port, local_address, socket_options)

    async def _connect(
        self,
        address: IpAddress,
        port: int,
        local_address: str | None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None,
    ) -> "JoinedWrites":
        stream = await self._network.connect_tcp(str(address), port, _CONNECT_SECONDS, local_address, socket_options)
        return JoinedWrites(stream)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise EgressRefused("Tools may not connect to sockets of this machine")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def check(self, name: str, port: int) -> tuple[IpAddress, ...]:
        """Returns addresses of the host, every one allowed; a single address that is not refuses the host."""
        try:
            return await checked_addresses(name, port, self._rules, self._resolve)
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error


class JoinedWrites(httpcore2.AsyncNetworkStream):
    """A connection whose writes are sent together when its answer is read: the head of a request with its body.

    A system call and a packet for each would cost more than all the rest of a short request.
    """

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._held = bytearray()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the signature of httpcore2
        try:
            await self._send(timeout)
        except httpcore2.WriteError:
            # The server may have answered before it closed the connection.
            pass
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the signature of httpcore2
        self._held += buffer
        if len(self._held) > _JOINED_MAX_BYTES:
            await self._send(timeout)

    async def _send(self, timeout: float | None) -> None:  # noqa: ASYNC109 - passed on to httpcore2
        if self._held:
            held, self._held = bytes(self._held), bytearray()
            await self._stream.write(held, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
    ) -> "JoinedWrites":
        return JoinedWrites(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
