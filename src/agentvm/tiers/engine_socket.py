"""Engine socket — connections over a unix socket that may be given up at any moment.

The unix sockets of anyio 4 raise InvalidStateError in the event loop when their reader is cancelled at the moment in which data
arrives. Jobs are cancelled all the time, so that the connections to a container engine wait for the loop's own readiness.
"""

import socket
from collections.abc import Iterable
from contextlib import suppress
from ssl import SSLContext

import anyio
import anyio.abc
import httpcore2


class EngineNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to unix sockets, and to nothing else."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("A container engine is reached over its unix socket only")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            with anyio.fail_after(timeout):
                return EngineStream(await anyio.connect_unix(path))
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class EngineStream(httpcore2.AsyncNetworkStream):
    """A connection to a container engine."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.extra(anyio.abc.SocketAttribute.raw_socket)

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
    ) -> bytes:
        try:
            with anyio.fail_after(timeout):
                while True:
                    await anyio.wait_readable(self._socket)
                    with suppress(BlockingIOError):
                        return self._socket.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout(str(error)) from error
        except (OSError, ValueError, anyio.ClosedResourceError) as error:
            raise httpcore2.ReadError(str(error)) from error

    async def write(
        self,
        buffer: bytes,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
    ) -> None:
        left = memoryview(buffer)
        try:
            with anyio.fail_after(timeout):
                while left:
                    await anyio.wait_writable(self._socket)
                    with suppress(BlockingIOError):
                        left = left[self._socket.send(left) :]
        except TimeoutError as error:
            raise httpcore2.WriteTimeout(str(error)) from error
        except (OSError, ValueError, anyio.ClosedResourceError) as error:
            raise httpcore2.WriteError(str(error)) from error

    async def aclose(self) -> None:
        with suppress(ValueError):
            anyio.notify_closing(self._socket)
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("A unix socket has no TLS")

    def get_extra_info(self, info: str) -> object:
        """Whether bytes wait to be read: an idle connection that the engine has closed is not used again."""
        if info != "is_readable":
            return None
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True
