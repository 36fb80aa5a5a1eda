"""Writer — sends a peer's outbox to its socket.

Most peers are idle most of the time, and most of their frames are small. So there is no task for it: small frames are written
by a callback at the end of the loop's tick. A task is started only for work that must wait: a peer that does not read, a large
frame, a subscription that is fed from the disk, or a channel that ends; it ends when nothing is left to wait for.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from contextvars import Context, copy_context

import anyio
import anyio.abc
import anyio.to_thread
import sniffio

from agentvm.protocol.codec import Frame
from agentvm.protocol.connection import PeerConnection
from agentvm.runtime.channel import GONE, LARGE_CHARACTERS
from agentvm.server.readers import Reader
from agentvm.server.wire import Wire
from agentvm.vm import Peer

WRITE_MAX_BYTES = 65_536
"""Frames are written together up to about this size; then the peer must have taken most of it."""

LINGER_SECONDS = 5.0
"""Seconds a peer gets to read the frames that were left when its channel closed; then the socket is aborted."""

_encoders = anyio.CapacityLimiter(2)


def writing_context() -> Context:
    """Where callbacks write. Outside of a task anyio knows only from its context which library it runs on."""
    context = copy_context()
    context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


class Writer:
    """Sends one peer's frames in order."""

    __slots__ = ("_busy", "_connection", "_context", "_loop", "_peer", "_reader", "_tasks", "_wire")

    def __init__(
        self,
        peer: Peer,
        connection: PeerConnection,
        reader: Reader | None,
        wire: Wire,
        tasks: anyio.abc.TaskGroup,
        context: Context,
    ) -> None:
        """`context` is where frames are written: callers that wake the writer have another, with ids for its own log
        entries."""
        self._peer = peer
        self._connection = connection
        self._reader = reader
        self._wire = wire
        self._tasks = tasks
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._busy = False

    def __enter__(self) -> None:
        """Sends queued frames, and from now on new ones."""
        if self._reader is not None:
            # Each of its frames is accounted for, which often means to wait.
            self._busy = True
            self._tasks.start_soon(self._write)
        self._peer.channel.on_ready = self._wake
        if self._peer.channel.is_ready:
            self._wake()

    def __exit__(self, *_: object) -> None:
        self._busy = True
        self._peer.channel.on_ready = None

    def _wake(self) -> None:
        if self._peer.channel.closing is not None and self._tasks.cancel_scope.deadline == math.inf:
            # The writer may be waiting for a peer that does not read.
            self._tasks.cancel_scope.deadline = self._loop.time() + LINGER_SECONDS
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._flush, context=self._context)

    def _flush(self) -> None:
        channel, sent = self._peer.channel, False
        if channel.on_ready is None:
            return
        try:
            if channel.lagging and channel.closing is None:
                self._peer.outbox().feed_nowait()
            since, frames = channel.since, channel.take_small(WRITE_MAX_BYTES)
            if not frames:
                self._tasks.start_soon(self._write)
            elif self._wire.send_now(texts := self._connection.texts(frames)):
                channel.delivered()
                self._busy = False
                self._observe(since)
            else:
                self._tasks.start_soon(self._write, texts)
            sent = True
        except OSError:
            # The peer is gone; its reader notices too.
            channel.close(GONE)
            sent = True
        finally:
            if not sent:
                self._wire.abort()

    async def _write(self, texts: Sequence[str] = ()) -> None:
        """Sends these texts and the queued frames. The task of a reader never ends; another one does when nothing is left to
        send."""
        channel, reader = self._peer.channel, self._reader
        try:
            if texts:
                await self._wire.send_all(texts)
            outbox = self._peer.outbox()
            if reader is not None:
                await reader.greeted()
            while reader is not None or channel.is_ready:
                if not (frames := await outbox.take()):
                    break
                since = channel.since
                await self._send(frames)
                self._observe(since)
            else:
                channel.delivered()
                self._busy = False
                return
            closing = channel.closing or GONE
            if closing is not GONE:
                if reader is not None:
                    await reader.last_acks()
                await self._wire.send({"type": "websocket.close", "code": closing.code, "reason": closing.reason})
        except OSError:
            channel.close(GONE)

    def _observe(self, since: float) -> None:
        self._peer.vm.monitor.metrics.fanout_time.observe(int((time.monotonic() - since) * 1_000_000))

    async def _send(self, frames: list[Frame]) -> None:
        """Empties the list while sending, so that an idle peer holds no sent frames."""
        frames.reverse()
        texts: list[str] = []
        size = 0
        while frames:
            if self._reader is not None and self._reader.is_full:
                await self._wire.send_all(texts)
                texts, size = [], 0
                await self._reader.room()
            frame = frames.pop()
            if len(frame.bare) > LARGE_CHARACTERS:
                await self._wire.send_all(texts)
                texts, size = [], 0
                await anyio.to_thread.run_sync(self._connection.prepare, frame, limiter=_encoders)
                await self._wire.send_all(self._connection.texts([frame]))
                del frame
                # One at a time: each is in memory several times over until the peer takes it.
                await self._wire.drain()
                continue
            texts += self._connection.texts([frame])
            size += len(frame.bare)
            if size > WRITE_MAX_BYTES:
                await self._wire.send_all(texts)
                texts, size = [], 0
        if texts:
            await self._wire.send_all(texts)
