"""Stream — an answer that goes on: what comes is sent as it comes, until there is no more or the asker goes.

Nobody holds the server by it. There are only so many streams, of all and of one tenant; each has an end; who reads too slowly
is left; who loses the right to hear it is cut off at the next heartbeat; and all end when the server stops.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel

from agentvm.errors import Refused
from agentvm.model.ids import TenantId
from agentvm.operations.http_reply import Streamed, StreamSource

MOST: Final = 64
MOST_OF_TENANT: Final = 8
HEARTBEAT = 15.0
"""Seconds between two signs of life, and between two looks at whether the asker may still hear it."""
LONGEST = 3_600.0
"""Seconds until a stream ends by itself; whoever still wants it asks again."""
SLOWEST = 30.0
"""Seconds that one piece may take to be sent."""


Still = Callable[[], Awaitable[bool]]
"""Whether the asker may still hear it."""
Write = Callable[[bytes], Awaitable[None]]


class Streams:
    """All that run."""

    def __init__(self, *, most: int = MOST, most_of_tenant: int = MOST_OF_TENANT) -> None:
        self._most, self._most_of_tenant = most, most_of_tenant
        self._running: dict[anyio.CancelScope, TenantId] = {}
        self._closing = False

    def __len__(self) -> int:
        return len(self._running)

    def check(self, tenant_id: TenantId) -> None:
        """`Refused` when there is no room for another."""
        if self._closing:
            raise Refused("The server is stopping; ask again when it is back")
        if len(self._running) >= self._most or Counter(self._running.values())[tenant_id] >= self._most_of_tenant:
            raise Refused("Too many streams are open; close one, or ask again later")

    def reopen(self) -> None:
        """The server listens, perhaps again."""
        self._closing = False

    def end(self) -> None:
        """Ends them all, and begins no other."""
        self._closing = True
        for scope in self._running:
            scope.cancel()

    async def run(self, streamed: Streamed, tenant_id: TenantId, may: Still, send: Write) -> None:
        """Sends until it is over."""
        try:
            self.check(tenant_id)
        except Refused:
            # The last place was taken between the look and the beginning.
            return
        with anyio.move_on_after(LONGEST) as scope:
            self._running[scope] = tenant_id
            try:
                with streamed.opened() as source:
                    await _pump(source, streamed.heartbeat, may, send)
            finally:
                del self._running[scope]


async def _pump(source: StreamSource, heartbeat: bytes, may: Still, send: Write) -> None:
    looked = anyio.current_time()
    # At once: who waits for the first entry must see that it has begun.
    piece: bytes | None = heartbeat
    while True:
        with anyio.move_on_after(SLOWEST) as slow:
            await send(piece or heartbeat)
        if slow.cancelled_caught:
            return
        piece = None
        with anyio.move_on_after(max(0.0, looked + HEARTBEAT - anyio.current_time())):
            piece = await source.take()
        if piece == b"":
            return
        if anyio.current_time() >= looked + HEARTBEAT:
            looked = anyio.current_time()
            if not await may():
                return
