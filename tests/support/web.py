"""A small web server on this machine for the tools under test: one function answers, and sees each request."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Replied:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: AsyncIterator[bytes] | None = None
    """Instead of `body`: sent as they come."""


Reply = Callable[[Asked], Awaitable[Replied] | Replied]


class Web:
    """The server's address, and the requests it got."""

    def __init__(self, reply: Reply, scheme: str) -> None:
        self.port = 0
        self.asked: list[Asked] = []
        self.connections = 0
        self.closed = anyio.Event()
        """Set when a client closes its connection before it has the whole response."""
        self._reply, self._scheme = reply, scheme

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}{path}"

    async def serve(self, stream: ByteStream) -> None:
        self.connections += 1
        connection = h11.Connection(h11.SERVER)
        async with stream:
            try:
                while await self._exchange(connection, stream):
                    connection.start_next_cycle()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, h11.ProtocolError):
                self.closed.set()

    async def _exchange(self, connection: h11.Connection, stream: ByteStream) -> bool:
        head, body = None, b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                try:
                    connection.receive_data(await stream.receive())
                except anyio.EndOfStream:
                    connection.receive_data(b"")
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.ConnectionClosed):
                return False
            else:
                break
        assert head is not None
        headers = {name.decode().lower(): value.decode() for name, value in head.headers}
        asked = Asked(head.method.decode(), head.target.decode(), headers, body)
        self.asked.append(asked)
        answer = self._reply(asked)
        await self._send(connection, stream, answer if isinstance(answer, Replied) else await answer)
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _send(self, connection: h11.Connection, stream: ByteStream, reply: Replied) -> None:
        sized = {} if reply.pieces is not None else {"content-length": str(len(reply.body))}
        head = h11.Response(status_code=reply.status, headers=[*sized.items(), *reply.headers.items()])
        await stream.send(connection.send(head) or b"")
        if reply.pieces is None:
            await stream.send(connection.send(h11.Data(data=reply.body)) or b"")
            await stream.send(connection.send(h11.EndOfMessage()) or b"")
            return
        async for piece in reply.pieces:
            await stream.send(connection.send(h11.Data(data=piece)) or b"")
        await stream.send(connection.send(h11.EndOfMessage()) or b"")


@asynccontextmanager
async def web(reply: Reply, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    """Serves on the loopback address, on a port of its own."""
    failure: Exception | None = None
    served = Web(reply, "http" if tls is None else "https")
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    served.port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        listening = listener if tls is None else TLSListener(listener, tls, standard_compatible=False)
        tasks.start_soon(listening.serve, served.serve)
        try:
            yield served
        except Exception as error:  # noqa: BLE001 - raised again, without the group of the server's tasks around it
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
