"""Stream — an answer that goes on: what comes is sent as it comes, until there is no more or the asker goes.

Nobody holds the server by it. There are only so many streams, of all and of one tenant; each has an end; who reads too slowly
is left; who loses the right to hear it is cut off at the next heartbeat; and all end when the server stops.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import anyio.lowlevel
from litestar import Request, Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send

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


class StreamingResponse(Response[bytes]):
    """Litestar's way to send it."""

    def __init__(self, run: Callable[[Write], Awaitable[None]], *, media_type: str, headers: dict[str, str]) -> None:
        super().__init__(b"", status_code=200, media_type=media_type, headers=headers)
        self._run = run

    # Any: Litestar hands over a dozen things that only it knows.
    def to_asgi_response(self, app: Any, request: Request[Any, Any, Any], **about: Any) -> ASGIResponse:
        headers = {**(about.get("headers") or {}), **self.headers}
        return _Body(self._run, media_type=str(self.media_type), headers=headers, status_code=self.status_code)


class _Body(ASGIResponse):
    __slots__ = ("_run",)

    _should_set_content_length = False

    def __init__(self, run: Callable[[Write], Awaitable[None]], **about: Any) -> None:
        super().__init__(**about)
        self._run = run

    async def send_body(self, send: Send, receive: Receive) -> None:
        async def write(piece: bytes) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        async def until_gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                # Its body, of which there is none.
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(until_gone)
            await self._run(write)
            with anyio.move_on_after(SLOWEST):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            tasks.cancel_scope.cancel()
