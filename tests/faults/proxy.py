"""A TCP proxy that can stop forwarding without closing anything, as a network does that drops every packet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc


class Proxy:
    """Stands between clients and a server."""

    def __init__(self, port: int, to: int) -> None:
        self._to = to
        self.port = port
        self._passing = anyio.Event()
        self._passing.set()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    def cut(self) -> None:
        """From now on nothing passes, in both directions, and nobody is told: not even that the other side has closed."""
        self._passing = anyio.Event()

    def mend(self) -> None:
        self._passing.set()

    async def serve(self, outside: anyio.abc.ByteStream) -> None:
        async with outside, await anyio.connect_tcp("127.0.0.1", self._to) as inside, anyio.create_task_group() as tasks:
            tasks.start_soon(self._forward, outside, inside)
            await self._forward(inside, outside)
            tasks.cancel_scope.cancel()

    async def _forward(self, source: anyio.abc.ByteStream, sink: anyio.abc.ByteStream) -> None:
        try:
            while True:
                await self._passing.wait()
                data = await source.receive()
                await self._passing.wait()
                await sink.send(data)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._passing.wait()
            await sink.aclose()


@asynccontextmanager
async def open_proxy(to: int) -> AsyncIterator[Proxy]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        proxy = Proxy(listener.extra(anyio.abc.SocketAttribute.local_port), to)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, proxy.serve)
            yield proxy
            tasks.cancel_scope.cancel()
