"""A relay before a server that loses connections: it passes bytes on, and cuts one where it is told to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc

PIECE_BYTES = 65_536


@dataclass(slots=True)
class Relay:
    """`cuts` are texts of the server: after the first piece that holds one, its connection is closed, and the event is set."""

    port: int
    cuts: list[tuple[bytes, anyio.Event]] = field(default_factory=list)

    async def _pass(self, source: anyio.abc.ByteStream, target: anyio.abc.ByteStream, *, cuts: bool) -> None:
        while True:
            try:
                piece = await source.receive(PIECE_BYTES)
                await target.send(piece)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            hit = next((cut for cut in self.cuts if cuts and cut[0] in piece), None)
            if hit is not None:
                self.cuts.remove(hit)
                await target.aclose()
                hit[1].set()
                return

    async def _serve(self, client: anyio.abc.ByteStream, port: int) -> None:
        async with client, await anyio.connect_tcp("127.0.0.1", port) as server, anyio.create_task_group() as tasks:

            async def pass_on(source: anyio.abc.ByteStream, target: anyio.abc.ByteStream, cuts: bool) -> None:
                await self._pass(source, target, cuts=cuts)
                tasks.cancel_scope.cancel()

            tasks.start_soon(pass_on, client, server, False)
            tasks.start_soon(pass_on, server, client, True)


@asynccontextmanager
async def relaying(port: int, *cuts: tuple[bytes, anyio.Event]) -> AsyncIterator[Relay]:
    """Listens on a port of its own, and passes everything on to `port`."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        relay = Relay(listener.extra(anyio.abc.SocketAttribute.local_port), list(cuts))

        async def serve(client: anyio.abc.SocketStream) -> None:
            await relay._serve(client, port)

        tasks.start_soon(listener.serve, serve)
        yield relay
        tasks.cancel_scope.cancel()
