"""Stream — a streamed response: entries are sent as they arrive, until the source ends or the client disconnects.

Streams are bounded in number, in all and per tenant, and in time. A client that reads too slowly is disconnected; one that
loses its rights is cut off at the next heartbeat; and all streams end when the server stops.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel

from agentvm.errors import AgentVMError, Refused
from agentvm.log import get_logger
from agentvm.model.ids import TenantId
from agentvm.operations.http_reply import Streamed, StreamSource

logger = get_logger(__name__)

STREAMS_MAX: Final = 64
TENANT_STREAMS_MAX: Final = 8
FOLLOWERS_MAX: Final = 20_000
TENANT_FOLLOWERS_MAX: Final = 5_000
"""Streams that follow sessions; they count as connections, too, for which a tenant has a quota."""
HEARTBEAT_SECONDS = 15.0
"""Time between two heartbeats, and between two checks of the client's rights."""
STREAM_MAX_SECONDS = 3_600.0
"""Maximum duration of a stream; the client may open another."""
SEND_TIMEOUT_SECONDS = 30.0
"""Timeout of sending one piece."""


IsAllowed = Callable[[], Awaitable[bool]]
"""Returns whether the client still has the rights that the stream needs."""
Write = Callable[[bytes], Awaitable[None]]


class Streams:
    """The running streams."""

    def __init__(self, *, most: int = STREAMS_MAX, most_of_tenant: int = TENANT_STREAMS_MAX) -> None:
        self._most, self._most_of_tenant = most, most_of_tenant
        self._running: dict[anyio.CancelScope, TenantId] = {}
        self._of_tenant: Counter[TenantId] = Counter()
        self._closing = False

    def __len__(self) -> int:
        return len(self._running)

    def check(self, tenant_id: TenantId) -> None:
        """`Refused` when there is no room for another."""
        if self._closing:
            raise Refused("The server is shutting down; try again later")
        if len(self._running) >= self._most or self._of_tenant[tenant_id] >= self._most_of_tenant:
            raise Refused("Too many streams are open; close one, or try again later")

    def reopen(self) -> None:
        """Allows streams, when the server listens again."""
        self._closing = False

    def end(self) -> None:
        """Ends all streams, and refuses new ones."""
        self._closing = True
        for scope in self._running:
            scope.cancel()

    async def run(self, streamed: Streamed, tenant_id: TenantId, may: IsAllowed, send: Write) -> None:
        """Sends until the stream ends."""
        try:
            self.check(tenant_id)
        except Refused:
            # The last slot was taken between the check and the start.
            return
        with anyio.move_on_after(STREAM_MAX_SECONDS) as scope:
            self._running[scope] = tenant_id
            self._of_tenant[tenant_id] += 1
            try:
                with streamed.opened() as source:
                    await _pump(source, streamed.heartbeat, may, send)
            finally:
                with anyio.CancelScope(shield=True):
                    await _close(streamed)
                del self._running[scope]
                self._of_tenant[tenant_id] -= 1
                if not self._of_tenant[tenant_id]:
                    del self._of_tenant[tenant_id]


async def _close(streamed: Streamed) -> None:
    """Tells the source that its stream has ended. A failure is no answer any more: it is in the log alone."""
    if streamed.closed is None:
        return
    try:
        await streamed.closed()
    except AgentVMError as error:
        logger.warning("stream_not_closed", code=error.code, error=str(error))


async def _pump(source: StreamSource, heartbeat: bytes, may: IsAllowed, send: Write) -> None:
    looked = anyio.current_time()
    # At once: a client that waits for the first entry must see that the stream has begun.
    piece: bytes | None = heartbeat
    while True:
        with anyio.move_on_after(SEND_TIMEOUT_SECONDS) as slow:
            await send(piece or heartbeat)
        if slow.cancelled_caught:
            return
        piece = None
        with anyio.move_on_after(max(0.0, looked + HEARTBEAT_SECONDS - anyio.current_time())):
            piece = await source.take()
        if piece == b"":
            return
        if anyio.current_time() >= looked + HEARTBEAT_SECONDS:
            looked = anyio.current_time()
            if not await may():
                return
